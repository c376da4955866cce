package backoff_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/inbound"
)

// An ownCause is an error that wraps itself.
type ownCause struct{}

func (e *ownCause) Error() string { return "own cause" }
func (e *ownCause) Unwrap() error { return e }

func TestAnErrorThatWrapsItselfDoesNotHangABreaker(t *testing.T) {
	ctx, cancel := inbound.WithDeadline(t.Context(), time.Now().Add(time.Minute))
	defer cancel()
	var b backoff.Breaker
	failed := &ownCause{}
	require.Same(t, failed, b.Do(ctx, func(context.Context) error { return failed }))
}

// The first of a group of calls to give up has the others cancelled, and then
// only its text comes back.
func TestACallThatGaveUpIsKnownByItsTextThoughOthersGaveUpLater(t *testing.T) {
	for name, end := range map[string]func(context.CancelFunc){
		"cancelled": func(cancel context.CancelFunc) { cancel() },
		"alone":     func(context.CancelFunc) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			outer, attempts := backoff.Policy{AttemptTimeout: time.Minute}, 0
			err := outer.Do(t.Context(), func(ctx context.Context) error {
				attempts++
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				var group sync.WaitGroup
				var once sync.Once
				var first error
				for i := range 6 {
					group.Go(func() {
						inner := backoff.Policy{Schedule: backoff.Constant(time.Duration(i+1) * time.Second), Jitter: backoff.NoJitter}
						err := inner.Do(ctx, func(context.Context) error { return fmt.Errorf("call %d", i) })
						once.Do(func() {
							first = err
							end(cancel)
						})
					})
				}
				group.Wait()
				return fmt.Errorf("group: %v", first)
			})
			require.ErrorContains(t, err, "call 0", name)
			require.Equal(t, 1, attempts, name)
		})
	}
}
