package backoffhttp

import (
	"net/http"

	"github.com/gobackoff/backoff/internal/force/overhttp"
)

// Unguarded is a [Transport] without guards: it retries, and knows nothing of a
// host from one call to the next. A 429 is retried like a 503, and slows no
// other call. Its fields are those of Transport; Services and Key mean nothing.
// The zero value is ready to use. A program that only has an Unguarded does not
// link the guards.
type Unguarded Transport

// RoundTrip is [Transport.RoundTrip] without guards.
func (u *Unguarded) RoundTrip(req *http.Request) (*http.Response, error) {
	t := (*engine)(u)
	return t.roundTripUnguarded(req, t.base(u))
}

// Middleware is [Transport.Middleware].
func (u *Unguarded) Middleware(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return (*engine)(u).roundTripUnguarded(req, roundTripperFunc(next))
}

// CloseIdleConnections is [Transport.CloseIdleConnections].
func (u *Unguarded) CloseIdleConnections() { closeIdle((*engine)(u).base(u)) }

// roundTripUnguarded is roundTrip without services.
func (t *engine) roundTripUnguarded(req *http.Request, base http.RoundTripper) (*http.Response, error) {
	if req.URL == nil || req.Header == nil {
		return base.RoundTrip(req) // which refuses it
	}
	t.once.Do(t.open)
	c := call{t: t, base: overhttp.Base(req, base), guards: t.guard(req), request: request{req: req, single: singleBodyOf(req)}}
	defer c.leave()
	return c.unguarded(req.Context())
}
