package fault

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gobackoff/backoff"
)

// Op returns op with the faults of the plan. Each call is an attempt. Op calls op
// if the request would have reached the service: with [Lost], for one, op does
// its work, and the caller gets an error.
//
// The error of [Status] has a method HTTPStatusCode, and that of
// [Fault.RetryAfter] can be read by the policies of package backoff.
func (i *Injector) Op(op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		e := i.begin(Attempt{Whole: true}, nil)
		return i.end(e, 0, e.Fault.call(ctx, op))
	}
}

// Doer returns d, whose operations have the faults of the plan, see
// [Injector.Op]. It suits code under test that takes a [backoff.Doer].
func (i *Injector) Doer(d backoff.Doer) backoff.Doer { return doer{i, d} }

type doer struct {
	injector *Injector
	backoff.Doer
}

func (d doer) Do(ctx context.Context, op func(context.Context) error) error {
	return d.Doer.Do(ctx, d.injector.Op(op))
}

// call calls op under f.
func (f Fault) call(ctx context.Context, op func(context.Context) error) error {
	switch f.kind {
	case status:
		return f.statusError()
	case reset, cutRequest:
		return connectionReset("write")
	}
	err := op(ctx)
	switch f.kind {
	case lost, cut, truncate:
		return f.broken()
	case hang:
		<-ctx.Done()
		return context.Cause(ctx)
	case slow, trickle:
		if late := pause(ctx, nil, f.wait); late != nil {
			return late
		}
	}
	return err
}

// A statusError is the error of a Status.
type statusError int

func (s statusError) Error() string {
	return fmt.Sprintf("status %d %s", int(s), http.StatusText(int(s)))
}

// HTTPStatusCode returns the status.
func (s statusError) HTTPStatusCode() int { return int(s) }

// statusError returns the error of an operation whose service answers with a status.
func (f Fault) statusError() error {
	if f.status < 300 {
		return nil
	}
	err := error(statusError(f.status))
	if seconds, bad := strconv.Atoi(f.asks); bad == nil {
		return backoff.RetryAfter(err, time.Duration(seconds)*time.Second)
	}
	return err
}
