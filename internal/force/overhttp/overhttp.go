// Package overhttp is package force for calls over HTTP, apart from it because of net/http.
package overhttp

import (
	"net/http"
	"sync/atomic"
)

// Installed is nil, except in tests that force retries.
var Installed atomic.Pointer[func(*http.Request, http.RoundTripper) http.RoundTripper]

// Base returns what makes the attempts of a call of r in place of base.
func Base(r *http.Request, base http.RoundTripper) http.RoundTripper {
	if f := Installed.Load(); f != nil {
		return (*f)(r, base)
	}
	return base
}
