package backoffgrpc

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/gobackoff/backoff"
)

// queues has a Patience for each server. There are no more than maxServers: the
// others share one.
type queues struct {
	byTarget sync.Map // of *backoff.Patience, by string
	count    atomic.Int64
	other    backoff.Patience
}

const maxServers = 1024

// patience returns what calls to the server of cc wait by; nil if they do not.
func (c *client) patience(cc *grpc.ClientConn, under *carried) *backoff.Patience {
	if c.queues == nil || under == nil || under.final != nil {
		return nil
	}
	return c.queues.of(cc.Target())
}

// of returns the Patience of a target.
func (q *queues) of(target string) *backoff.Patience {
	if known, ok := q.byTarget.Load(target); ok {
		return known.(*backoff.Patience)
	}
	if q.count.Add(1) > maxServers {
		q.count.Add(-1)
		return &q.other
	}
	known, loaded := q.byTarget.LoadOrStore(target, &backoff.Patience{Name: serverOf(target)})
	if loaded {
		q.count.Add(-1)
	}
	return known.(*backoff.Patience)
}
