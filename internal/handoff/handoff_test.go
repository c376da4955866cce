package handoff_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/handoff"
)

var (
	errAbandoned = errors.New("abandoned")
	errBoom      = errors.New("boom")
)

type operation = func(context.Context) error

func fine(context.Context) error { return nil }

func twice(ctx context.Context, op operation) error { return errors.Join(op(ctx), op(ctx)) }

func TestTheOperationRunsOnTheGoroutineOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := handoff.Do(t.Context(), twice, func(context.Context) error { n++; return errBoom }, errAbandoned)
		require.Equal(t, errors.Join(errBoom, errBoom), err)
		require.Equal(t, 2, n)

		returned := false
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = handoff.Do(t.Context(), twice, func(context.Context) error { runtime.Goexit(); return nil }, errAbandoned)
			returned = true
		})
		wg.Wait()
		require.False(t, returned)
	})
}

// What escapes is on the heap also where it is not handed off.
func TestTheOperationDoesNotEscape(t *testing.T) {
	handsOff := false
	require.Zero(t, testing.AllocsPerRun(100, func() {
		n := 0
		op := func(context.Context) error { n++; return nil }
		if handsOff {
			_ = handoff.Do(context.Background(), twice, op, errAbandoned)
		}
		_ = op(context.Background())
	}))
}

func TestAPanicReachesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.PanicsWithValue(t, "bug", func() {
			_ = handoff.Do(t.Context(), func(context.Context, operation) error { panic("bug") }, fine, errAbandoned)
		})
		require.PanicsWithValue(t, "bug", func() {
			_ = handoff.Do(t.Context(), twice, func(context.Context) error { panic("bug") }, errAbandoned)
		})
	})
}

func TestAGoexitOfWhoCallsTheOperationIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := func(context.Context, operation) error { runtime.Goexit(); return nil }
		require.Equal(t, errAbandoned, handoff.Do(t.Context(), leave, fine, errAbandoned))
	})
}

func TestACallOfAnOperationThatIsGoneIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []error
		stubborn := func(ctx context.Context, op operation) error {
			heard = append(heard, op(ctx), op(ctx))
			return nil
		}
		require.Panics(t, func() {
			_ = handoff.Do(t.Context(), stubborn, func(context.Context) error { panic("bug") }, errAbandoned)
		})
		synctest.Wait()
		require.Equal(t, []error{errAbandoned, errAbandoned}, heard)
	})
}

func TestACallAfterTheEndIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan error, 1)
		early := func(ctx context.Context, op operation) error {
			time.AfterFunc(time.Second, func() { late <- op(ctx) })
			return errBoom
		}
		err := handoff.Do(t.Context(), early, func(context.Context) error { panic("called") }, errAbandoned)
		require.Equal(t, errBoom, err)
		require.Equal(t, errAbandoned, <-late)
	})
}
