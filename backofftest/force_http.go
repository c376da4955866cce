package backofftest

import (
	"net/http"

	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/internal/clock"
)

// A request is one of an attempt, as the attempts of the Injector that sent it.
type request struct {
	*fault.Injector
	header  http.Header
	attempt int
}

// watched is a transport whose requests are parts of an attempt of the call in their context.
type watched struct {
	s    *forcing
	base http.RoundTripper
}

// RoundTrip sends a request, or makes it fail.
func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	c := callOf(r.Context())
	if c == nil {
		w.s.mu.Lock()
		w.s.lostContext(caller())
		w.s.mu.Unlock()
	}
	if c == nil || c.site == nil {
		return w.base.RoundTrip(r)
	}
	return w.s.send(c, r, w.base)
}

// client is the base of a client of package backoffhttp in one of its calls.
type client struct {
	s    *forcing
	call *call
	base http.RoundTripper
}

// client is the hook before a call of such a client.
func (s *forcing) client(r *http.Request, base http.RoundTripper) http.RoundTripper {
	w := caller()
	if w.at == "" {
		return base
	}
	c := s.open(r.Context(), w)
	if c.path == canceled { // the context of the request is its caller's
		c.path = plain
	}
	return client{s, c, base}
}

// RoundTrip makes an attempt.
func (c client) RoundTrip(r *http.Request) (*http.Response, error) {
	c.s.mu.Lock()
	c.s.next(r.Context(), c.call)
	c.s.mu.Unlock()
	return c.s.send(c.call, r, c.base)
}

// send sends a request of an attempt, or makes it fail. If the attempt has several, the
// first one fails.
func (s *forcing) send(c *call, r *http.Request, base http.RoundTripper) (*http.Response, error) {
	ctx := unforced(r.Context())
	s.mu.Lock()
	p := c.fault()
	if c.inAttempt++; c.inAttempt > 1 && p != givesUp {
		p = plain
	}
	sent := request{&fault.Injector{Plan: fault.Script(faults[p])}, r.Header.Clone(), c.number}
	c.requests, c.sent = true, append(c.sent, sent)
	s.sharedBreaker(c, ctx.Value(breakerKey{}), r.URL.Host)
	c.made = c.made || p != plain
	s.mu.Unlock()
	if p == late {
		ctx = ended(ctx)
	}
	resp, err := sent.Transport(base).RoundTrip(r.WithContext(ctx))
	if p == unsent {
		err = p.err(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ended = clock.Now()
	s.compare(c)
	return resp, err
}
