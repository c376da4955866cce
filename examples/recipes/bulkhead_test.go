package recipes

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
)

var converting = backoff.Stack(
	&backoff.Patience{MaxWaiting: 1000}, // a call beyond these ends at once
	backoff.Policy{Name: "convert", Budget: &limit.Concurrency{Max: 10}},
)

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
		ctx, cancel := context.WithTimeout(ctx, time.Minute) // or a call may wait for good
		defer cancel()
		err := converting.Do(ctx, convert)

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
