package backofftest

import (
	"cmp"
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

// A transport makes requests of a call fail. Its call is that of a client of package
// backoffhttp, whose requests are its attempts. If it is nil, they are parts of an attempt
// of the call in their context.
type transport struct {
	s    *forcing
	call *call
	base http.RoundTripper
}

// client is the hook before a call of a client of package backoffhttp.
func (s *forcing) client(r *http.Request, base http.RoundTripper) http.RoundTripper {
	w := caller()
	if w.at == "" {
		return base
	}
	c := s.open(r.Context(), w)
	if c.path == canceled { // the context of the request is its caller's
		c.path = plain
	}
	return transport{s, c, base}
}

// RoundTrip sends a request, or makes it fail.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.s.mu.Lock()
	c := cmp.Or(t.call, callOf(r.Context()))
	switch {
	case t.call != nil:
		t.s.next(r.Context(), c)
	case c == nil:
		t.s.lostContext(caller())
	}
	t.s.mu.Unlock()
	if c == nil || c.site == nil {
		return t.base.RoundTrip(r)
	}
	return t.s.send(c, r, t.base)
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
	s.sharedBreaker(c, ctx.Value(contextKey("breaker")), r.URL.Host)
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
