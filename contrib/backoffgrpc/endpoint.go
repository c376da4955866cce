package backoffgrpc

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/endpoint"
)

// endpoints has an Endpoint for each of the first maxEndpoints methods of servers.
// The others share one: a proxy may call what an untrusted client names.
type endpoints struct {
	byKey sync.Map // of *endpoint.Endpoint, by endpointKey
	count atomic.Int64
	other endpoint.Endpoint
}

type endpointKey struct{ target, method string }

const (
	maxEndpoints = 1024
	maxMethod    = 1024 // bytes of the name of a method that has an Endpoint
)

// endpoint returns the Endpoint of a method of the server that cc is connected
// to.
func (c *client) endpoint(cc *grpc.ClientConn, method string) *endpoint.Endpoint {
	all, key := c.endpoints, endpointKey{cc.Target(), method}
	if len(method) > maxMethod {
		return &all.other
	}
	if known, ok := all.byKey.Load(key); ok {
		return known.(*endpoint.Endpoint)
	}
	if all.count.Add(1) > maxEndpoints {
		all.count.Add(-1)
		return &all.other
	}
	made := &endpoint.Endpoint{Name: serverOf(key.target) + method, Service: key.target, Services: c.services}
	known, loaded := all.byKey.LoadOrStore(key, made)
	if loaded {
		all.count.Add(-1)
	}
	return known.(*endpoint.Endpoint)
}

// serverOf returns the last part of a target: "example.com" of
// "dns:///example.com".
func serverOf(target string) string { return target[strings.LastIndexByte(target, '/')+1:] }

// observed returns the context for an observer, if there is one, and what the
// call is sent to.
func (c *client) observed(ctx context.Context, observer backoff.Observer, cc *grpc.ClientConn, method string) (context.Context, *endpoint.Endpoint) {
	if observer == nil {
		return ctx, nil
	}
	to := c.endpoint(cc, method)
	return endpoint.With(ctx, to), to
}
