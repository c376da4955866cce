package lazyctx_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/hedge/internal/lazyctx"
)

var (
	errLost = errors.New("lost")
	errGone = errors.New("gone")
)

type key struct{}

// asks says whether a context was asked for Done before it ends.
var asks = map[string]func(context.Context){
	"asked":     func(ctx context.Context) { ctx.Done() },
	"not asked": func(context.Context) {},
}

// parent returns a context with a value and a deadline.
func parent(t *testing.T) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
	ctx, stop := context.WithTimeout(ctx, time.Hour)
	t.Cleanup(stop)
	return ctx, cancel
}

// each runs f for a context that was asked, and for one that was not.
func each(t *testing.T, f func(t *testing.T, c *lazyctx.Context, cancelParent context.CancelCauseFunc)) {
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := parent(t)
				c := &lazyctx.Context{Parent: ctx}
				ask(c)
				f(t, c, cancel)
			})
		})
	}
}

func TestAContextHasTheValuesAndTheDeadlineOfItsParent(t *testing.T) {
	each(t, func(t *testing.T, c *lazyctx.Context, _ context.CancelCauseFunc) {
		for range 2 {
			deadline, ok := c.Deadline()
			require.True(t, ok)
			require.Equal(t, time.Hour, time.Until(deadline))
			require.Equal(t, "v", c.Value(key{}))
			require.Nil(t, c.Value("another"))
			c.Cancel(nil)
		}
	})
}

func TestAContextEndsWithItsParentCauseAndAll(t *testing.T) {
	each(t, func(t *testing.T, c *lazyctx.Context, cancelParent context.CancelCauseFunc) {
		require.NoError(t, c.Err())
		cancelParent(errGone)
		require.Equal(t, context.Canceled, c.Err())
		<-c.Done()
		require.Equal(t, context.Canceled, c.Err())
		require.Equal(t, errGone, context.Cause(c))
	})
}

func TestAContextThatIsCancelledEndsForThatCause(t *testing.T) {
	for cause, want := range map[error]error{errLost: errLost, nil: context.Canceled} {
		each(t, func(t *testing.T, c *lazyctx.Context, cancelParent context.CancelCauseFunc) {
			c.Cancel(cause)
			require.Equal(t, context.Canceled, c.Err())
			require.Equal(t, want, context.Cause(c))
			<-c.Done()
			require.Equal(t, c.Done(), c.Done())
			cancelParent(errGone)
			require.Equal(t, context.Canceled, c.Err())
			require.Equal(t, want, context.Cause(c))
			c.Cancel(errLost)
			require.Equal(t, want, context.Cause(c), "it ends once")
		})
	}
}

func TestAContextDoesNotEndForALaterDeadlineOfItsParent(t *testing.T) {
	each(t, func(t *testing.T, c *lazyctx.Context, _ context.CancelCauseFunc) {
		c.Cancel(nil)
		time.Sleep(2 * time.Hour)
		require.Equal(t, context.Canceled, c.Err())
		<-c.Done()
		require.Equal(t, context.Canceled, c.Err())
		require.Equal(t, context.Canceled, context.Cause(c))
	})
}

func TestADerivedContextEndsWithItAndNeedsNoGoroutine(t *testing.T) {
	each(t, func(t *testing.T, c *lazyctx.Context, _ context.CancelCauseFunc) {
		before := runtime.NumGoroutine()
		derived, cancel := context.WithCancel(context.WithValue(c, key{}, 1))
		defer cancel()
		require.LessOrEqual(t, runtime.NumGoroutine(), before)
		require.NoError(t, derived.Err())
		c.Cancel(errLost)
		require.Equal(t, context.Canceled, derived.Err())
		require.Equal(t, errLost, context.Cause(derived))
	})
}

func TestAContextDerivedFromOneThatHasEndedHasEnded(t *testing.T) {
	each(t, func(t *testing.T, c *lazyctx.Context, _ context.CancelCauseFunc) {
		c.Cancel(nil)
		derived, cancel := context.WithCancel(c)
		defer cancel()
		require.Equal(t, context.Canceled, derived.Err())
	})
}

func TestAContextThatIsNotAskedAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		c := &lazyctx.Context{Parent: ctx}
		if c.Err() != nil || c.Value(key{}) != nil {
			panic("it has ended")
		}
		c.Cancel(nil)
	}), 1., "the context itself")
}

func TestAContextMayBeAskedAndCancelledByManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			c := &lazyctx.Context{Parent: t.Context()}
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() { <-c.Done() })
				wg.Go(func() { c.Cancel(nil) })
			}
			wg.Wait()
			require.Equal(t, context.Canceled, c.Err())
		}
	})
}
