package backoffhttp

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/registry"
)

// namedEndpoint is an Endpoint and what it was made from: the name that
// Transport.Endpoint returned, or else the method.
type namedEndpoint struct {
	from  string
	named bool
	*endpoint.Endpoint
}

// endpoint returns what a request is sent to. Most requests to a host are sent
// to the same endpoint as the request before.
func (g *guards) endpoint(t *engine, req *http.Request) *endpoint.Endpoint {
	from, name := req.Method, ""
	if t.Endpoint != nil {
		name = truncateClone(t.Endpoint(req))
		from = cmp.Or(name, req.Method)
	}
	if last := g.lastEndpoint.Load(); last != nil && last.from == from && last.named == (name != "") {
		return last.Endpoint
	}
	e := t.hosts.endpoints.Get(g.address() + keySeparator + cmp.Or(name, g.nameOf(req)))
	if len(from) <= maxName {
		g.lastEndpoint.Store(&namedEndpoint{strings.Clone(from), name != "", e})
	}
	return e
}

// nameOf returns the name of an endpoint for which Transport.Endpoint has none:
// method and host. A proxy passes on the methods that untrusted clients send;
// those that HTTP does not define share a name.
func (g *guards) nameOf(req *http.Request) string {
	method := cmp.Or(req.Method, http.MethodGet)
	if !slices.Contains(idempotentMethods, method) && !slices.Contains(otherMethods, method) {
		method = "OTHER"
	}
	_, host, _ := strings.Cut(g.address(), "://")
	return method + " " + host
}

// otherMethods are those that HTTP defines besides the idempotent ones.
var otherMethods = []string{http.MethodPost, http.MethodPatch, http.MethodConnect}

// maxName is the length of the longest host or name of an endpoint that is kept
// whole, in bytes. There are not many of them, but an untrusted client may choose them.
const maxName = 1024

// truncateClone returns the beginning of a text, which does not keep the rest alive.
func truncateClone(text string) string {
	if len(text) <= maxName {
		return text
	}
	return strings.Clone(text[:maxName])
}

// keySeparator stands between the host and the name in the key of an Endpoint. A
// host may contain a space, in an IPv6 zone.
const keySeparator = "\x00"

// newEndpoint returns the Endpoint of a key, which is a host and a name.
func (t *engine) newEndpoint(key string) *endpoint.Endpoint {
	e := new(endpoint.Endpoint)
	if e.Service, e.Name, _ = strings.Cut(key, keySeparator); key == registry.Rest {
		e.Service, e.Name = "", "other"
	}
	if t.hosts.guarded {
		e.Services = t.services()
	}
	return e
}
