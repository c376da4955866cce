package backoffhttp

import (
	"context"
	"net/http"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/endpoint"
	"github.com/gobackoff/backoff/internal/registry"
)

// namedEndpoint is an Endpoint and what it was made from: what Transport.Endpoint
// returned, or else the method.
type namedEndpoint struct {
	from string
	*endpoint.Endpoint
}

// endpoint returns what a request is sent to. Most requests to a host are sent
// to the same endpoint as the request before.
func (g *guards) endpoint(t *Transport, req *http.Request) *endpoint.Endpoint {
	from := req.Method
	if t.Endpoint != nil {
		from = t.Endpoint(req)
	}
	if last := g.lastEndpoint.Load(); last != nil && last.from == from {
		return last.Endpoint
	}
	name := from
	if t.Endpoint == nil {
		_, host, _ := strings.Cut(g.key, "://") // in lower case
		name = methodOf(req) + " " + host
	}
	e := t.hosts.endpoints.Get(g.key + keySeparator + name)
	g.lastEndpoint.Store(&namedEndpoint{from, e})
	return e
}

// keySeparator stands between the host and the name in the key of an Endpoint. A
// host may contain a space, in an IPv6 zone.
const keySeparator = "\x00"

// newEndpoint returns the Endpoint of a key, which is a host and a name.
func (t *Transport) newEndpoint(key string) *endpoint.Endpoint {
	e := new(endpoint.Endpoint)
	if e.Service, e.Name, _ = strings.Cut(key, keySeparator); key == registry.Rest {
		e.Service, e.Name = "", "other"
	}
	if !t.Unguarded {
		e.Breakers = t.breakers()
		if policy, _ := t.current(); policy.Budget == nil {
			e.Budgets = t.budgets()
		}
	}
	return e
}

// tellRefused tells the observer of the policy that the call ended because the
// breaker of the host refused it, or was not asked since the context had ended.
// If the policy was asked, it has told of the end itself.
func (c *call) tellRefused(ctx context.Context, err error) {
	if c.asked || c.policy.Observer == nil {
		return
	}
	e := backoff.Event{Kind: backoff.EventGiveUp, Name: c.policy.Name, Reason: backoff.ReasonInvalid, Err: err}
	open, refused := err.(*backoff.OpenError)
	switch {
	case refused:
		e.Reason, e.RetryAfter = backoff.ReasonOpen, open.RetryAfter()
	case err == context.Canceled:
		e.Reason = backoff.ReasonCanceled
	case err == context.DeadlineExceeded:
		e.Reason = backoff.ReasonDeadline
	}
	backoff.JoinObservers(c.policy.Observer)(ctx, e)
}

// onlyTransitions returns an observer that passes on the transitions of a
// breaker: of each call that the breaker refuses, the call itself tells.
func onlyTransitions(o backoff.Observer) backoff.Observer {
	if o == nil {
		return nil
	}
	return func(ctx context.Context, e backoff.Event) {
		if e.Kind == backoff.EventTransition {
			o(ctx, e)
		}
	}
}

// methodOf returns the method of a request, which is GET if it is empty.
func methodOf(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}
