package backoffhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// attempt makes one, of which the answer is in c.resp, and returns what was wrong with
// it.
func (c *call) attempt() error {
	c.number++
	req, err := c.next()
	if err != nil {
		return backoff.Permanent(err)
	}
	if c.limits != nil {
		if d := c.time(); d > 0 {
			return c.timed(req, d)
		}
	}
	return c.exchange(req)
}

// next returns the request of the attempt.
func (c *call) next() (*http.Request, error) {
	req := c.req
	if c.number > 1 {
		req = req.WithContext(withRetryNumber(req.Context(), c.number-1))
	}
	if c.number > 1 && req.GetBody != nil && req.Body != nil && req.Body != http.NoBody {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		req.Body = body
	}
	if c.announce {
		return c.announced(req), nil
	}
	return req, nil
}

// announced returns a request that tells the server how much there has been, and is
// left, of the call. A call on behalf of somebody's retry is one.
func (c *call) announced(req *http.Request) *http.Request {
	req = req.WithContext(req.Context())
	req.Header = req.Header.Clone()
	up, _ := UpstreamFrom(req.Context())
	req.Header.Set(HeaderAttempt, strconv.Itoa(c.number+max(0, up.Attempt-1)))
	if left, ok := c.left(); ok {
		req.Header.Set(HeaderDeadline, strconv.FormatInt(max(0, left.Milliseconds()), 10))
	}
	return req
}

// left returns how long an answer is waited for.
func (c *call) left() (left time.Duration, limited bool) {
	if deadline, ok := c.req.Context().Deadline(); ok {
		left, limited = time.Until(deadline), true
	}
	if c.limits != nil {
		if d := c.time(); d > 0 && (!limited || d < left) {
			left, limited = d, true
		}
	}
	return left, limited
}

// time returns how long the attempt may take; 0 is unlimited.
func (c *call) time() time.Duration {
	d := c.limits.Delay(c.number)
	if d > 0 && !c.began.IsZero() {
		d = max(1, min(d, c.policy.MaxElapsed-time.Since(c.began)))
	}
	return d
}

// timed is exchange within d. The context of the attempt lives as long as its answer's
// body.
func (c *call) timed(req *http.Request, d time.Duration) error {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(d, func() { cancel(backoff.ErrAttemptTimeout) })
	err := c.exchange(req.WithContext(ctx))
	intime := timer.Stop()
	if !intime || c.resp == nil {
		cancel(nil)
	}
	switch {
	case !intime && c.req.Context().Err() == nil:
		if c.resp != nil {
			c.resp.Body.Close()
			c.resp = nil
		}
		return errAttemptTimeout
	case c.resp != nil:
		c.resp.Body = bind(c.resp.Body, cancel)
	}
	return err
}

// errAttemptTimeout stands for whatever Base made of the end of the attempt's time.
var errAttemptTimeout error = attemptTimeout{}

type attemptTimeout struct{}

func (attemptTimeout) Error() string   { return "no answer within AttemptTimeout" }
func (attemptTimeout) Timeout() bool   { return true }
func (attemptTimeout) Temporary() bool { return true }
func (attemptTimeout) Is(target error) bool {
	return target == backoff.ErrAttemptTimeout || target == context.DeadlineExceeded
}

// exchange sends the request and judges the answer.
func (c *call) exchange(req *http.Request) error {
	return c.take(c.base.RoundTrip(req))
}

// take judges what Base returned.
func (c *call) take(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	if resp == nil || resp.Body == nil {
		return errNoAnswer
	}
	c.resp = resp
	if c.guards.gate != nil {
		c.heed(resp)
	}
	if resp.StatusCode >= 400 || c.t.Inspect != nil {
		if err := c.judge(resp); err != nil {
			return err
		}
	}
	if c.t.Resume && !c.resumed && resp.StatusCode < 400 {
		resp.Body = c.resume(resp)
	}
	if c.t.ReadAhead != 0 {
		return c.readAhead()
	}
	return nil
}

var errNoAnswer = backoff.Permanent(errors.New("backoffhttp: Base returned neither an answer with a body nor an error"))

// judge returns what is wrong with an answer.
func (c *call) judge(resp *http.Response) error {
	if resp.StatusCode >= 400 {
		if err := givenUp(resp); err != nil { // another Transport, further down
			return err
		}
	}
	if c.t.Inspect == nil {
		e := newStatusError(resp)
		return c.advise(e, e)
	}
	err := c.t.Inspect(resp)
	if e, ok := errors.AsType[*StatusError](err); ok {
		return c.advise(err, e)
	}
	return err
}

// advise adds what the server says of retrying.
func (c *call) advise(err error, e *StatusError) error {
	if e.Code == http.StatusConflict && c.inFlight && c.keyed() {
		e.class = backoff.ClassRetryable
	}
	return e.advised(err, c.t.RateLimits)
}

// heed shuts the host's gate if an answer, good or bad, asks for it.
func (c *call) heed(resp *http.Response) {
	wait, ok := RetryAfter(resp)
	if reset, exhausted := exhaustion(resp.Header, c.t.RateLimits); exhausted && !ok {
		wait, ok = reset, true
	}
	most := c.policy.MaxRetryAfter
	if most == 0 {
		most = defaultMaxHint
	}
	if ok && (most < 0 || wait <= most) {
		c.guards.gate.close(wait)
	}
}

const defaultMaxHint = 5 * time.Minute // as in backoff.Policy

// readAhead reads the beginning of the body while there are attempts left to repeat it.
func (c *call) readAhead() error {
	body := c.resp.Body
	head, whole, err := readUpTo(body, c.t.ReadAhead)
	switch {
	case err != nil:
		body.Close()
		c.resp = nil
		return err
	case whole:
		body.Close()
		c.resp.Body = io.NopCloser(bytes.NewReader(head))
	default:
		c.resp.Body = readCloser{io.MultiReader(bytes.NewReader(head), body), body}
	}
	return nil
}

// bind returns a body with which a context ends.
func bind(body io.ReadCloser, cancel context.CancelCauseFunc) io.ReadCloser {
	b := &boundBody{ReadCloser: body, cancel: cancel}
	if w, ok := body.(io.Writer); ok { // 101 Switching Protocols
		return boundConn{b, w}
	}
	return b
}

type boundBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	once   sync.Once
}

// Read ends the context with the body.
func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

// Close closes the body before the context, so that net/http sees an end, not a
// failure.
func (b *boundBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

func (b *boundBody) end() { b.once.Do(func() { b.cancel(nil) }) }

type boundConn struct {
	*boundBody
	io.Writer
}
