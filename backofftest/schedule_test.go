package backofftest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/shape"
)

func TestSchedulesOfThePackagePass(t *testing.T) {
	for _, s := range []backoff.Schedule{
		backoff.Constant(time.Second), backoff.Linear{}, backoff.Exponential{}, backoff.Exponential{Max: -1},
		backoff.Linear{Step: maxDuration, Max: -1}, shape.Truncated(backoff.Exponential{}, time.Second), backoff.Sequence(1, 2, 3),
	} {
		Schedule(t, s)
	}
}

// method is a Schedule without the checks of ScheduleFunc.
type method func(int) time.Duration

func (m method) Delay(retry int) time.Duration { return m(retry) }

func TestASchedulesFaultsAreFound(t *testing.T) {
	for want, s := range map[string]method{
		"there is no such retry": func(int) time.Duration { return time.Second },
		"must saturate":          func(n int) time.Duration { return time.Duration(min(1, max(0, n))) << max(0, n) },
		"has no state": func(n int) time.Duration {
			if n <= 0 {
				return 0
			}
			return time.Duration(rand.Int64())
		},
	} {
		requireCaught(t, want, func(t testing.TB) { Schedule(t, s) })
	}
}
