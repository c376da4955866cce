package recipes

import (
	"context"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control/wake"
)

// A refresher fetches a value every few seconds, and when now is called.
type refresher struct {
	fetch func(context.Context) error // makes one request, and stores the value
	every time.Duration
	kick  chan struct{} // make(chan struct{}, 1)
	waits wake.Signal   // of the waits after failures
}

func (r *refresher) run(ctx context.Context) error {
	policy := backoff.Policy{Name: "config", Schedule: backoff.Exponential{Max: time.Minute}} // after failures
	loop := backoff.Supervisor{Policy: policy, ResetAfter: r.every / 2}                       // more than a fetch takes
	return loop.Run(r.waits.Context(ctx), func(ctx context.Context) error {
		for {
			select {
			case <-r.kick: // an older call of now: this fetch is its own
			default:
			}
			if err := r.fetch(ctx); err != nil {
				return err // also a 404; only backoff.Permanent(err) ends the loop
			}
			select {
			case <-time.After(r.every):
			case <-r.kick:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// now ends the wait, whichever it is: the value is fetched within a second.
func (r *refresher) now() {
	select {
	case r.kick <- struct{}{}: // ends the wait inside
	default:
	}
	r.waits.Wake() // ends a wait between two runs
}
