package backoffgrpc

import (
	"google.golang.org/grpc"

	"github.com/gobackoff/backoff"
)

// queues has a Patience for each server.
type queues = bounded[string, backoff.Patience]

// patience returns what calls to the server of cc wait by; nil if they do not.
func (c *client) patience(cc *grpc.ClientConn, under *carried) *backoff.Patience {
	if c.queues == nil || under == nil || under.final != nil {
		return nil
	}
	target := cc.Target()
	return c.queues.of(target, func() *backoff.Patience { return &backoff.Patience{Name: serverOf(target)} })
}
