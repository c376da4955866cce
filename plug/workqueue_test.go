package plug_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/plug"
)

func TestWorkqueueCountsEachItem(t *testing.T) {
	l := plug.Workqueue[string](steps)
	require.Equal(t, 100*time.Millisecond, l.When("a"))
	require.Equal(t, 200*time.Millisecond, l.When("a"))
	require.Equal(t, 100*time.Millisecond, l.When("b"))
	require.Equal(t, 2, l.NumRequeues("a"))
	l.Forget("a")
	l.Forget("never seen")
	require.Zero(t, l.NumRequeues("a"))
	require.Equal(t, 100*time.Millisecond, l.When("a"))
	for range 100 {
		require.LessOrEqual(t, l.When("a"), time.Second)
	}
}

func TestWorkqueueIsSafeForConcurrentUse(t *testing.T) {
	l := plug.Workqueue[int](steps)
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			for range 100 {
				l.When(i % 2)
			}
			l.NumRequeues(i)
		})
	}
	workers.Wait()
	require.Equal(t, 400, l.NumRequeues(0))
}

func TestDelayFuncCounts(t *testing.T) {
	next := plug.DelayFunc(steps)
	for _, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		require.Equal(t, want*time.Millisecond, next())
	}
}

func TestShapesThatCannotRefuseFallBackOnTheZeroPolicy(t *testing.T) {
	longest := time.Duration(0)
	for range 100 {
		longest = max(longest, plug.DelayFunc(invalid)(), plug.Workqueue[int](invalid).When(1))
	}
	require.Positive(t, longest)
	require.LessOrEqual(t, longest, 100*time.Millisecond)
}
