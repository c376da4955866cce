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

// within calls check n times at once. It fails the test if one of them fails, or has not
// returned after the limit.
func within(t testing.TB, n int, check func(i int) error, late string) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- concurrently(n, check) }()
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
	within(t, 16, func(int) error {
		for i, d := range first {
			if ask(i) != d {
				return errors.New(wrong)
			}
		}
		return nil
	}, "it has not answered after %v: it must not block")
}

// mistake returns err, or an error that says wrong if there is a mistake.
func mistake(err error, made bool, wrong string) error {
	if err == nil && made {
		return errors.New(wrong)
	}
	return err
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
