package backoffhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/errtree"
)

// ErrChanged is the error of a body that cannot be resumed, because the server
// has another version by now, or does not serve parts, or contradicts its
// first response: by the complete length, the coding, or bytes beyond the
// range. Discard what was read, and make the call again.
var ErrChanged = errors.New("backoffhttp: the resource changed, or cannot be read from the middle")

// resumable reports whether the body of an answer may be asked for in parts.
func resumable(resp *http.Response, method string) bool {
	return (method == http.MethodGet || method == "") &&
		!resp.Uncompressed && !strings.EqualFold(resp.Header.Get("Accept-Ranges"), "none")
}

// resumedBody is the body of an answer that continues where it breaks off.
type resumedBody struct {
	call      call // makes the attempts for the rest
	ctx       context.Context
	cancel    context.CancelFunc
	validator string
	coding    string
	whole     bool // the answer is all of the resource

	reading sync.Mutex   // held by Read; guards what follows
	run     *backoff.Run // nil before the first failure
	next    int64        // position of the first byte that was not read
	last    int64        // position of the last byte of the answer; -1: not known
	until   int64        // position of the last byte of body; -1: where body ends
	size    int64        // complete length of the resource; -1: not known
	moved   bool         // bytes were read since the last failure
	failure error        // of the body; the next Read asks for the rest
	err     error        // that ended the body

	mu     sync.Mutex    // held when body changes, and by Close, which may be called during Read
	body   io.ReadCloser // changes only during Read
	closed atomic.Bool
}

// resume returns the body of an answer. If it can be continued, that is a body
// which continues where it breaks off.
func (c *call) resume(resp *http.Response) io.ReadCloser {
	validator := strongValidator(resp.Header)
	part, holdsOne := partOf(resp)
	if validator == "" || !holdsOne || !resumable(resp, c.req.Method) {
		return resp.Body
	}
	b := &resumedBody{
		call: *c, validator: validator, coding: coding(resp.Header), whole: resp.StatusCode == http.StatusOK,
		next: part.first, last: part.last, until: part.last, size: part.size, body: resp.Body,
	}
	b.call.resp, b.call.resumed = nil, true
	b.ctx, b.cancel = context.WithCancel(c.req.Context())
	return b
}

// Read implements [io.Reader].
func (b *resumedBody) Read(p []byte) (int, error) {
	defer b.settle()
	b.reading.Lock()
	defer b.reading.Unlock()
	for b.err == nil {
		if b.failure != nil {
			b.err, b.failure = b.reopen(b.failure), nil
			continue
		}
		n, err := b.read(p)
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

// read reads from the body of the latest answer, but nothing beyond its range.
func (b *resumedBody) read(p []byte) (int, error) {
	if b.until < 0 {
		return b.body.Read(p)
	}
	if left := b.until + 1 - b.next; left > 0 {
		return b.body.Read(p[:min(int64(len(p)), left)])
	}
	n, err := b.body.Read(make([]byte, min(1, len(p))))
	if n > 0 {
		return 0, errBeyond
	}
	return 0, err
}

// errBeyond is the error of an answer that goes on after the last byte of its
// range.
var errBeyond = backoff.Permanent(fmt.Errorf("%w: more bytes than the range of the answer", ErrChanged))

// end notes how the body of an answer ended. It may have ended before the
// resource, since a server may send a smaller part than it was asked for.
func (b *resumedBody) end(err error) {
	switch {
	case err == errBeyond:
		b.err = err
		b.report(err)
	case b.last >= 0 && b.next > b.last, b.until < 0 && err == io.EOF:
		b.err = io.EOF
		b.report(nil)
	case err == io.EOF:
		b.failure = io.ErrUnexpectedEOF
	default:
		b.failure = err
	}
}

// report ends the attempt whose body was read, if it is not the first one.
func (b *resumedBody) report(err error) {
	if b.run != nil {
		b.run.Retry(err)
		b.run = nil
	}
}

// settle reports an attempt whose body was closed before its end. If a Read is
// under way, that Read does so.
func (b *resumedBody) settle() {
	if b.closed.Load() && b.reading.TryLock() {
		defer b.reading.Unlock()
		b.report(nil)
	}
}

// reopen asks for the rest of the body after a failure, as often as the policy
// allows.
func (b *resumedBody) reopen(err error) error {
	if b.ctx.Err() != nil { // the body was closed, or the caller's context ended
		b.report(err)
		return b.orEnded(err)
	}
	if b.run == nil {
		b.run = b.policy().Start(endpoint.With(b.ctx, b.call.to))
		b.call.restart()
	} else if b.moved {
		b.run.Progress()
		b.call.restart()
	}
	for {
		wait, ok := b.run.Tried(err)
		b.moved = false
		b.call.discard()
		if ok {
			_, ok = b.run.Begin(wait)
		}
		if !ok {
			err = b.call.remarked(b.call.guards.finalError(b.ctx, b.run.Err()))
			return asTimeout(&url.Error{Op: "Get", URL: b.call.req.URL.Redacted(), Err: err}) // as from an http.Client
		}
		if err = b.ask(); err == nil {
			return nil
		}
	}
}

// orEnded returns err. If the caller's context ended, that matches its error, too, whichever
// was noticed first.
func (b *resumedBody) orEnded(err error) error {
	ctx := b.call.req.Context()
	if ctx.Err() == nil || errtree.Is(err, ctx.Err()) || errtree.Is(err, context.Cause(ctx)) {
		return err
	}
	return asTimeout(fmt.Errorf("%w: %w", errtree.Ended(ctx), err))
}

// policy returns the policy of the call, with a budget that knows of the body.
func (b *resumedBody) policy() *backoff.Policy {
	p := *b.call.policy
	if p.Budget != nil {
		p.Budget = &progressBudget{Budget: p.Budget, body: b}
	}
	return &p
}

// progressBudget is the budget of a resumed body. If bytes have arrived since the last
// failure, the budget of the policy sees the next attempt as a first one. Such an attempt
// repeats no work, and if it were refused, the caller would ask for the whole body again.
type progressBudget struct {
	backoff.Budget
	body *resumedBody

	several bool // the body has got more than its first piece
	extra   int  // retries that the budget of the policy refused, and the body may make
}

// Reserve implements [backoff.Budget]. The pieces pay for few retries in a row, and after three
// of them a client is not new any more. So a body of several pieces may make the retries of one
// call, MaxAttempts - 1 in its life, that the budget would refuse.
func (b *progressBudget) Reserve(a backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	if b.body.moved {
		a.Number = 1
	}
	t, wait, ok = b.Budget.Reserve(a)
	if !ok && b.several && b.extra < a.MaxAttempts-1 {
		b.extra++
		a.Number = 1
		return b.Budget.Reserve(a)
	}
	return t, wait, ok
}

// Done implements [backoff.Budget]. An attempt that brought bytes is a success of the host, however
// its body ended, and how long the caller took to read it says nothing. The first answer counted
// as one when it came.
func (b *progressBudget) Done(t backoff.Ticket, r backoff.Result) {
	if b.body.moved && b.body.run.Attempt() > 1 && !r.NotSent {
		b.several, r = true, backoff.Result{}
	}
	b.Budget.Done(t, r)
}

// ask makes one attempt to get the rest.
func (b *resumedBody) ask() error {
	end := ""
	if b.last >= 0 {
		end = strconv.FormatInt(b.last, 10)
	}
	c := &b.call
	c.req = c.req.Clone(b.ctx)
	c.req.Header.Set("Range", "bytes="+strconv.FormatInt(b.next, 10)+"-"+end)
	c.req.Header.Set("If-Range", b.validator)
	err := c.attempt(nil)
	switch {
	case c.resp != nil && c.resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return b.finish(c.resp)
	case err == nil:
		return b.accept(c.resp)
	}
	return err
}

// finish ends the body if it has no rest. The length of such a body was not
// known.
func (b *resumedBody) finish(resp *http.Response) error {
	if !b.whole || b.last >= 0 || sizeOf(resp) != b.next {
		return changed(resp)
	}
	b.call.discard()
	b.until = -1
	b.replace(http.NoBody)
	return nil
}

// accept continues with the body of an answer, if that is the rest or a part of
// it, or the whole body again.
func (b *resumedBody) accept(resp *http.Response) error {
	part, ok := partOf(resp)
	if !ok || !b.continuesWith(part, resp.StatusCode) || !b.isSame(resp) {
		return changed(resp)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, b.next-part.first); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if b.size = max(b.size, part.size); b.whole && b.size >= 0 {
		b.last = b.size - 1
	}
	if b.until = part.last; b.until < 0 {
		b.until = b.last
	}
	b.call.resp = nil
	b.replace(resp.Body)
	return nil
}

// continuesWith reports whether a part begins where the body broke off, or is the
// whole body again (200), and does not contradict the first answer.
func (b *resumedBody) continuesWith(part contentRange, status int) bool {
	begins := part.first == b.next
	if status == http.StatusOK {
		begins = b.whole && (part.size < 0 || part.size >= b.next)
	}
	sameSize := b.size < 0 || part.size < 0 || b.size == part.size
	return begins && sameSize && (b.last < 0 || part.last <= b.last)
}

// changed returns the error for an answer that is not the rest.
func changed(resp *http.Response) error {
	return backoff.Permanent(fmt.Errorf("%w: %s", ErrChanged, printable(resp.Status)))
}

// replace continues with another body.
func (b *resumedBody) replace(body io.ReadCloser) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.body.Close()
	b.body = body
	if b.closed.Load() {
		body.Close()
	}
}

// isSame reports whether an answer has the version and the coding of the first
// one. A part (206) that names neither has both, because If-Range asked for
// them.
func (b *resumedBody) isSame(resp *http.Response) bool {
	name := "Last-Modified"
	if strings.HasPrefix(b.validator, `"`) {
		name = "Etag"
	}
	version, codings := resp.Header.Get(name), resp.Header["Content-Encoding"]
	part := resp.StatusCode == http.StatusPartialContent
	return !resp.Uncompressed &&
		(version == b.validator || version == "" && part) &&
		(coding(resp.Header) == b.coding || len(codings) == 0 && part)
}

// Close implements [io.Closer]. It ends a Read that is waiting.
func (b *resumedBody) Close() error {
	b.cancel()
	defer b.settle()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed.Store(true)
	return b.body.Close()
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

// coding returns the content coding of a body.
func coding(h http.Header) string {
	return cmp.Or(strings.ToLower(strings.Join(h["Content-Encoding"], ",")), "identity")
}

// contentRange is a Content-Range. last and size are -1 if they are not known.
type contentRange struct{ first, last, size int64 }

// parseRange reads "bytes 0-9/100" and "bytes 0-9/*".
func parseRange(value string) (contentRange, bool) {
	unit, rest, ok := strings.Cut(value, " ")
	span, size, ok2 := strings.Cut(rest, "/")
	first, last, ok3 := strings.Cut(span, "-")
	if !strings.EqualFold(unit, "bytes") || !ok || !ok2 || !ok3 {
		return contentRange{}, false
	}
	r := contentRange{first: offset(first), last: offset(last), size: offset(size)}
	return r, r.first >= 0 && r.last >= r.first && (r.size > r.last || size == "*")
}

// offset reads a number of bytes, or returns -1.
func offset(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || digits[0] < '0' || digits[0] > '9' || n == math.MaxInt64 {
		return -1
	}
	return n
}

// partOf returns which part of the resource an answer holds. It returns false if
// the answer is neither a 200 nor a 206, holds several parts, or contradicts
// itself.
func partOf(resp *http.Response) (contentRange, bool) {
	length := resp.ContentLength
	switch {
	case resp.StatusCode == http.StatusOK && length <= 0: // a RoundTripper may leave it out
		return contentRange{last: -1, size: -1}, true
	case resp.StatusCode == http.StatusOK:
		return contentRange{last: length - 1, size: length}, true
	}
	values := resp.Header["Content-Range"]
	if resp.StatusCode != http.StatusPartialContent || len(values) != 1 || strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "multipart/byteranges") {
		return contentRange{}, false
	}
	part, ok := parseRange(values[0])
	return part, ok && (length <= 0 || length == part.last-part.first+1)
}

// sizeOf returns the complete length of the resource that a 416 tells, or -1.
func sizeOf(resp *http.Response) int64 {
	unit, size, _ := strings.Cut(resp.Header.Get("Content-Range"), " */")
	if !strings.EqualFold(unit, "bytes") {
		return -1
	}
	return offset(size)
}
