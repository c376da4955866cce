package backoff_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
)

// setting makes the clock of the library read the time since now that elapsed says, and a time
// of day that is set by a step. A machine that was suspended has its clock ahead by the time
// that its monotonic clock stood still.
func setting(t *testing.T) (elapsed, step *time.Duration) {
	began := time.Now()
	elapsed, step = new(time.Duration), new(time.Duration)
	clock.Source = func() time.Time { return clocktest.Set(began.Add(*elapsed), *step) }
	t.Cleanup(func() { clock.Source = nil })
	return elapsed, step
}

var settings = []time.Duration{0, time.Second, -time.Second, time.Hour, -time.Hour, 8 * time.Hour, -365 * 24 * time.Hour}

func TestTheTimeOfACallIsNotMovedByAClockThatIsSet(t *testing.T) {
	for _, by := range settings {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			elapsed, step := setting(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			r := backoff.Policy{MaxElapsed: time.Minute, MaxAttempts: -1, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}.Start(ctx)
			_, ok := r.Begin(0)
			require.True(t, ok)
			*step, *elapsed = by, 59*time.Second
			wait, again := r.Retry(errBoom)
			require.True(t, again, "%v", r.Err())
			require.Equal(t, time.Second, wait)
			_, ok = r.Begin(0)
			require.True(t, ok)
			*elapsed++
			_, again = r.Retry(errBoom)
			require.False(t, again)
			require.ErrorIs(t, r.Err(), backoff.ErrExhausted, "out of time")
		})
	}
}

func TestAReconnectLoopMeasuresItsRunsByAClockThatIsNotSet(t *testing.T) {
	for _, by := range settings {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			elapsed, step := setting(t)
			attempts := []int{}
			s := backoff.Supervisor{ResetAfter: time.Minute, Policy: backoff.Policy{Schedule: backoff.Constant(1), Observer: func(_ context.Context, e backoff.Event) {
				attempts = append(attempts, e.Attempt)
			}}}
			runs := 0
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_ = s.Run(ctx, func(context.Context) error {
				switch runs++; runs {
				case 1, 2:
					*step += by
					*elapsed += 59 * time.Second
				case 3:
					*step += by
					*elapsed += time.Minute
				case 4:
					cancel()
				}
				return errBoom
			})
			require.Equal(t, []int{1, 2, 1}, attempts[:3], "the third run lasted a minute")
		})
	}
}
