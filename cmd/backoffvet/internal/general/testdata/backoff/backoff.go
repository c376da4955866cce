// Package backoff is as much of the library as testdata uses.
package backoff

import (
	"context"
	"time"
)

type Policy struct {
	MaxAttempts      int
	Schedule, Jitter any
}

func (Policy) Start(ctx context.Context) *Run { return nil }

type Run struct{}

func (*Run) Attempts() func(func(context.Context) bool) { return nil }
func (*Run) Fail(error)                                 {}
func (*Run) Err() error                                 { return nil }

type Constant time.Duration

type Exponential struct{ Initial, Max time.Duration }

var NoJitter any
