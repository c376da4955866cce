// Package traffic makes the calls of the examples that need load.
package traffic

import (
	"context"
	"sync"
	"time"
)

// Steady starts calls at a steady rate until ctx ends, as users do, no matter
// how long the calls take. It returns when all calls have returned.
func Steady(ctx context.Context, perSecond int, call func()) {
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			calls.Go(call)
		}
	}
}
