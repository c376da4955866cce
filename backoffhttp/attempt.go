package backoffhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/fault"
	"github.com/gobackoff/backoff/internal/limits"
)

// attempt makes one attempt, after one that failed with last, or nil. It stores the
// answer in c.resp, and returns what is wrong with it.
func (c *call) attempt(last error) error {
	c.number++
	timeout := c.timeout()
	req, err := c.next(shorter(timeout, c.t.wholeTimeout))
	if err != nil {
		return c.withoutBody(last, err)
	}
	if c.to != nil {
		return c.to.Do(req.Context(), func(context.Context) error { return c.sendWithin(req, timeout) })
	}
	return c.sendWithin(req, timeout)
}

// withoutBody returns the error of a call whose request cannot be sent again after it
// failed with last, because GetBody failed with err.
func (c *call) withoutBody(last, err error) error {
	c.turn.Own = true
	c.number--
	return fault.As(&backoff.Error{
		Name:     c.policy.Name,
		Attempts: c.number,
		Reason:   backoff.ReasonPermanent,
		Last:     errors.Join(last, err),
		Note:     "the body of the request cannot be sent again (Request.GetBody)",
	}, fault.Own)
}

// limit returns how long the policy gives the attempt; 0 means no limit.
func (c *call) limit() time.Duration {
	if c.timeouts == nil {
		return 0
	}
	return c.timeouts.Delay(c.number)
}

// timeout returns how long the attempt may take, with what is left of MaxElapsed.
func (c *call) timeout() time.Duration {
	d := c.limit()
	if d > 0 && !c.began.IsZero() {
		d = max(1, min(d, c.policy.MaxElapsed-time.Since(c.began)))
	}
	return d
}

// shorter returns the shorter one of two timeouts. 0 and less mean no limit.
func shorter(a, b time.Duration) time.Duration {
	if a > 0 && b > 0 {
		return min(a, b)
	}
	return max(a, b)
}

// restart begins the time that MaxElapsed allows anew.
func (c *call) restart() {
	if !c.began.IsZero() {
		c.began = time.Now()
	}
}

// next returns the request of the attempt, which has so much time.
func (c *call) next(timeout time.Duration) (*http.Request, error) {
	if c.number == 1 && !c.propagate {
		return c.req, nil
	}
	ctx := c.req.Context()
	if c.number > 1 {
		ctx = context.WithValue(ctx, retryNumberKey{}, RetryNumber(ctx)+c.number-1)
	}
	req := c.req.WithContext(ctx)
	if c.number > 1 && req.GetBody != nil && req.Body != nil && req.Body != http.NoBody {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		req.Body = body
	}
	if c.propagate || c.cookies != nil {
		req.Header = req.Header.Clone()
		c.cookies.writeTo(req, c.t.jar)
	}
	if c.propagate {
		c.propagateTo(req, timeout)
	}
	return req, nil
}

// propagateTo tells the server the number of the attempt, and how long the
// client waits for the answer. If the call is made on behalf of a retry, it
// counts as that retry.
func (c *call) propagateTo(req *http.Request, timeout time.Duration) {
	req.Header.Set(HeaderAttempt, strconv.Itoa(c.number+max(0, c.upstream-1)))
	deadline, limited := req.Context().Deadline()
	left := time.Until(deadline)
	if timeout > 0 && (!limited || timeout < left) {
		left, limited = timeout, true
	}
	if limited { // rounded up: a server that gives up first would seem to fail
		req.Header.Set(HeaderDeadline, strconv.FormatInt(max(0, limits.Add(left, time.Millisecond-1)).Milliseconds(), 10))
	}
}

// send sends the request of an attempt. w is nil if nothing watches it.
func (c *call) send(req *http.Request, w *watch) error {
	resp, err := c.exchange(req)
	if w != nil {
		resp, err = w.answered(resp, err, c.req)
	}
	return c.receive(resp, err)
}

// exchange has Base send a request.
func (c *call) exchange(req *http.Request) (*http.Response, error) {
	if c.single == nil {
		return c.base.RoundTrip(withOwnErrors(req))
	}
	resp, err := c.base.RoundTrip(c.single.lend(req))
	if err == nil {
		c.single.loan.begin() // Base may still read it
	}
	c.single.takeBack()
	return resp, err
}

// sendWithin is send with a timeout, unless that is 0. The context of the
// attempt lives as long as the body of the answer. A connection is given up if nothing
// came on it for the last half of the attempt's time; what is left of MaxElapsed is none
// in which an answer must come.
func (c *call) sendWithin(req *http.Request, timeout time.Duration) error {
	switch watched := &c.t.hosts.watched; {
	case watched.Load():
	case timeout <= 0 && c.t.wholeTimeout <= 0:
		return c.send(req, nil)
	default:
		watched.Store(true)
	}
	w := &watch{base: c.base, silence: shorter(c.limit(), c.t.wholeTimeout) / 2}
	err := c.send(req.WithContext(w.begin(req.Context(), timeout, c.t.wholeTimeout)), w)
	late := w.timer != nil && !w.timer.Stop()
	if late || c.resp == nil {
		if w.timedOut() {
			w.giveUp(w.silence)
		} else if isLate(c.req.Context()) {
			w.giveUp(maxSilence)
		}
		w.end()
	}
	if late && c.req.Context().Err() == nil {
		c.discard()
		return errAttemptTimeout
	}
	return err
}

// These errors replace those with which Base reports the end of the attempt's
// time.
var (
	errAttemptTimeout error = attemptTimeout("the answer took longer than AttemptTimeout")
	errClientTimeout  error = attemptTimeout("the answer took longer than Client.Timeout")
	errBodyTimeout    error = attemptTimeout("no end of the body within Client.Timeout")
)

// attemptTimeout is the error of an attempt that took too long.
type attemptTimeout string

func (e attemptTimeout) Error() string { return string(e) }
func (attemptTimeout) Timeout() bool   { return true }
func (attemptTimeout) Temporary() bool { return true }
func (attemptTimeout) Is(target error) bool {
	return target == backoff.ErrAttemptTimeout || target == context.DeadlineExceeded
}

// bind returns a body that ends the watch when it ends. http.NoBody does so now,
// because callers rarely close it.
func bind(body io.ReadCloser, w *watch, isConnection bool) io.ReadCloser {
	if body == http.NoBody {
		w.end()
		return body
	}
	b := &boundBody{body, w, isConnection}
	if w, ok := body.(io.Writer); ok { // 101 Switching Protocols
		return boundConn{b, w}
	}
	return b
}

// boundBody is the body of an answer that came in time. It holds the context of
// its attempt.
type boundBody struct {
	io.ReadCloser
	watch        *watch
	isConnection bool // which no time limits
}

// Read ends the watch at the end of the body. It says so if the time of the attempt
// broke the body off.
func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.heard()
	}
	if err == nil {
		return n, nil
	}
	if err != io.EOF && !b.isConnection && b.watch.timedOut() {
		b.watch.giveUp(b.watch.silence)
		if context.Cause(b.watch.ctx) == errClientTimeout {
			err = errBodyTimeout
		}
	}
	b.watch.end()
	return n, err
}

// Close closes the body before it cancels the context, so that net/http sees
// the end of the body and no failure.
func (b *boundBody) Close() error {
	err := b.ReadCloser.Close()
	b.watch.end()
	return err
}

// boundConn is the body of an answer that is a connection.
type boundConn struct {
	*boundBody
	io.Writer
}

// CloseWrite ends what is written, as that of net/http does.
func (c boundConn) CloseWrite() error {
	if w, ok := c.Writer.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return fmt.Errorf("CloseWrite: %w", http.ErrNotSupported)
}

// retryNumberKey is the key of the number of the retry in a context.
type retryNumberKey struct{}

// RetryNumber returns the number of the [Transport]'s retry that sends a request: 1 for
// the first retry, and 0 for the first attempt or outside of a Transport. ctx is the
// context of the request. Inside the retry of another Transport the count continues from
// there. It is for the Base of a Transport, to add the number to logs and traces, as
// http.request.resend_count does.
func RetryNumber(ctx context.Context) int {
	n, _ := ctx.Value(retryNumberKey{}).(int)
	return n
}
