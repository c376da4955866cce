package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// The source of a token may ask for it with a context of its own, as one of package oauth2
// does. A probe that waits for that call, which the circuit refuses, says nothing, and so does
// the next one.
func TestACallThatCallsItsOwnServiceWithAnotherContextOutlivesAnOutage(t *testing.T) {
	for _, failFast := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			serve := func(context.Context) error {
				time.Sleep(5 * time.Millisecond)
				if down.Load() {
					return errors.New("down")
				}
				return nil
			}
			s := &guard.Service{Name: "orders", FailFast: failFast}
			within := func(d time.Duration, op func(context.Context) error) error {
				ctx, cancel := context.WithTimeout(context.Background(), d)
				defer cancel()
				return s.Do(ctx, backoff.Policy{}, op)
			}
			call := func() error {
				time.Sleep(100 * time.Millisecond)
				return within(5*time.Second, func(ctx context.Context) error {
					if err := within(3*time.Second, serve); err != nil {
						return fmt.Errorf("no token: %w", err)
					}
					return serve(ctx)
				})
			}
			require.NoError(t, call())
			down.Store(true)
			for began := time.Now(); time.Since(began) < time.Hour; {
				require.Error(t, call())
			}
			down.Store(false)
			for began := time.Now(); call() != nil; {
				require.Less(t, time.Since(began), 2*time.Minute)
			}
		})
	}
}
