package backoffslog_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffslog"
)

// state is an error with a SQLSTATE.
type state string

func (s state) Error() string    { return string(s) }
func (s state) SQLState() string { return string(s) }

// code is the code of a status.
type code int

func (c code) String() string { return "Unavailable" }

// status is like that of gRPC.
type status struct{}

func (*status) Code() code { return 14 }

// grpcError has the method that gRPC's package status looks for.
type grpcError struct{ status *status }

func (grpcError) Error() string         { return "rpc error" }
func (e grpcError) GRPCStatus() *status { return e.status }

// odd has the methods that ErrorType reads, with useless results.
type odd struct{}

func (odd) Error() string       { return "odd" }
func (odd) GRPCStatus() string  { return "" }
func (odd) HTTPStatusCode() int { return 0 }
func (odd) SQLState() string    { return "made up by a server" }
func (odd) Unwrap() []error     { return []error{nil} }

func TestTheTypeOfAnErrorIsShort(t *testing.T) {
	endless := &backoff.Error{}
	endless.Last = endless
	for want, errs := range map[string][]error{
		"":                       {nil},
		"*net.OpError":           {fmt.Errorf("dial: %w", backoff.Permanent(&net.OpError{Err: errBoom}))},
		"*errors.errorString":    {errors.Join(errBoom, net.ErrClosed)},
		"*backoff.Error":         {&backoff.Error{Reason: backoff.ReasonBudget}, endless, (*backoff.Error)(nil)},
		"40001":                  {fmt.Errorf("%w and %w", errBoom, state("40001"))},
		"UNAVAILABLE":            {&backoff.Error{Last: errors.Join(errBoom, grpcError{&status{}})}},
		"backoffslog_test.state": {state("4000x")},
		"backoffslog_test.odd":   {odd{}},
		"backoffslog_test.cycle": {cycle{}},
	} {
		for _, err := range errs {
			require.Equal(t, want, backoffslog.ErrorType(err))
		}
	}
}

// noStatus is like the error of a gRPC client that has none.
type noStatus struct{}

type okCode int

func (okCode) String() string { return "OK" }

type nilStatus struct{}

func (*nilStatus) Code() okCode         { return 0 }
func (noStatus) Error() string          { return "no status" }
func (noStatus) GRPCStatus() *nilStatus { return nil }

// errorList is an error that cannot be compared.
type errorList []error

func (errorList) Error() string { return "list" }

// What this library puts around an error does not change its name.
func TestTheTypeOfAnErrorIsThatOfTheOperation(t *testing.T) {
	open := backoff.Breaker{Name: "db"}
	open.Force(backoff.ModeForcedOpen)
	refused := open.Do(t.Context(), func(context.Context) error { return nil })
	notCalled, cancel := context.WithCancel(t.Context())
	cancel()
	ended := backoff.Policy{}.Do(notCalled, func(context.Context) error { return nil })
	for want, err := range map[string]error{
		"*errors.errorString":       errBoom,
		"host lookup failed":        &net.DNSError{},
		"connection refused":        syscall.ECONNREFUSED,
		"*fs.PathError":             &fs.PathError{Err: errBoom},
		"timeout":                   context.DeadlineExceeded,
		"503":                       &backoffhttp.StatusError{Code: 503},
		"UNAVAILABLE":               grpcError{&status{}},
		"40001":                     state("40001"),
		"*backoff.OpenError":        refused,
		"backoffslog_test.noStatus": noStatus{},
	} {
		once := backoff.Policy{MaxAttempts: 1}
		for how, err := range map[string]error{
			"plain":        err,
			"permanent":    backoff.Permanent(err),
			"retry after":  backoff.RetryAfter(err, 1),
			"at once":      backoff.AtOnce(err),
			"marked twice": backoff.OfClass(backoff.Pushback(err, 1), backoff.ClassNotSent),
			"wrapped":      fmt.Errorf("load: %w", fmt.Errorf("layer: %w", err)),
			"joined":       errors.Join(backoff.AtOnce(err), context.Canceled),
			"gave up":      &backoff.Error{Reason: backoff.ReasonAttempts, Attempts: 3, Last: backoff.AtOnce(err)},
			"a policy's":   once.Do(t.Context(), func(context.Context) error { return fmt.Errorf("load: %w", backoff.AtOnce(err)) }),
			"all of it":    fmt.Errorf("app: %w", &backoff.Error{Last: backoff.Permanent(errors.Join(fmt.Errorf("load: %w", err)))}),
		} {
			require.Equal(t, want, backoffslog.ErrorType(err), how)
		}
	}
	require.Equal(t, "backoffslog_test.errorList", backoffslog.ErrorType(backoff.AtOnce(errorList{errBoom})), "which == cannot compare")
	require.Equal(t, "canceled", backoffslog.ErrorType(ended), "because the operation was not called")
}

// An http.Client needs a timeout in the first error of the tree.
func TestTheTypeOfAnErrorIsThatOfTheTransportsOperation(t *testing.T) {
	for want, cause := range map[string]error{
		"timeout": &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "host lookup failed": &net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}},
	} {
		tr := &backoffhttp.Transport{Policy: backoff.Policy{MaxAttempts: 1}, Base: failingBase{cause}, FailFast: true}
		req, err := http.NewRequest("GET", "http://a.test/", nil)
		require.NoError(t, err)
		_, err = tr.RoundTrip(req)
		require.ErrorIs(t, err, cause)
		require.Equal(t, want, backoffslog.ErrorType(err))
		refused := &backoffhttp.Transport{Policy: backoff.Policy{Budget: refusing{}}, Base: failingBase{cause}, FailFast: true}
		_, err = refused.RoundTrip(req)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Equal(t, want, backoffslog.ErrorType(err))
	}
}

type failingBase struct{ err error }

func (f failingBase) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// refusing is a budget that refuses retries.
type refusing struct{ backoff.BudgetDefaults }

func (refusing) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, a.First()
}

func ExampleErrorType() {
	fmt.Println(backoffslog.ErrorType(fmt.Errorf("listing: %w", &net.DNSError{IsNotFound: true})))
	fmt.Println(backoffslog.ErrorType(&backoffhttp.StatusError{Code: 503}))
	// Output:
	// no such host
	// 503
}

// cycle is an error that wraps itself, twice.
type cycle struct{}

func (cycle) Error() string   { return "cycle" }
func (cycle) Unwrap() []error { return []error{cycle{}, cycle{}} }
