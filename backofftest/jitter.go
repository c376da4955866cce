package backofftest

import (
	"errors"
	"fmt"
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
	each := func(f func(delay, prev time.Duration, u float64)) {
		for _, delay := range delays {
			for _, prev := range delays {
				for _, u := range draws {
					f(delay, prev, u)
				}
			}
		}
	}
	var first []time.Duration
	var err error
	each(func(delay, prev time.Duration, u float64) {
		d := j(delay, prev, u)
		if d < 0 && err == nil {
			err = fmt.Errorf("a delay of %v after a wait of %v, and a draw of %v, give a wait of %v, want 0 or more: the arithmetic must saturate", delay, prev, u, d)
		}
		first = append(first, d)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = concurrently(16, func(int) (err error) {
		i := 0
		each(func(delay, prev time.Duration, u float64) {
			if j(delay, prev, u) != first[i] {
				err = errors.New("asked again, it answers otherwise: what is random about a Jitter is in its argument u, what it remembers in prev")
			}
			i++
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
