package backofftest

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/gobackoff/backoff"
)

var errService = errors.New("backofftest: the service is down")

// Observer checks that a backoff.Observer keeps its contract. It accepts every
// kind of event, from many calls at a time, and after their contexts have
// ended. It does not panic and returns soon. It does not change the event's
// header. Run the test with -race.
func Observer(t testing.TB, o backoff.Observer) {
	t.Helper()
	header := map[string][]string{"Retry-After": {"1", "2"}}
	within(t, 16, func(int) error { return observeAll(o, header) }, "the Observer has not returned after %v: the call waits for it")
	if !maps.EqualFunc(header, map[string][]string{"Retry-After": {"1", "2"}}, slices.Equal) {
		t.Fatalf("the Observer changed the header of an event: %v", header)
	}
}

// observeAll gives an Observer events of every kind, and of some that do not
// exist.
func observeAll(o backoff.Observer, header map[string][]string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the Observer panicked")
		}
	}()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for kind := range backoff.EventKind(32) {
		for _, ctx := range []context.Context{context.Background(), ended} {
			o(ctx, backoff.Event{Kind: kind})
			o(ctx, backoff.Event{Kind: kind, Err: errService, Attempt: math.MaxInt, Elapsed: maxDuration, Wait: maxDuration, Header: header})
		}
	}
	return nil
}
