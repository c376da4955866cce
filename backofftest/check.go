package backofftest

import (
	"cmp"
	"errors"
	"math"
	"sync"
	"testing"
	"time"
)

const (
	maxDuration = time.Duration(math.MaxInt64)
	limit       = 20 * time.Second // until a check must have ended
)

// within fails the test if check fails, or has not returned after the limit.
func within(t testing.TB, check func() error, late string) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- check() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(limit):
		t.Fatalf(late, limit)
	}
}

// sameAgain asks for each of first again, from many goroutines at once. It fails the
// test, and says wrong, if an answer differs.
func sameAgain(t testing.TB, first []time.Duration, ask func(i int) time.Duration, wrong string) {
	t.Helper()
	err := concurrently(16, func(int) error {
		for i, d := range first {
			if ask(i) != d {
				return errors.New(wrong)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// concurrently calls f n times at once, and returns one of the errors.
func concurrently(n int, f func(i int) error) error {
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return cmp.Or(errs...)
}
