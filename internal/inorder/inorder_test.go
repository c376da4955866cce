package inorder

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// owner has a lock, as a breaker has.
type owner struct{ mu Mutex }

// add lets receive have values once the lock is given back.
func (o *owner) add(receive func(int), values ...int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, v := range values {
		o.mu.Add(func() { receive(v) })
	}
}

func TestFunctionsRunInOrderBeforeUnlockReturns(t *testing.T) {
	var o owner
	var got []int
	o.add(nil)
	o.add(func(v int) { got = append(got, v) }, 1, 2, 3)
	require.Equal(t, []int{1, 2, 3}, got)
}

func TestAFunctionMayAddAnother(t *testing.T) {
	var o owner
	var got []int
	var receive func(int)
	receive = func(v int) {
		if got = append(got, v); v < 3 {
			o.add(receive, v+1)
		}
	}
	o.add(receive, 1)
	require.Equal(t, []int{1, 2, 3}, got)
}

func TestAFunctionThatEndsItsGoroutineEndsNoOther(t *testing.T) {
	var o owner
	var got []int
	o.add(func(v int) { got = append(got, v); runtime.Goexit() }, 1, 2)
	require.Equal(t, []int{1, 2}, got)
}

func TestOneUnlockRunsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o owner
		var got []int
		release := make(chan struct{})
		receive := func(v int) { <-release; got = append(got, v) }
		go o.add(receive, 1)
		synctest.Wait()
		o.add(receive, 2) // does not wait
		close(release)
		synctest.Wait()
		require.Equal(t, []int{1, 2}, got)
		require.Nil(t, o.mu.queue.waiting, "what has run is let go")
	})
}

func TestManyAddAtOnce(t *testing.T) {
	var o owner
	var got []int
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for n := range 500 {
				o.add(func(v int) { got = append(got, v) }, 500*g+n)
			}
		})
	}
	group.Wait()
	o.add(func(v int) { got = append(got, v) }, -1)
	require.Len(t, got, 4001)
	for g := range 8 {
		of := slices.DeleteFunc(slices.Clone(got), func(v int) bool { return v < 500*g || v >= 500*(g+1) })
		require.True(t, slices.IsSorted(of))
	}
}
