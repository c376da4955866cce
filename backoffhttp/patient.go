package backoffhttp

import (
	"cmp"
	"context"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
)

// doPatiently makes a call that waits, and is made again, while the host is
// down.
func (c *call) doPatiently(ctx context.Context) error {
	var own error
	err := c.guards.patience.Do(ctx, func(ctx context.Context) error {
		c.restart()
		err := c.do(ctx, c.run)
		switch {
		case c.ownFault:
			own, err = err, nil // to wait for the host would not mend the body
		case c.resp != nil && c.mayWait(err):
			c.discard() // or it would hold a connection meanwhile
		}
		return err
	})
	return cmp.Or(own, err)
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
