package foreign

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

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
		s.done(call, backoff.Result{Outcome: backoff.OutcomeNotSent})
		s.done(retry, backoff.Result{Outcome: backoff.OutcomeNotSent})
		counted()
		time.Sleep(9 * time.Second)
		counted()
	})
}
