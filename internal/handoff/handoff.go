// Package handoff runs an operation on the goroutine of its caller for somebody
// who runs on another one. An operation that is passed to unknown code escapes
// to the heap, with all that it captures. One that is handed off does not.
package handoff

import "context"

// Do is do(ctx, op), but do runs on a goroutine of its own, and op on the
// caller's. If do panics, so does Do. If do leaves its goroutine, the error is
// abandoned. So is the error of op for a do that still calls it after it has
// returned, or after op has panicked or left the goroutine.
func Do(ctx context.Context, do func(context.Context, func(context.Context) error) error, op func(context.Context) error, abandoned error) error {
	h := handoff{
		calls:     make(chan context.Context),
		results:   make(chan error),
		ended:     make(chan struct{}),
		closed:    make(chan struct{}),
		abandoned: abandoned,
	}
	defer close(h.closed)
	go h.run(ctx, do)
	for {
		select {
		case ctx := <-h.calls:
			h.results <- op(ctx)
		case <-h.ended:
			if h.panic != nil {
				panic(h.panic)
			}
			return h.err
		}
	}
}

// handoff connects the two goroutines.
type handoff struct {
	calls     chan context.Context
	results   chan error
	ended     chan struct{} // closed when do has returned
	closed    chan struct{} // closed when nobody takes calls any more
	abandoned error
	err       error
	panic     any
}

// run calls do.
func (h *handoff) run(ctx context.Context, do func(context.Context, func(context.Context) error) error) {
	h.err = h.abandoned // in case of a Goexit
	defer close(h.ended)
	defer func() { h.panic = recover() }()
	h.err = do(ctx, h.call)
}

// call is the operation that do gets.
func (h *handoff) call(ctx context.Context) error {
	select {
	case h.calls <- ctx:
	case <-h.closed:
		return h.abandoned
	}
	select {
	case err := <-h.results:
		return err
	case <-h.closed: // op panicked, or left its goroutine
		return h.abandoned
	}
}
