package backoffhttp

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/timeouts"
)

// call is one RoundTrip.
type call struct {
	t      *Transport
	base   http.RoundTripper
	guards *guards
	policy *backoff.Policy  // shared with other calls where nothing is particular about this one
	limits backoff.Schedule // of attempts, by AttemptTimeout
	began  time.Time        // set if MaxElapsed bounds an attempt too

	req      *http.Request // as the attempts send it, but for what differs from one to the next
	announce bool
	inFlight bool // 409 may be our own attempt, still at work
	resumed  bool // this is one that asks for the rest of a body

	number int            // of attempts begun
	resp   *http.Response // of the last one; nil if it got none
}

func (t *Transport) roundTrip(req *http.Request, base http.RoundTripper) (*http.Response, error) {
	if req.URL == nil || req.Header == nil {
		return base.RoundTrip(req) // to be refused
	}
	t.once.Do(t.open)
	g, ctx := t.guard(req.URL), req.Context()
	if g.plain && simple(req) && (g.breaker != nil || ctx.Err() == nil) {
		return t.roundTripPlain(req, base, g)
	}
	c := call{t: t, base: base, guards: g, req: req}
	err := c.prepare(ctx)
	if err == nil {
		err = g.do(ctx, c.run)
	}
	return c.end(err)
}

// run makes the attempts that the policy wants.
func (c *call) run(ctx context.Context) error {
	run := c.policy.Start(ctx)
	if pause, ok := run.Admit(); !ok || !run.Begin(pause) {
		return run.Err()
	}
	return c.carry(run, c.attempt())
}

// carry reports the first attempt and makes those that follow. The loop decides
// nothing: what follows a failure is Run's answer.
func (c *call) carry(run *backoff.Run, err error) error {
	for {
		pause, ok := run.Retry(err)
		if err == nil {
			return nil
		}
		if !ok {
			return run.Err()
		}
		c.drop()
		if !run.Begin(pause) {
			return run.Err()
		}
		err = c.attempt()
	}
}

// end returns the last answer if there is one, and else the error.
func (c *call) end(err error) (*http.Response, error) {
	if err == nil {
		return c.resp, nil
	}
	if c.number == 0 {
		closeBody(c.req)
	}
	if c.resp == nil {
		return nil, surfaced(err)
	}
	markGivenUp(c.resp, err)
	return c.resp, nil
}

// drop ends an answer that is not returned.
func (c *call) drop() {
	if c.resp != nil {
		discard(c.resp)
		c.resp = nil
	}
}

// prepare settles what holds for all attempts.
func (c *call) prepare(ctx context.Context) error {
	said := c.t.Policy.Idempotency
	c.policy, c.limits = &c.guards.policy, timeouts.Of(&c.t.Policy)
	if o, ok := ctx.Value(overrideKey{}).(*override); ok {
		p := o.apply(c.t.Policy)
		said, c.limits = p.Idempotency, timeouts.Of(&p)
		c.policy = c.guards.carrier(p, after(p.Classify))
	}
	if c.limits != nil {
		if err := c.limit(); err != nil {
			return err
		}
	}
	c.announce = c.t.Propagate != nil && c.t.Propagate(c.req.URL)
	req, ok, err := rewindable(c.req, c.t.MaxBuffer)
	if err != nil {
		return backoff.Permanent(err)
	}
	c.req = req
	if c.t.Resume {
		c.identity()
	}
	c.state(c.repeatable(ctx, said, ok))
	return nil
}

// limit checks the time of attempts, which is kept here: the core would end an
// attempt's context with the attempt, and the body with it.
func (c *call) limit() error {
	if c.policy.MaxElapsed > 0 {
		c.began = time.Now()
	}
	return (&backoff.Policy{AttemptTimeoutSchedule: c.limits}).Validate()
}

// state gives the call a policy that says what is true of the request. Most requests
// are one of two kinds, whose policies need not be made for each.
func (c *call) state(said backoff.Idempotency) {
	switch {
	case said == backoff.Idempotent:
	case said == backoff.NonIdempotent && c.policy == &c.guards.policy:
		c.policy = &c.guards.once
	default:
		own := *c.policy
		own.Idempotency = said
		c.policy = &own
	}
}

// repeatable finds out whether the request may be sent again, and makes it so by a key
// where that is wanted. whole tells whether its body can be.
func (c *call) repeatable(ctx context.Context, said backoff.Idempotency, whole bool) backoff.Idempotency {
	foreign := c.req.Response != nil && !sameOrigin(origin(c.req).URL, c.req.URL)
	if foreign {
		c.removeKey()
	}
	said = c.seen(said)
	if said != backoff.Idempotent {
		said = c.underKey(ctx, said, foreign)
	}
	switch up, _ := UpstreamFrom(ctx); {
	case !whole:
		return backoff.NeverRetry
	case up.Attempt > 1 && said != backoff.AlwaysRetry && said != backoff.NeverRetry:
		return unsentOnly{} // whoever called us retries already
	}
	return said
}

// seen returns what table and request say, unless the policy has said it already.
func (c *call) seen(said backoff.Idempotency) backoff.Idempotency {
	if said != nil && said != backoff.Keyed {
		return said
	}
	ask := c.t.Idempotency
	if ask == nil {
		ask = Idempotency
	}
	seen := ask(c.req)
	if said != nil || seen == backoff.Keyed {
		c.inFlight = true
	}
	if said == nil || seen == backoff.Idempotent {
		return seen
	}
	return said
}

// underKey gives the request a key if one is wanted, and may be had, and returns what
// it is then.
func (c *call) underKey(ctx context.Context, said backoff.Idempotency, foreign bool) backoff.Idempotency {
	own := backoff.IdempotencyKey(ctx)
	if !foreign && (said == backoff.Keyed || own != "" && !idempotentMethod(c.req.Method)) {
		c.addKey(own)
	}
	if said != backoff.Keyed && said != backoff.NonIdempotent {
		return said
	}
	switch {
	case c.keyed():
		return backoff.Idempotent
	case foreign:
		return unsentOnly{}
	}
	return backoff.NonIdempotent
}

// unsentOnly is backoff.NonIdempotent whatever key the context has: one that the
// request does not carry, as it goes to another host.
type unsentOnly struct{}

// Repeatable implements [backoff.Idempotency].
func (unsentOnly) Repeatable(_ context.Context, c backoff.Class) bool {
	return c == backoff.ClassNotSent
}

func (c *call) keyed() bool { return keyed(c.req) || c.req.Header.Get(c.t.keyHeader()) != "" }

// addKey gives the request the key of its caller, or that which a chain of redirects
// began with, or a new one. A key in its header stays.
func (c *call) addKey(key string) {
	if c.keyed() {
		return
	}
	value := origin(c.req).Header.Get(c.t.keyHeader())
	if value == "" {
		if key == "" {
			key = rand.Text()
		}
		value = c.t.KeyForm.write(key)
	}
	c.ownHeader()
	c.req.Header.Set(c.t.keyHeader(), value)
}

// removeKey keeps a key from a host that it was not made for.
func (c *call) removeKey() {
	if !c.keyed() {
		return
	}
	c.ownHeader()
	for _, name := range [...]string{HeaderIdempotencyKey, headerAltKey, c.t.keyHeader()} {
		c.req.Header.Del(name)
	}
}

// identity keeps net/http from asking for a coding of its own: parts of what is decoded
// on the way cannot be asked for.
func (c *call) identity() {
	if (c.req.Method == "" || c.req.Method == http.MethodGet) && c.req.Header.Get("Accept-Encoding") == "" {
		c.ownHeader()
		c.req.Header.Set("Accept-Encoding", "identity")
	}
}

// ownHeader makes the request one whose header may be changed.
func (c *call) ownHeader() {
	c.req = c.req.WithContext(c.req.Context())
	c.req.Header = c.req.Header.Clone()
}

// surfaced is an error as the caller gets it. What is a timeout stays one to
// [url.Error], which asks no deeper than one level.
func surfaced(err error) error {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	if ok && t.Timeout() {
		return &late{err}
	}
	return err
}

type late struct{ error }

func (e *late) Unwrap() error { return e.error }
func (e *late) Timeout() bool { return true }
