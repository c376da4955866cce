package backoffhttp

import (
	"context"
	"net/http"

	"github.com/gobackoff/backoff"
)

// plain is a call of a request that is sent as it is. Nothing is made ready for a
// failure before there is one, as a Run may be asked in hindsight about the first
// attempt: so a call that succeeds at once, like most, costs next to nothing.
type plain struct {
	t      *Transport
	base   http.RoundTripper
	guards *guards
	req    *http.Request

	made bool // the first attempt was
	resp *http.Response
	err  error
}

// simple reports whether nothing is said of a request that changes its first attempt.
func simple(req *http.Request) bool {
	if req.Response != nil || overrides.Load() && req.Context().Value(overrideKey{}) != nil {
		return false
	}
	return idempotentMethod(req.Method) || backoff.IdempotencyKey(req.Context()) == ""
}

func (t *Transport) roundTripPlain(req *http.Request, base http.RoundTripper, g *guards) (*http.Response, error) {
	p := plain{t: t, base: base, guards: g, req: req}
	err := g.do(req.Context(), p.run)
	if err != nil && !p.made {
		closeBody(req)
		return nil, surfaced(err)
	}
	return p.resp, p.err
}

// run returns the verdict for the breaker.
func (p *plain) run(ctx context.Context) error {
	p.made = true
	resp, err := p.base.RoundTrip(p.req)
	if err != nil || !succeeded(resp) {
		return p.goOn(ctx, resp, err)
	}
	p.resp = resp
	if b := p.guards.policy.Budget; b != nil {
		b.Done(backoff.Ticket{}, backoff.Result{})
	}
	return nil
}

func succeeded(resp *http.Response) bool {
	return resp != nil && resp.Body != nil && resp.StatusCode < 400
}

// goOn makes a call of it whose first attempt has failed.
func (p *plain) goOn(ctx context.Context, resp *http.Response, err error) error {
	c := call{t: p.t, base: p.base, guards: p.guards, req: p.req, number: 1}
	err = c.take(resp, err)
	if refused := c.prepare(ctx); refused != nil {
		err = refused
	} else {
		err = c.carry(c.policy.Start(ctx), err)
	}
	p.resp, p.err = c.end(err)
	return err
}
