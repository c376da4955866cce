package backoffhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/endpoint"
	"github.com/gobackoff/backoff/internal/errtree"
)

// call is one RoundTrip, with all its attempts.
type call struct {
	t      *Transport
	base   http.RoundTripper
	guards *guards
	request

	number  int                // of attempts so far
	to      *endpoint.Endpoint // nil if no observer asks
	resp    *http.Response     // of the last attempt; nil if there was none
	asked   bool               // the policy knows of the call
	resumed bool               // the call asks for the rest of a body

	ownFault bool  // of the request: the body of the last attempt failed, and not the server
	unscored error // that the breaker does not get; see verdict
	ended    bool  // without a panic
}

// roundTrip makes a call of the request. base stands in for Base.
func (t *Transport) roundTrip(req *http.Request, base http.RoundTripper) (*http.Response, error) {
	if req.URL == nil || req.Header == nil {
		return base.RoundTrip(req) // which refuses it
	}
	t.once.Do(t.open)
	g, ctx := t.guard(req), req.Context()
	c := call{t: t, base: base, guards: g, request: request{req: req}}
	defer c.closeAfterPanic()
	if g.patience == nil && g.canSendPlain() && isPlain(req) && (g.breaker != nil || ctx.Err() == nil) {
		return c.end(c.do(ctx, c.runPlain))
	}
	err := c.read()
	ctx = c.observed(ctx)
	switch {
	case err != nil:
	case g.patience != nil && g.final == nil:
		err = c.doPatiently(ctx)
	default:
		err = c.do(ctx, c.run)
	}
	if !c.asked {
		c.policy.Refused(ctx, err)
	}
	return c.end(err)
}

// do calls op if the breaker of the host, if any, lets it pass.
func (c *call) do(ctx context.Context, op func(context.Context) error) error {
	b := c.guards.breaker
	switch {
	case b == nil:
		return op(ctx)
	case b.State() == backoff.BreakerHalfOpen && c.guards.waitsForTurn():
		return &backoff.OpenError{Name: b.Name, State: backoff.BreakerHalfOpen, Last: errWaiting}
	}
	err := b.Do(ctx, op)
	if err == errUnscored {
		return c.unscored
	}
	return err
}

// errWaiting is why a call of a throttled credential does not probe its host.
var errWaiting = errors.New("calls of this credential wait for their turn, and leave the probe to others")

// errUnscored says nothing about a service to its breaker.
var errUnscored = fmt.Errorf("backoffhttp: says nothing about the host: %w", backoff.ErrBudget)

// verdict returns what the breaker of the host gets of a call that ended with
// err. The request's own body says nothing about the host.
func (c *call) verdict(err error) error {
	if err == nil || c.guards.breaker == nil || !c.ownFault && !c.isOneOfSeveral(err) {
		return err
	}
	c.unscored = err
	return errUnscored
}

// isOneOfSeveral reports whether err is that of a credential that is throttled,
// where several are in use. It says nothing about the others.
func (c *call) isOneOfSeveral(err error) bool {
	if gave, ok := err.(*backoff.Error); ok {
		err = gave.Last
	}
	return err != nil && c.guards.keys.clients.several.Load() &&
		(throttles(err) || c.t.classify(err) == backoff.ClassThrottled)
}

// observed returns the context for observers, if there are any. It says what the
// call is sent to.
func (c *call) observed(ctx context.Context) context.Context {
	if c.policy.Observer == nil && !c.guards.watched() {
		return ctx
	}
	c.to = c.guards.endpoint(c.t, c.req)
	return endpoint.With(ctx, c.to)
}

// read reads the request, once for a call.
func (c *call) read() (err error) {
	c.request, err = c.t.read(c.req, c.guards)
	return err
}

// run makes the attempts of a call.
func (c *call) run(ctx context.Context) error {
	c.asked = true
	run := c.policy.Start(ctx)
	defer run.Reset() // a panic gives back what the attempt holds
	if !run.Begin(0) {
		return run.Err()
	}
	return c.verdict(c.repeat(run, c.attempt()))
}

// runPlain is run for a plain request. It prepares nothing before the first
// attempt fails, because a Run can be asked about that attempt afterwards. So a
// call that succeeds at once, as most do, costs almost nothing.
func (c *call) runPlain(ctx context.Context) error {
	c.number = 1
	resp, err := c.base.RoundTrip(withOwnErrors(c.req))
	if err != nil || resp == nil || resp.Body == nil || resp.StatusCode >= 400 {
		return c.runFailed(ctx, resp, err)
	}
	c.resp = resp
	if b := c.guards.policy.Budget; b != nil {
		b.Done(backoff.Ticket{}, backoff.Result{})
	}
	return nil
}

// runFailed continues a plain call whose first attempt has failed.
func (c *call) runFailed(ctx context.Context, resp *http.Response, err error) error {
	err = c.receive(resp, err)
	if refused := c.read(); refused != nil {
		return refused
	}
	p := *c.policy
	if p.Budget != nil {
		p.Budget = grantedBudget{p.Budget}
	}
	run := p.Start(ctx)
	defer run.Reset() // as in run
	return c.verdict(c.repeat(run, err))
}

// repeat reports the error of the first attempt, and makes the attempts that
// the policy wants after it. It decides nothing: the Run does.
func (c *call) repeat(run *backoff.Run, err error) error {
	for {
		pause, ok := run.Retry(err)
		if err == nil {
			return nil
		}
		if !ok {
			return run.Err()
		}
		c.discard()
		if !run.Begin(pause) {
			return run.Err()
		}
		err = c.attempt()
	}
}

// discard ends an answer that is not returned.
func (c *call) discard() {
	if c.resp != nil {
		discard(c.resp)
		c.resp = nil
	}
}

// end returns the last answer if there is one, and otherwise the error.
func (c *call) end(err error) (*http.Response, error) {
	c.ended = true
	if err == nil {
		return c.resp, nil
	}
	err = c.finalWithoutKey(c.guards.finalError(c.req.Context(), err))
	if c.number == 0 && c.req.Body != nil {
		c.req.Body.Close()
	}
	if c.resp == nil {
		return nil, asTimeout(c.explained(err))
	}
	c.markGivenUp(err)
	return c.resp, nil
}

// closeAfterPanic closes the answer that a panic keeps from the caller.
func (c *call) closeAfterPanic() {
	if !c.ended && c.resp != nil {
		c.resp.Body.Close()
	}
}

// asTimeout returns err so that a timeout in its tree is a timeout to
// [url.Error], which looks no deeper than one level.
func asTimeout(err error) error {
	if _, ok := err.(timeouter); ok {
		return err
	}
	if t, ok := errtree.As[timeouter](err); ok && t.Timeout() {
		return &timeoutError{err}
	}
	return err
}

// timeouter is an error that knows whether it is a timeout.
type timeouter interface {
	error
	Timeout() bool
}

// timeoutError is an error with a timeout in its tree.
type timeoutError struct{ error }

func (e *timeoutError) Unwrap() error { return e.error }
func (e *timeoutError) Timeout() bool { return true }
