package foreign

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// The sequences of the SDK's TestAdaptiveRateLimit_cubic: 10 a second were
// throttled at 5 s.
func TestCubicByTheTestOfTheSDK(t *testing.T) {
	type answer struct {
		at        time.Duration
		throttled bool
		want      float64
	}
	for name, answers := range map[string][]answer{
		"success": {{5, false, 7}, {6, false, 9.64893600966}, {7, false, 10.000030849917364}, {8, false, 10.453284520772092},
			{9, false, 13.408697022224185}, {10, false, 21.26626835427364}, {11, false, 36.425998516920465}},
		"mixed": {{5, false, 7}, {6, false, 9.64893600966}, {7, true, 6.754255206761999}, {8, true, 4.727978644733399},
			{9, false, 4.670125557970046}, {10, false, 4.770870456867401}, {11, false, 6.011819748005445}, {12, false, 10.792973431384178}},
	} {
		c := cubic{most: 10, throttled: 5 * time.Second}
		rate := 0.0
		for _, a := range answers {
			at := a.at * time.Second
			if a.throttled {
				rate = c.throttle(rate, at)
				c.most = rate // there, the test sets it to the rate after the cut
			} else {
				rate = c.success(at)
			}
			require.InDelta(t, a.want, rate, 1e-9, "%s: at %v", name, at)
		}
	}
}

// What is taken back comes out of the window where it was counted.
func TestAShareTakesBackFromWhereItCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s share
		reserve := func(number int) backoff.Ticket {
			ticket, _, ok := s.reserve(backoff.Attempt{Number: number}, 10*time.Second, time.Second, func(_, _, _ uint64) bool { return true })
			require.True(t, ok)
			return ticket
		}
		counted := func() {
			requests, retries := s.stats(10 * time.Second)
			require.Equal(t, []uint64{1, 1}, []uint64{requests, retries})
		}
		call, retry := reserve(1), reserve(2)
		time.Sleep(3 * time.Second)
		reserve(1)
		reserve(2)
		s.done(call, backoff.Result{NotSent: true})
		s.done(retry, backoff.Result{NotSent: true})
		counted()
		time.Sleep(9 * time.Second)
		counted()
	})
}
