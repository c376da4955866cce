package fault

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A body passes on what a fault lets pass of the body of a request or response.
type body struct {
	io.ReadCloser
	ctx   context.Context
	fault Fault
	done  int64       // bytes that have passed
	ended atomic.Bool // by the fault

	closed chan struct{}
	once   sync.Once
}

func newBody(rc io.ReadCloser, r *http.Request, f Fault) *body {
	return &body{ReadCloser: rc, ctx: r.Context(), fault: f, closed: make(chan struct{})}
}

// hold holds back the header of a response, for a fault before the first byte.
func (b *body) hold() error {
	_, err := b.admit(1)
	b.fault.kind = ok // what is held back once passes
	return err
}

// admit waits until some of the next n bytes may pass, and returns how many.
func (b *body) admit(n int) (int, error) {
	pass, wait := b.fault.request(b.done, n), time.Duration(0)
	if b.fault.kind != cutRequest {
		pass, wait = b.fault.response(b.done, n)
	}
	switch {
	case pass > 0:
		return pass, pause(b.ctx, b.closed, wait)
	case n == 0:
		return 0, nil
	case b.fault.kind == hang:
		return 0, pause(b.ctx, b.closed, forever)
	}
	b.ended.Store(true)
	return 0, b.fault.broken()
}

// Read reads what passes.
func (b *body) Read(p []byte) (int, error) {
	pass, err := b.admit(len(p))
	if err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:pass])
	b.done += int64(n)
	return n, err
}

// Close closes the body, and ends a Read that waits.
func (b *body) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}

const forever = 1<<63 - 1

// pause waits for d, and returns an error if ctx ends before, or closed is closed.
func pause(ctx context.Context, closed <-chan struct{}, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-closed:
		return http.ErrBodyReadAfterClose
	}
}
