package backoffhttp

import (
	"context"
	"net/http"

	"github.com/gobackoff/backoff"
)

// Most calls are of a request that is sent as it is, and succeed. They are made without
// what the others need: a Run may be asked in hindsight about a first attempt.

// simple reports whether the first attempt is the request as it is, whatever follows.
func simple(req *http.Request) bool {
	if req.Response != nil || overrides.Load() && req.Context().Value(overrideKey{}) != nil {
		return false
	}
	return idempotentMethod(req.Method) || backoff.IdempotencyKey(req.Context()) == ""
}

// plainCall is a call of which nothing is known but its guards.
type plainCall struct {
	t    *Transport
	base http.RoundTripper
	req  *http.Request
	g    *guards
	made bool // the first attempt
	call call // what becomes of it if it fails
	resp *http.Response
}

func (t *Transport) roundTripPlain(req *http.Request, base http.RoundTripper, g *guards) (*http.Response, error) {
	return nil, nil
}
