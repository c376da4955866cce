// Package lazyctx is a context that can be cancelled and costs nothing until
// somebody asks whether it was. Fast operations do not ask, and a context that
// can be cancelled costs more than the rest of their call.
package lazyctx

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Context is its parent until somebody asks for Done. Then it makes a context
// of its own, derived from the parent. It must not be copied after first use.
type Context struct {
	Parent context.Context

	mu  sync.Mutex                 // held to change own
	own atomic.Pointer[cancelable] // nil until somebody asks
}

// cancelable is a context with the function that ends it.
type cancelable struct {
	context.Context
	cancel context.CancelCauseFunc
}

// ended stands for the own context of those that were cancelled before somebody
// asked.
var ended cancelable

// Cancel ends the context for cause. A nil cause is context.Canceled.
func (c *Context) Cancel(cause error) {
	c.mu.Lock()
	unasked := cause == nil && c.own.CompareAndSwap(nil, &ended)
	c.mu.Unlock()
	if !unasked {
		c.derived().cancel(cause)
	}
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.Parent.Deadline() }

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.derived().Done() }

// Err implements context.Context.
func (c *Context) Err() error {
	switch own := c.own.Load(); own {
	case nil:
		return c.Parent.Err()
	case &ended:
		return context.Canceled
	default:
		return own.Err()
	}
}

// Value implements context.Context. Package context looks up the nearest
// context that can be cancelled by a key of its own. Value answers with the own
// context, so that the cause is found, and derived contexts need no goroutine.
func (c *Context) Value(key any) any {
	if own := c.own.Load(); own != nil && own != &ended {
		return own.Value(key)
	}
	return c.Parent.Value(key)
}

// derived returns the own context, and makes it if there is none.
func (c *Context) derived() *cancelable {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.own.Load()
	switch own {
	case nil:
		own = derive(c.Parent)
	case &ended: // for nothing that its parent may end for
		own = derive(context.WithoutCancel(c.Parent))
		own.cancel(nil)
	default:
		return own
	}
	c.own.Store(own)
	return own
}

// derive returns a context that ends with parent, or when it is cancelled.
func derive(parent context.Context) *cancelable {
	ctx, cancel := context.WithCancelCause(parent)
	return &cancelable{ctx, cancel}
}
