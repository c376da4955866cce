package clock

import (
	"context"
	"time"
)

// Sleep waits for d, see [Wait], or until ctx ends. It reports whether d passed before ctx
// ended. A d of 0 or less has passed already. Sleep waits by the real clock,
// also where Source replaces it.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		d = Wait(d)
	}
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
