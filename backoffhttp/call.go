package backoffhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/fault"
	"github.com/gobackoff/backoff/internal/force/overhttp"
	"github.com/gobackoff/backoff/internal/gaveup"
	"github.com/gobackoff/backoff/internal/refused"
)

// call is one RoundTrip, with all its attempts.
type call struct {
	t      *engine
	base   http.RoundTripper
	guards *guards
	request

	number  int                // of attempts so far
	to      *endpoint.Endpoint // nil if no observer asks
	resp    *http.Response     // of the last attempt; nil if there was none
	cookies *cookies           // nil if no answer before the last one has set any
	resumed bool               // the call asks for the rest of a body

	turn  guard.Turn // what the service learns; Own if the request's body failed last, and not the server
	ended bool       // without a panic
}

// roundTrip makes a call of the request. base stands in for Base.
func (t *engine) roundTrip(req *http.Request, base http.RoundTripper) (*http.Response, error) {
	if req.URL == nil || req.Header == nil {
		return base.RoundTrip(req) // which refuses it
	}
	t.once.Do(t.openGuarded)
	c := call{t: t, base: overhttp.Base(req, base), guards: t.guard(req), request: request{req: req, single: singleBodyOf(req)}}
	defer c.leave()
	service, ctx := c.guards.service, req.Context()
	c.turn.FailFast = t.FailFast || c.guards.final != nil
	switch {
	case service == nil:
		return c.unguarded(ctx)
	case c.canSendPlain() && (c.guards.breaker != nil || ctx.Err() == nil):
		return c.end(service.Around(ctx, &c.guards.policy, &c.turn, c.runPlain))
	}
	ctx, err := c.prepare(ctx)
	if err == nil {
		err = service.Around(ctx, c.policy, &c.turn, c.runGuarded)
	}
	return c.end(err)
}

// unguarded makes a call that no service guards.
func (c *call) unguarded(ctx context.Context) (*http.Response, error) {
	if c.canSendPlain() && ctx.Err() == nil {
		return c.end(c.runPlain(ctx, nil))
	}
	ctx, err := c.prepare(ctx)
	if err == nil {
		err = c.run(c.policy.Start(ctx))
	}
	return c.end(err)
}

// canSendPlain reports whether the request may be sent now with nothing done before.
func (c *call) canSendPlain() bool {
	return c.guards.canSendPlain() && isPlain(c.req) && !c.t.hosts.watched.Load()
}

// prepare reads the request, and returns the context of the call. To observers, if there
// are any, it says what the call is sent to.
func (c *call) prepare(ctx context.Context) (context.Context, error) {
	err := c.read(c.t, c.guards)
	if c.policy.Observer != nil || c.guards.watched() {
		c.to = c.guards.endpoint(c.t, c.req)
		ctx = endpoint.With(ctx, c.to)
	}
	if err != nil {
		refused.Tell(ctx, c.policy, err)
	}
	return ctx, err
}

// runGuarded is run for a call of a service. p is the policy of the call, or has a
// single attempt for a call that has waited; nil means that of the call.
func (c *call) runGuarded(ctx context.Context, p *backoff.Policy) error {
	if c.policy == nil {
		if err := c.read(c.t, c.guards); err != nil {
			return err
		}
	}
	own := *c.policy
	if p != nil {
		own.MaxAttempts, own.ByClass, own.MaxElapsed, own.Observer = p.MaxAttempts, p.ByClass, p.MaxElapsed, p.Observer
		if c.number > 0 { // p comes from the policy of the call
			own.Budget = p.Budget
		}
	}
	c.discard()
	return c.run(own.Start(ctx))
}

// judged tells the service of the host whether err, with which a call ended, says
// anything about the host. The request's own body does not.
func (c *call) judged(err error) error {
	if err != nil {
		c.turn.NoFault = c.turn.Own || c.isOneOfSeveral(err)
		c.turn.Policy = c.policy
		if c.single.takeBack() {
			c.turn.Policy = c.single.patient
		}
		if resp := c.resp; resp != nil { // not c, which would not stay on the stack
			c.turn.BeforeWait = func() { keep(resp) }
		}
	}
	return err
}

// isOneOfSeveral reports whether err is that of a credential that is throttled,
// where several are in use. It says nothing about the others.
func (c *call) isOneOfSeveral(err error) bool {
	if gave, ok := err.(*backoff.Error); ok {
		err = gave.Last
	}
	clients := c.guards.clients
	return err != nil && clients != nil && clients.several.Load() &&
		(throttles(err) || c.t.classify(err) == backoff.ClassThrottled)
}

// run makes the attempts of a call.
func (c *call) run(run *backoff.Run) error {
	defer run.Reset() // a panic gives back what the attempt holds
	if _, ok := run.Begin(0); !ok {
		return run.Err()
	}
	return c.judged(c.repeat(run, c.attempt(nil)))
}

// runPlain is run for a plain request. It prepares nothing before the first
// attempt fails, because a Run can be asked about that attempt afterwards. So a
// call that succeeds at once, as most do, costs almost nothing.
func (c *call) runPlain(ctx context.Context, p *backoff.Policy) error {
	if p != nil {
		return c.runGuarded(ctx, p)
	}
	c.number = 1
	resp, err := c.exchange(c.req)
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
	if refused := c.read(c.t, c.guards); refused != nil {
		return refused
	}
	p := *c.policy
	if p.Budget != nil {
		p.Budget = grantedBudget{p.Budget}
	}
	run := p.Start(ctx)
	defer run.Reset() // as in run
	return c.judged(c.repeat(run, err))
}

// repeat reports the error of the first attempt, and makes the attempts that
// the policy wants after it. It decides nothing: the Run does.
func (c *call) repeat(run *backoff.Run, err error) error {
	for {
		wait, ok := run.Tried(err)
		if err == nil {
			return nil
		}
		if ok {
			c.discard()
			_, ok = run.Begin(wait)
		}
		if !ok {
			return run.Err()
		}
		err = c.attempt(err)
	}
}

// keep reads an answer to its end, so that a call that waits holds no connection.
// Nothing of it is lost if the call waits in vain.
func keep(resp *http.Response) {
	body := resp.Body
	if body == http.NoBody {
		return
	}
	timer := time.AfterFunc(maxDrainTime, func() { body.Close() })
	defer timer.Stop()
	head, whole, _ := readUpTo(body, maxKept)
	resp.Body = putBack(body, head, whole)
}

// maxKept is the longest answer of a waiting call that is kept without its connection.
const maxKept = 16 << 10

// end returns the last answer if there is one, and otherwise the error, with the remark
// if there is one.
func (c *call) end(err error) (*http.Response, error) {
	c.ended = true
	if err == nil {
		return c.resp, nil
	}
	err = c.finalWithoutKey(c.guards.finalError(c.req.Context(), fault.Unmarked(err)))
	if c.resp == nil {
		return nil, asTimeout(c.remarked(err))
	}
	c.markGivenUp(err)
	return c.resp, nil
}

// remarked returns err with the remark, if there is one.
func (c *call) remarked(err error) error {
	if gave, ok := err.(*backoff.Error); ok {
		return (&gaveup.Mark{Why: gave, Remark: c.remark(gave)}).Err()
	}
	return err
}

// leave closes the body of the request if Base does not, and an answer that a panic keeps
// from the caller.
func (c *call) leave() {
	if c.req.Body != nil && (c.number == 0 || c.single.takeBack()) {
		c.req.Body.Close()
	}
	if !c.ended && c.resp != nil {
		c.resp.Body.Close()
	}
}

// asTimeout returns err so that a timeout in its tree is a timeout to
// [url.Error], which looks no deeper than one level.
func asTimeout(err error) error {
	if !errtree.IsTimeout(err) && errtree.Find(err, errtree.IsTimeout) {
		return &timeoutError{err}
	}
	return err
}

// timeoutError is an error with a timeout in its tree.
type timeoutError struct{ error }

func (e *timeoutError) Unwrap() error { return e.error }
func (e *timeoutError) Timeout() bool { return true }
