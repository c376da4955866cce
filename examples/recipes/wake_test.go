package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control/wake"
)

var network wake.Signal // of the whole program: ctx = network.Context(ctx)

// wakeUp gives the signal whenever the machine was suspended, until ctx ends. A ticker
// stands still meanwhile, and the wall clock does not.
func wakeUp(ctx context.Context, now func() time.Time, every time.Duration, awake func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for last := now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		seen := now().Round(0) // without its monotonic reading, which may stand still, too
		if seen.Sub(last) > 2*every {
			awake()
		}
		last = seen
	}
}

// A laptop is closed while a loop is in a wait of an hour, and opened two hours later: the
// wall clock jumps. The loop connects at once.
func Example_wake() {
	ctx, stop := context.WithCancel(network.Context(context.Background()))
	defer stop()
	closed := make(chan time.Time, 1) // when the laptop was closed; the clock jumps from then on
	now := func() time.Time {
		select {
		case at := <-closed:
			closed <- at
			return time.Now().Add(2 * time.Hour)
		default:
			return time.Now()
		}
	}
	go wakeUp(ctx, now, 50*time.Millisecond, network.Wake)
	policy := backoff.Policy{Schedule: backoff.Constant(time.Hour), Jitter: backoff.NoJitter}
	runs, began := 0, time.Now()

	backoff.Supervisor{Policy: policy}.Run(ctx, func(ctx context.Context) error {
		if runs++; runs == 1 {
			time.AfterFunc(100*time.Millisecond, func() { closed <- time.Now() })
			return errors.New("network is down")
		}
		fmt.Println("connected again, within seconds:", time.Since(began) < time.Minute)
		stop()
		return nil
	})
	// Output: connected again, within seconds: true
}
