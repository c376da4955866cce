package backoff

import "context"

// foreign is d.Do(ctx, op) for a Doer that the compiler cannot see into. Passed to
// an interface, op would escape to the heap, and with it everything it captures,
// also for callers whose Doer is ours. So d runs on a goroutine of its own, and
// sends for op, which runs here.
func foreign(ctx context.Context, d Doer, op func(context.Context) error) error {
	h := handoff{
		calls:   make(chan context.Context),
		results: make(chan error),
		ended:   make(chan struct{}),
		gone:    make(chan struct{}),
	}
	defer close(h.gone)
	go h.run(ctx, d)
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

type handoff struct {
	calls   chan context.Context
	results chan error
	ended   chan struct{}
	gone    chan struct{} // closed when nobody takes calls any more
	err     error
	panic   any
}

func (h *handoff) run(ctx context.Context, d Doer) {
	h.err = errAbandoned // in case of a Goexit
	defer close(h.ended)
	defer func() { h.panic = recover() }()
	h.err = d.Do(ctx, h.call)
}

func (h *handoff) call(ctx context.Context) error {
	select {
	case h.calls <- ctx:
	case <-h.gone:
		return errAbandoned
	}
	select {
	case err := <-h.results:
		return err
	case <-h.gone: // op panicked, or left its goroutine
		return errAbandoned
	}
}

var errAbandoned = Permanent(errorText("backoff: operation abandoned"))

type errorText string

func (e errorText) Error() string { return string(e) }
