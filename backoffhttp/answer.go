package backoffhttp

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/fault"
	"github.com/gobackoff/backoff/internal/gaveup"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// receive stores what Base returned for an attempt, and returns what is wrong
// with it.
func (c *call) receive(resp *http.Response, err error) error {
	c.turn.Own = false
	if c.last != nil {
		c.last.is429 = false
	}
	if err != nil {
		return c.withProxy(c.withoutOwn(c.ofThisRequest(err)))
	}
	if resp == nil || resp.Body == nil {
		return backoff.Permanent(errors.New("backoffhttp: Base returned neither an answer with a body nor an error"))
	}
	c.resp = resp
	if c.usedKey.key != nil && resp.StatusCode/100 == 2 {
		c.usedKey.key.Use(c.usedKey.request)
	}
	if c.guards.holder != nil {
		c.holdHost(resp)
	}
	if err := c.inspect(resp); err != nil {
		return err
	}
	if c.t.Resume && !c.resumed && resp.StatusCode < 400 {
		resp.Body = c.resume(resp)
	}
	if c.t.ReadAhead != 0 && !isConnection(resp, c.req.Method) {
		return c.readAhead()
	}
	return nil
}

// ofThisRequest returns err, unless net/http tells the end of a context in another
// way. The Timeout of an http.Client ends a request in words of its own, and often
// before the context of the request knows that its deadline has passed. And if
// net/http learns of the end of a context just when the response has come, it closes
// the connection, on which the next request may be under way: that one gets the
// error of the other's context.
func (c *call) ofThisRequest(err error) error {
	ctx := c.req.Context()
	late := isLate(ctx)
	if late && !c.t.hosts.watched.Load() {
		c.t.hosts.watched.Store(true)
	}
	switch {
	case late && strings.HasPrefix(err.Error(), "net/http: request canceled"):
		return context.DeadlineExceeded
	case errtree.Is(err, context.Canceled) && ctx.Err() == nil:
		return backoff.OfClass(err, backoff.ClassRetryable)
	}
	return err
}

// withoutOwn returns err, unless that is an error of the request's own body, or of a
// request that net/http refuses to send. It returns such an error so that it says nothing
// about the server: neither that the request did not arrive, nor that the server
// throttles.
func (c *call) withoutOwn(err error) error {
	own, ok := errtree.As[*ownError](err)
	switch c.turn.Own = ok; {
	case !ok && isUnfit(err):
		return fault.As(err, fault.Own)
	case !ok && knownAfter(c.guards.source.Classify)(err) == backoff.ClassUnknown:
		return fault.As(err, fault.Failed) // though it is not retried
	case !ok:
		return err
	case (backoff.Policy{Classify: c.t.classify}).Retryable(own.error):
		return fault.As(backoff.OfClass(own.error, backoff.ClassRetryable), fault.Left)
	}
	return fault.As(own.error, fault.Left)
}

// arrived returns the error of an attempt that got a header, which proves that
// the request arrived. What looks like evidence that it did not, counts only if the
// program has marked it so.
func arrived(err error) error {
	if err == nil || Classify(err) != backoff.ClassNotSent || marksOnly.Decide(1, err).Class == backoff.ClassNotSent {
		return err
	}
	return backoff.OfClass(err, backoff.ClassRetryable)
}

// marksOnly finds every error permanent that is not marked.
var marksOnly = backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return false })}

// holdHost makes all calls to the host wait if an answer, successful or not, asks
// for a wait. Retry-After goes before the rate limits of the vendor, and so does the
// RateLimit field of a refusal. A permanent response with a "do not retry" means its own
// request only.
func (c *call) holdHost(resp *http.Response) {
	from, now := retryafter.Asked, c.t.clock(resp.Header)
	if resp.StatusCode >= 400 {
		from = retryafter.From
	}
	wait, ok := from(resp.Header, now)
	if !ok {
		wait, ok = exhausted(resp.Header, c.t.RateLimits, now)
	}
	e := StatusError{Code: resp.StatusCode, Header: resp.Header}
	retry, said := retryAdvice(e.Header)
	own := e.Code >= 400 && said && !retry && e.permanent()
	if ok && !own {
		c.guards.holder.Hold(wait)
	}
}

// inspect returns what is wrong with an answer, or nil.
func (c *call) inspect(resp *http.Response) error {
	if resp.StatusCode >= 400 {
		gaveup.Unmark(c.req.Context(), resp)
		if m := gaveup.Of(resp.Request); m != nil { // by a Transport inside this one
			return m.Why
		}
	}
	switch {
	case c.t.Inspect == nil && resp.StatusCode < 400:
		return nil
	case c.t.Inspect == nil:
		e := newStatusError(resp)
		return c.advise(e, e)
	}
	err := c.t.Inspect(resp)
	if e, ok := errtree.As[*StatusError](err); ok && e != nil {
		err = c.advise(err, e)
	} else {
		err = arrived(err)
	}
	if class := StatusClass(resp.StatusCode); err == nil || class != backoff.ClassUnknown && class != backoff.ClassPermanent {
		return err
	}
	return fault.As(err, fault.Answered) // whatever Classify makes of it
}

// advise returns err, whose tree holds e, with what the answer says about
// retries.
func (c *call) advise(err error, e *StatusError) error {
	switch {
	case e.Code == http.StatusConflict && c.retryConflict:
		e.class = backoff.ClassRetryable
	case c.last != nil:
		c.last.is429 = e.Code == http.StatusTooManyRequests
	}
	return e.advised(err, c.t.RateLimits, c.t.clock(e.Header))
}

// isConnection reports whether the body of an answer is a connection. Nothing
// may come from it before the caller has written to it, and net/http does not
// end a read from it with the context of the request.
func isConnection(resp *http.Response, method string) bool {
	return resp.StatusCode == http.StatusSwitchingProtocols || method == http.MethodConnect && resp.StatusCode/100 == 2
}

// readAhead reads the beginning of the body, while there are attempts left to
// repeat the request.
func (c *call) readAhead() error {
	head, whole, err := readUpTo(c.resp.Body, c.t.ReadAhead)
	if err != nil {
		c.discard()
		return arrived(c.withoutOwn(c.ofThisRequest(err)))
	}
	c.resp.Body = putBack(c.resp.Body, head, whole)
	return nil
}
