package backoffgrpc

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/endpoint"
)

// endpoints has an Endpoint for each method of each server. There are no more
// than maxEndpoints, of methods no longer than maxMethod, since a proxy may call
// methods that an untrusted client names.
type endpoints struct {
	byKey sync.Map // of *endpoint.Endpoint, by endpointKey
	count atomic.Int64
	other endpoint.Endpoint
}

type endpointKey struct{ target, method string }

const (
	maxEndpoints = 1024
	maxMethod    = 1024 // bytes
)

// of returns the Endpoint of a method of the server that cc is connected to.
func (e *endpoints) of(cc *grpc.ClientConn, method string) *endpoint.Endpoint {
	key := endpointKey{cc.Target(), method}
	if known, ok := e.byKey.Load(key); ok {
		return known.(*endpoint.Endpoint)
	}
	if len(method) > maxMethod {
		return &e.other
	}
	if e.count.Add(1) > maxEndpoints {
		e.count.Add(-1)
		return &e.other
	}
	added := &endpoint.Endpoint{Name: serverOf(key.target) + method, Service: key.target}
	known, loaded := e.byKey.LoadOrStore(key, added)
	if loaded {
		e.count.Add(-1)
	}
	return known.(*endpoint.Endpoint)
}

// serverOf returns the last part of a target: "example.com" of
// "dns:///example.com".
func serverOf(target string) string { return target[strings.LastIndexByte(target, '/')+1:] }

// observer returns the observer of the calls of a method under a policy.
func (m *method) observer(under *carried) backoff.Observer {
	switch {
	case under != nil:
		return under.policy.Observer
	case m.Hedge != nil:
		return m.Hedge.Observer
	}
	return nil
}

// observed returns the context for an observer, if there is one, and what the
// call is sent to.
func (c *client) observed(ctx context.Context, observer backoff.Observer, cc *grpc.ClientConn, method string) (context.Context, *endpoint.Endpoint) {
	if observer == nil {
		return ctx, nil
	}
	to := c.endpoints.of(cc, method)
	return endpoint.With(ctx, to), to
}
