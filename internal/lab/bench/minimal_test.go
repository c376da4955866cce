package bench

import (
	"context"
	"errors"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"
)

// minimal is the loop one writes by hand: capped doubling under full jitter,
// and pooled timers. It has no options, no reasons, and no errors of its own.
type minimal struct {
	attempts       int
	initial, limit time.Duration
	flat           bool // the delay is always initial, without jitter
}

var standard = minimal{attempts: attempts, initial: initial, limit: limit}

// do is kept out of line, as a function that is too long to be inlined: so the
// floor includes one call, and what the compiler does to op is the same
// everywhere.
//
//go:noinline
func (m *minimal) do(ctx context.Context, op func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(ctx)
	if err == nil {
		return nil
	}
	return m.redo(ctx, op, err)
}

func (m *minimal) redo(ctx context.Context, op func(context.Context) error, err error) error {
	for n := 1; n < m.attempts; n++ {
		if d := m.delay(n); d > 0 && !sleep(ctx, d) {
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err = op(ctx); err == nil {
			return nil
		}
	}
	return err
}

// doMarked is do for operations that may mark an error as final.
//
//go:noinline
func (m *minimal) doMarked(ctx context.Context, op func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(ctx)
	if err == nil {
		return nil
	}
	return m.redoMarked(ctx, op, err)
}

func (m *minimal) redoMarked(ctx context.Context, op func(context.Context) error, err error) error {
	for n := 1; n < m.attempts; n++ {
		if _, final := errors.AsType[*mark](err); final {
			return err
		}
		if d := m.delay(n); d > 0 && !sleep(ctx, d) {
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err = op(ctx); err == nil {
			return nil
		}
	}
	return err
}

//go:noinline
func minimalValue[T any](ctx context.Context, m *minimal, op func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	v, err := op(ctx)
	if err == nil {
		return v, nil
	}
	err = m.redo(ctx, func(ctx context.Context) (err error) {
		v, err = op(ctx)
		return err
	}, err)
	return v, err
}

// doExhausted is do with an error that says how it ended.
//
//go:noinline
func (m *minimal) doExhausted(ctx context.Context, op func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(ctx)
	if err == nil {
		return nil
	}
	if err = m.redo(ctx, op, err); err == nil {
		return nil
	}
	return &exhausted{m.attempts, err}
}

func (m *minimal) delay(retry int) time.Duration {
	if m.flat {
		return m.initial
	}
	d := m.limit
	if retry <= bits.LeadingZeros64(uint64(m.initial)) {
		d = min(d, m.initial<<(retry-1))
	}
	wait, _ := bits.Mul64(rand.Uint64(), uint64(d))
	return time.Duration(wait)
}

var timers = sync.Pool{New: func() any { return time.NewTimer(0) }}

func sleep(ctx context.Context, d time.Duration) bool {
	t := timers.Get().(*time.Timer)
	t.Reset(d)
	select {
	case <-t.C:
		timers.Put(t)
		return true
	case <-ctx.Done():
		t.Stop()
		return false
	}
}

// mark is an error that ends the loop.
type mark struct{ err error }

func (m *mark) Error() string { return m.err.Error() }
func (m *mark) Unwrap() error { return m.err }

// exhausted is an error that tells the number of attempts.
type exhausted struct {
	attempts int
	last     error
}

func (e *exhausted) Error() string { return "gave up: " + e.last.Error() }
func (e *exhausted) Unwrap() error { return e.last }
