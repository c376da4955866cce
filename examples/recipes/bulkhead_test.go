package recipes

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
)

var converter = &guard.Service{
	Budget:     &limit.Concurrency{Max: 10}, // the eleventh call waits
	MaxWaiting: 1000,                        // a call beyond these ends at once
}

// Of 30 calls ten run at the same time. The others wait, and none fails.
func Example_bulkhead() {
	ctx := context.Background()
	var running, most, failed atomic.Int64
	convert := func(context.Context) error {
		defer running.Add(-1)
		for n, m := running.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(50 * time.Millisecond)
		return nil
	}
	call := func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute) // or a call waits for 5 s at most
		defer cancel()
		err := converter.Do(ctx, backoff.Policy{Name: "convert"}, convert)

		if err != nil {
			failed.Add(1)
		}
	}
	var all sync.WaitGroup
	for range 30 {
		all.Go(call)
	}
	all.Wait()
	fmt.Println(most.Load(), "at the same time;", failed.Load(), "failed")
	// Output: 10 at the same time; 0 failed
}
