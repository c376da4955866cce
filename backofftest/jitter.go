package backofftest

import (
	"math"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
)

// The arguments that jitters are checked with.
var (
	delays = []time.Duration{0, 1, 2, 3, time.Millisecond, 100 * time.Millisecond, 30 * time.Second, 1<<53 - 1, 1<<53 + 1, maxDuration / 3, maxDuration/2 + 1, maxDuration - 1, maxDuration}
	draws  = []float64{0, math.SmallestNonzeroFloat64, 0x1p-53, 0.1, 1. / 3, 0.5, 0.75, 1 - 0x1p-53}
)

// Jitter checks that a backoff.Jitter keeps its contract. No wait is negative,
// for any delay, previous wait and random number. The same arguments give the
// same wait, to any number of callers at the same time. Run the test with
// -race.
func Jitter(t testing.TB, j backoff.Jitter) {
	t.Helper()
	var first []time.Duration
	for i := range len(delays) * len(delays) * len(draws) {
		delay, prev, u := arguments(i)
		d := j(delay, prev, u)
		if d < 0 {
			t.Fatalf("a delay of %v after a wait of %v, and a draw of %v, give a wait of %v, want 0 or more: the arithmetic must saturate", delay, prev, u, d)
		}
		first = append(first, d)
	}
	sameAgain(t, first, func(i int) time.Duration { return j(arguments(i)) },
		"asked again, it answers otherwise: what is random about a Jitter is in its argument u, what it remembers in prev")
}

// arguments returns the ith combination of them.
func arguments(i int) (delay, prev time.Duration, u float64) {
	i, draw := i/len(draws), i%len(draws)
	return delays[i/len(delays)], delays[i%len(delays)], draws[draw]
}
