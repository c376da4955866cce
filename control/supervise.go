package control

import (
	"context"
	"time"

	"github.com/gobackoff/backoff"
)

// Supervise is [backoff.Supervisor.Run] of s under the policy of h, as it is at
// the start of each run. It does not use s.Policy, nor the MaxAttempts of the
// policy. A new spec holds from the next run on, with its schedule and its limits
// counted from the beginning.
//
// While retries are off, no run begins; a run under way goes on. When they are
// on again, Supervise waits as before a first retry, so that the loops of a
// fleet do not come back together, and goes on. The end of ctx ends such a pause
// at once.
func (h *Handle) Supervise(ctx context.Context, s backoff.Supervisor, op func(context.Context) error) error {
	for {
		now := h.state.Load()
		if now.paused {
			now = h.awaitOn(ctx)
		}
		ended, err := h.superviseUntilChange(ctx, s, now, op)
		if ended {
			return err
		}
	}
}

// superviseUntilChange runs s until the policy changes, which is not the end.
func (h *Handle) superviseUntilChange(ctx context.Context, s backoff.Supervisor, now *state, op func(context.Context) error) (ended bool, err error) {
	whole := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := false
	s.Policy = now.runs
	s.Policy.MaxAttempts = 0
	if observe := s.Policy.Observer; observe != nil {
		s.Policy.Observer = func(ctx context.Context, e backoff.Event) {
			if !changed || e.Kind != backoff.EventGiveUp {
				observe(ctx, e)
			}
		}
	}
	err = s.Run(ctx, func(run context.Context) error {
		if h.state.Load() != now && whole.Err() == nil {
			changed = true
			cancel() // so that neither budget nor observer takes this for a run
			return ctx.Err()
		}
		return op(run)
	})
	return !changed, err
}

// awaitOn waits until retries are on, and returns the state in which they are,
// or the last one before ctx ended.
func (h *Handle) awaitOn(ctx context.Context) *state {
	for {
		s := h.state.Load()
		var spread <-chan time.Time // nil while retries are off
		if !s.paused {
			spread = time.After(s.runs.WaitBefore(1))
		}
		select {
		case <-spread:
			return s
		case <-s.over:
		case <-ctx.Done():
			return s
		}
	}
}
