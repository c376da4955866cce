package wraperr

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/poll"
)

var (
	policy  = backoff.Policy{Name: "fetch"}
	breaker backoff.Breaker
	service guard.Service
	errBusy = errors.New("busy")
)

type status struct{ code int }

func (*status) Error() string { return "status" }

func op(ctx context.Context) error              { return ctx.Err() }
func fetch(ctx context.Context) (string, error) { return "", ctx.Err() }
func done(ctx context.Context) (bool, error)    { return true, errBusy }
func other() error                              { return nil }

func equal(ctx context.Context) bool {
	err := policy.Do(ctx, op)
	return err == context.Canceled // want `err wraps the error of the operation once the policy has given up, .* never equal .* Use errors.Is, or compare backoff.Cause\(err\)`
}

func different(ctx context.Context) error {
	if err := policy.Do(ctx, op); err != nil && err != errBusy { // want `always different`
		return err
	}
	return nil
}

func turned(ctx context.Context) bool {
	_, err := backoff.DoValue(ctx, policy, fetch)
	return io.ErrUnexpectedEOF == err // want `never equal`
}

func direct(ctx context.Context) bool {
	return policy.Do(ctx, op) == errBusy // want `never equal`
}

func ofRun(ctx context.Context) bool {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		r.Fail(op(ctx))
	}
	return r.Err() == errBusy // want `never equal`
}

func bySwitch(ctx context.Context) int {
	err := service.With(policy).Do(ctx, op)
	switch err {
	case nil:
		return 0
	case errBusy: // want `never equal`
		return 1
	}
	return 2
}

func byType(ctx context.Context) int {
	err := policy.Do(ctx, op)
	if s, ok := err.(*status); ok { // want `err is an \*Error around the error of the operation .* Use errors.As`
		return s.code
	}
	switch err := err.(type) { // want `its type is not that of the operation's error`
	case *status:
		return err.code
	case net.Error:
		return 1
	}
	return 0
}

// Those below are right.

func is(ctx context.Context) bool {
	err := policy.Do(ctx, op)
	return err == nil || nil != err || errors.Is(err, errBusy)
}

func cause(ctx context.Context) bool {
	err := policy.Do(ctx, op)
	if backoff.Cause(err) == errBusy {
		return true
	}
	err = backoff.Cause(err)
	if _, ok := err.(*status); ok {
		return true
	}
	return err == errBusy
}

func ofTheLibrary(ctx context.Context) bool {
	err := policy.Do(ctx, op)
	switch err.(type) {
	case nil, *backoff.Error:
		return true
	}
	_, ok := err.(*backoff.OpenError)
	return ok
}

func ofBreaker(ctx context.Context) bool {
	err := breaker.Do(ctx, op)
	_, other := backoff.DoValue(ctx, &breaker, fetch)
	return err == errBusy || other == errBusy
}

func another(ctx context.Context) bool {
	err := policy.Do(ctx, op)
	if err == nil {
		err = other()
	}
	return err == errBusy
}

func inTheOperation(ctx context.Context) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		err := op(ctx)
		if err == errBusy {
			return backoff.Permanent(err)
		}
		return err
	})
}

func polled(ctx context.Context) bool {
	err := poll.Until(ctx, policy, done)
	return err == errBusy // the error of a job that is done comes as it is
}

func twoErrors(ctx context.Context, before error) bool {
	err := policy.Do(ctx, op)
	return err == before
}
