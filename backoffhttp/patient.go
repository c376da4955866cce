package backoffhttp

import (
	"context"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
)

// patience returns what the calls of a tenant wait by; nil if they do not. A
// tenant that is throttled does not keep the others waiting.
func (t *Transport) patience(key string) *backoff.Patience {
	if !t.Patient {
		return nil
	}
	return t.hosts.patience.Get(key)
}

// doPatiently makes a call that waits, and is made again, while the host is
// down.
func (c *call) doPatiently(ctx context.Context) error {
	return c.guards.patience.Do(ctx, func(ctx context.Context) error {
		c.restart()
		err := c.do(ctx, c.run)
		if c.resp != nil && c.mayWait(err) {
			c.discard() // or it would hold a connection meanwhile
		}
		return err
	})
}

// mayWait reports whether a call that ended with err, and an answer, may be made
// again.
func (c *call) mayWait(err error) bool {
	gave, ok := errtree.As[*backoff.Error](err)
	if !ok {
		return false
	}
	if deadline, bounded := c.req.Context().Deadline(); bounded && deadline.Before(clock.Now().Add(gave.RetryAfter())) {
		return false
	}
	p := *c.policy
	p.MaxAttempts, p.ByClass = -1, nil
	if gave.Reason == backoff.ReasonAttempts { // however long the host wants to be left alone
		p.MaxRetryAfter = -1
	}
	return p.Decide(1, gave.Last).Again
}
