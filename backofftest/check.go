package backofftest

import (
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

// concurrently calls f n times at once, and returns one of the errors.
func concurrently(n int, f func(i int) error) (err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		group.Go(func() {
			if e := f(i); e != nil {
				mu.Lock()
				defer mu.Unlock()
				err = e
			}
		})
	}
	group.Wait()
	return err
}
