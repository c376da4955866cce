package backoffhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// ErrChanged is the error of a body that cannot be resumed, because the server
// has another version by now, or does not serve parts. What was read before is
// of no use: make the call again.
var ErrChanged = errors.New("backoffhttp: the resource changed, or cannot be read from the middle")

// resumable reports whether the body of an answer can be continued, and with
// which validator.
func resumable(resp *http.Response, method string) (validator string, ok bool) {
	if method != http.MethodGet && method != "" ||
		resp.Uncompressed || strings.EqualFold(resp.Header.Get("Accept-Ranges"), "none") {
		return "", false
	}
	validator = strongValidator(resp.Header)
	return validator, validator != "" && (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent)
}

// strongValidator returns an entity tag, or a date, that changes with every
// byte of the resource, or "". A date does so if the answer is at least a
// second younger (RFC 9110, 8.8.2.2).
func strongValidator(h http.Header) string {
	tag := h.Get("Etag")
	if strings.HasPrefix(tag, `"`) {
		return tag
	}
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	date, err2 := http.ParseTime(h.Get("Date"))
	if tag != "" || err != nil || err2 != nil || date.Sub(modified) < time.Second {
		return ""
	}
	return h.Get("Last-Modified")
}

// contentRange is a Content-Range. last and size are -1 if they are not known.
type contentRange struct{ first, last, size int64 }

// parseRange reads "bytes 0-9/100" and "bytes 0-9/*".
func parseRange(value string) (contentRange, bool) {
	span, size, ok := strings.Cut(strings.TrimPrefix(value, "bytes "), "/")
	first, last, ok2 := strings.Cut(span, "-")
	if !strings.HasPrefix(value, "bytes ") || !ok || !ok2 {
		return contentRange{}, false
	}
	r := contentRange{first: offset(first), last: offset(last), size: offset(size)}
	return r, r.first >= 0 && r.last >= r.first && (r.size > r.last || size == "*")
}

// offset reads a number of bytes, or returns -1.
func offset(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || digits[0] < '0' || digits[0] > '9' {
		return -1
	}
	return n
}

// resumedBody is the body of an answer that continues where it breaks off.
type resumedBody struct {
	call      call         // makes the attempts for the rest
	run       *backoff.Run // nil before the first failure
	ctx       context.Context
	cancel    context.CancelFunc
	validator string
	first     int64 // position of the first byte of the answer
	next      int64 // position of the first byte that was not read
	last      int64 // position of the last byte of the answer; -1: not known
	moved     bool  // bytes were read since the last failure
	failure   error // of the body; the next Read asks for the rest
	err       error // that ended the body

	mu     sync.Mutex // guards body and closed: Close may be called during Read
	body   io.ReadCloser
	closed bool
}

// resume returns the body of an answer. If it can be continued, that is a body
// which continues where it breaks off.
func (c *call) resume(resp *http.Response) io.ReadCloser {
	validator, ok := resumable(resp, c.req.Method)
	if !ok {
		return resp.Body
	}
	b := &resumedBody{call: *c, validator: validator, last: -1, body: resp.Body}
	b.call.resp, b.call.resumed = nil, true
	if resp.StatusCode == http.StatusPartialContent {
		part, ok := parseRange(resp.Header.Get("Content-Range"))
		if !ok {
			return resp.Body
		}
		b.first, b.next, b.last = part.first, part.first, part.last
	} else if resp.ContentLength >= 0 {
		b.last = resp.ContentLength - 1
	}
	b.ctx, b.cancel = context.WithCancel(c.req.Context())
	return b
}

// Read implements [io.Reader].
func (b *resumedBody) Read(p []byte) (int, error) {
	for b.err == nil {
		if b.failure != nil {
			b.err, b.failure = b.reopen(b.failure), nil
			continue
		}
		n, err := b.current().Read(p)
		b.next += int64(n)
		b.moved = b.moved || n > 0
		if err != nil {
			b.end(err)
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
	return 0, b.err
}

// current returns the body of the latest answer.
func (b *resumedBody) current() io.Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.body
}

// end notes how the body of an answer ended.
func (b *resumedBody) end(err error) {
	switch {
	case err != io.EOF:
		b.failure = err
	case b.next <= b.last:
		b.failure = io.ErrUnexpectedEOF
	default:
		b.err = io.EOF
		if b.run != nil {
			b.run.Retry(nil)
		}
	}
}

// reopen asks for the rest of the body after a failure, as often as the policy
// allows.
func (b *resumedBody) reopen(err error) error {
	if b.ctx.Err() != nil {
		return err // the body was closed, or the caller's context ended
	}
	if b.run == nil {
		b.run = b.policy().Start(b.ctx)
	} else if b.moved {
		b.run.Progress()
	}
	for {
		pause, ok := b.run.Retry(err)
		b.moved = false
		b.call.discard()
		if !ok || !b.run.Begin(pause) {
			return asTimeout(b.run.Err())
		}
		if err = b.ask(); err == nil {
			return nil
		}
	}
}

// policy returns the policy of the call. If bytes have arrived since the last
// failure, the budget of the policy sees the next attempt as a first one. Such
// an attempt repeats no work, and if it were refused, the caller would ask for
// the whole body again.
func (b *resumedBody) policy() *backoff.Policy {
	p := *b.call.policy
	if p.Budget != nil {
		p.Budget = progressBudget{p.Budget, b}
	}
	return &p
}

// progressBudget is the budget of a resumed body.
type progressBudget struct {
	backoff.Budget
	body *resumedBody
}

// Reserve implements [backoff.Budget].
func (b progressBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if b.body.moved {
		a.Kind = backoff.AttemptFirst
	}
	return b.Budget.Reserve(a)
}

// ask makes one attempt to get the rest.
func (b *resumedBody) ask() error {
	end := ""
	if b.last >= 0 {
		end = strconv.FormatInt(b.last, 10)
	}
	c := b.call
	c.req = c.req.WithContext(b.ctx)
	c.req.Header = c.req.Header.Clone()
	c.req.Header.Set("Range", "bytes="+strconv.FormatInt(b.next, 10)+"-"+end)
	c.req.Header.Set("If-Range", b.validator)
	err := c.attempt()
	b.call.number, b.call.resp = c.number, c.resp
	if err == nil {
		err = b.accept(c.resp)
	} else if c.resp != nil && c.resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		err = backoff.Permanent(fmt.Errorf("%w: %w", ErrChanged, err))
	}
	return err
}

// accept continues with the body of an answer, if that is the rest, or the
// whole body again.
func (b *resumedBody) accept(resp *http.Response) error {
	part, ok := parseRange(resp.Header.Get("Content-Range"))
	same := sameVersion(b.validator, resp.Header)
	switch {
	case resp.StatusCode == http.StatusPartialContent && ok && same && part.first == b.next && (b.last < 0 || part.last <= b.last):
	case resp.StatusCode == http.StatusOK && same && b.first == 0:
		if _, err := io.CopyN(io.Discard, resp.Body, b.next); err != nil {
			return err
		}
	default:
		return backoff.Permanent(fmt.Errorf("%w: %s", ErrChanged, resp.Status))
	}
	b.call.resp = nil
	b.mu.Lock()
	defer b.mu.Unlock()
	b.body.Close()
	b.body = resp.Body
	if b.closed {
		resp.Body.Close()
	}
	return nil
}

// sameVersion reports whether an answer has the version that the validator
// names. A part (206) without a version does, because If-Range asked for that
// version.
func sameVersion(validator string, h http.Header) bool {
	name := "Last-Modified"
	if strings.HasPrefix(validator, `"`) {
		name = "Etag"
	}
	now := h.Get(name)
	return now == validator || now == "" && h.Get("Content-Range") != ""
}

// Close implements [io.Closer]. It ends a Read that is waiting.
func (b *resumedBody) Close() error {
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.body.Close()
}
