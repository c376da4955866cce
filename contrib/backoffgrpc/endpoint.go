package backoffgrpc

import (
	"context"
	"strings"

	"google.golang.org/grpc"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/endpoint"
)

// endpoints has an Endpoint for each method of each server.
type endpoints = bounded[endpointKey, endpoint.Endpoint]

type endpointKey struct{ target, method string }

// maxMethod is how long the name of a method may be that has an Endpoint.
const maxMethod = 1024

// endpoint returns the Endpoint of a method of the server that cc is connected
// to.
func (c *client) endpoint(cc *grpc.ClientConn, method string) *endpoint.Endpoint {
	if len(method) > maxMethod {
		return &c.endpoints.other
	}
	target := cc.Target()
	return c.endpoints.of(endpointKey{target, method}, func() *endpoint.Endpoint {
		return &endpoint.Endpoint{Name: serverOf(target) + method, Service: target}
	})
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
	to := c.endpoint(cc, method)
	return endpoint.With(ctx, to), to
}
