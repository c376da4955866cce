package wake_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control/wake"
)

// The call is in a wait of an hour when the network comes back.
func ExampleSignal() {
	var network wake.Signal
	ctx := network.Context(context.Background())
	policy := backoff.Policy{Schedule: backoff.Sequence(10*time.Millisecond, time.Hour), Jitter: backoff.NoJitter}
	attempts := 0

	err := policy.Do(ctx, func(context.Context) error {
		attempts++
		if attempts == 2 {
			time.AfterFunc(50*time.Millisecond, network.Wake) // or NetworkManager, a router's hook, SIGCONT
		}
		if attempts < 3 {
			return errors.New("network is down")
		}
		return nil
	})

	fmt.Println(attempts, err)
	// Output: 3 <nil>
}
