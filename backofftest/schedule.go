package backofftest

import (
	"math"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
)

// The retries that schedules are asked about.
var retries = []int{1, 2, 3, 4, 5, 10, 31, 32, 33, 62, 63, 64, 65, 100, 1000, 1_000_000, math.MaxInt32, math.MaxInt}

// Schedule checks that a backoff.Schedule keeps its contract. It has no delay
// before the first attempt, and no negative delay, even where the arithmetic
// could overflow. It always returns the same delay, to any number of callers
// at the same time. Run the test with -race.
func Schedule(t testing.TB, s backoff.Schedule) {
	t.Helper()
	for _, retry := range []int{0, -1, math.MinInt} {
		if d := s.Delay(retry); d != 0 {
			t.Fatalf("Delay(%d) is %v, want 0: there is no such retry", retry, d)
		}
	}
	first := make([]time.Duration, len(retries))
	for i, retry := range retries {
		if first[i] = s.Delay(retry); first[i] < 0 {
			t.Fatalf("Delay(%d) is %v, want 0 or more: the arithmetic must saturate", retry, first[i])
		}
	}
	sameAgain(t, first, func(i int) time.Duration { return s.Delay(retries[i]) },
		"asked again, it answers otherwise: a Schedule has no state, and no random numbers")
}
