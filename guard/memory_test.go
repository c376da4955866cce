//go:build !race

package guard_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Without the goroutine and the context of its caller.
func TestAWaitingCallCostsLittleMemoryAndNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 10_000
		_, s := tripped(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		var all sync.WaitGroup
		begin := make(chan struct{})
		for range calls {
			all.Go(func() { <-begin; _ = s.Do(ctx, once, okay) })
		}
		synctest.Wait()
		used, goroutines := inUse(), runtime.NumGoroutine()
		close(begin)
		synctest.Wait()
		require.Equal(t, calls, s.State().Waiting)
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
		each := (inUse() - used) / calls
		t.Logf("%d bytes for each", each)
		require.Less(t, each, uint64(8<<10))
		cancel()
		all.Wait()
	})
}

// inUse returns the bytes of memory in use, with those of stacks.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
