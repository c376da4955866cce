// Package endpoint says to observers what calls are sent to.
//
// The name of a policy says which part of a program makes a call. An [Endpoint]
// says what the call is sent to, such as a method of a host. The Transport of
// package backoffhttp and the interceptors of contrib/backoffgrpc put one into
// the context that observers get. Over HTTP the field Endpoint of the Transport
// names it, by the route for instance:
//
//	func observe(ctx context.Context, e backoff.Event) {
//		if to := endpoint.Of(ctx); to != nil {
//			log.Println(e.Name, "calls", to.Name, e.Kind)
//		}
//	}
//
// The packages backoffslog and backoffmetrics show it beside the name of the
// policy. Other clients can name their own endpoints:
//
//	var charges = &endpoint.Endpoint{Name: "POST pay.example.com/charges"}
//
//	err := policy.Do(endpoint.With(ctx, charges), func(ctx context.Context) error {
//		return charges.Do(ctx, charge) // measured
//	})
package endpoint

import (
	"context"
	"sync/atomic"

	"github.com/gobackoff/backoff/guard"
)

// An Endpoint is what calls are sent to. Make one for all calls to the same
// thing, and keep it: observers know it by its address. There should be few,
// since observers count each by itself.
//
// An Endpoint is safe for concurrent use. It must not be copied, and its fields
// must not be changed, after first use.
type Endpoint struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name is what observers call the endpoint, such as
	// "GET api.example.com". It must not contain what an untrusted client
	// sends, such as the identifiers in a path.
	Name string
	// Service is the key of the endpoint's service, such as
	// "https://api.example.com".
	Service string
	// Services are those in which Service is a key. Endpoints may share them. nil
	// means none.
	Services *guard.Services

	inFlight          atomic.Int64 // attempts
	succeeded, failed durations    // of attempts
}

// With returns a context for calls that are sent to e. A nil e means that it is
// not known what they are sent to.
func With(ctx context.Context, e *Endpoint) context.Context { return context.WithValue(ctx, key{}, e) }

// Of returns what the call of a context is sent to, or nil if that is not known.
// It does not allocate.
func Of(ctx context.Context) *Endpoint {
	e, _ := ctx.Value(key{}).(*Endpoint)
	return e
}

// key is the key of the Endpoint in a context.
type key struct{}
