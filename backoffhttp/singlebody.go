package backoffhttp

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/gobackoff/backoff"
)

// A singleBody is the body of a request that can be read once only. It is lent to each
// attempt, and the next one gets it too if none has read from it. It is also the
// Idempotency of its request.
type singleBody struct {
	said    backoff.Idempotency                   // of the request, whatever its body
	limits  map[backoff.Class]backoff.ClassLimits // of the attempts; empty once it is read
	patient *backoff.Policy                       // that of the request, without these limits
	loan    *loan                                 // to the last attempt
}

// singleBodyOf returns that of a request, or nil if it has no body, or one with GetBody.
func singleBodyOf(req *http.Request) *singleBody {
	if req.Body == nil || req.Body == http.NoBody || req.GetBody != nil {
		return nil
	}
	return new(singleBody)
}

// takeBack ends the loan, if there is one, and reports whether no attempt has read from the
// body. If one has, takeBack removes the limits, which the Run of the call has too.
func (b *singleBody) takeBack() bool {
	if b == nil || b.loan == nil || b.loan.takeBack() {
		return b != nil
	}
	clear(b.limits)
	return false
}

// Repeatable implements [backoff.Idempotency].
func (b *singleBody) Repeatable(ctx context.Context, c backoff.Class) bool {
	return c == backoff.ClassNotSent && b.takeBack() && b.said.Repeatable(ctx, c)
}

// limit limits p, the policy of the request, to one attempt, and to another one after each
// that was not sent, until the body is read.
func (b *singleBody) limit(p *backoff.Policy) {
	b.said = cmp.Or[backoff.Idempotency](p.Idempotency, backoff.Idempotent)
	p.Idempotency = b
	patient, unsent := *p, p.ByClass[backoff.ClassNotSent]
	unsent.MaxAttempts = cmp.Or(unsent.MaxAttempts, p.MaxAttempts, 4)
	b.patient, b.limits = &patient, map[backoff.Class]backoff.ClassLimits{backoff.ClassNotSent: unsent}
	limitToOneAttempt(p)
	p.ByClass = b.limits
	b.takeBack()
}

// lend returns req, which is for the next attempt, with the body on loan.
func (b *singleBody) lend(req *http.Request) *http.Request {
	if b.takeBack() {
		b.loan = &loan{ownBody: ownBody{req.Body}}
	}
	own := req.WithContext(req.Context())
	own.Body = b.loan
	return own
}

// A loan is a body for one attempt. It belongs to the call until Base reads from it. The
// call can take it back before, and then Base, which may be about to begin in a goroutine
// of its own, reads nothing.
type loan struct {
	ownBody
	state atomic.Int32
}

const (
	lent   int32 = iota
	back         // it is the call's: it was taken back, or Base has closed it unread
	read         // it is Base's
	closed       // by Base, after that
)

// begin reports whether Base may read from the body, which is Base's from now on.
func (l *loan) begin() bool {
	return l.state.CompareAndSwap(lent, read) || l.state.Load() == read
}

// takeBack reports whether the body is the call's from now on.
func (l *loan) takeBack() bool {
	return l.state.CompareAndSwap(lent, back) || l.state.Load() == back
}

func (l *loan) Read(p []byte) (int, error) {
	if !l.begin() {
		return 0, http.ErrBodyReadAfterClose
	}
	return l.ownBody.Read(p)
}

// Close closes a body that is Base's. The end of the call closes any other.
func (l *loan) Close() error {
	if !l.takeBack() && l.state.CompareAndSwap(read, closed) {
		return l.ownBody.Close()
	}
	return nil
}

// SyscallConn implements [syscall.Conn], by which package net lets the system send a file.
func (l *loan) SyscallConn() (syscall.RawConn, error) {
	if file, ok := l.ReadCloser.(*os.File); ok && l.begin() {
		return file.SyscallConn()
	}
	return nil, http.ErrNotSupported
}
