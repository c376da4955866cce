package backoffslog_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"testing"

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
	for want, err := range map[string]error{
		"":                              nil,
		"*net.OpError":                  fmt.Errorf("dial: %w", backoff.Permanent(&net.OpError{Err: errBoom})),
		"*errors.errorString":           errors.Join(errBoom, net.ErrClosed),
		"*backoff.Error":                &backoff.Error{},
		"*fs.PathError":                 &backoff.Error{Last: fmt.Errorf("%w", &fs.PathError{})},
		"503":                           backoff.RetryAfter(&backoffhttp.StatusError{Code: 503, Header: http.Header{}}, 1),
		"40001":                         fmt.Errorf("%w and %w", errBoom, state("40001")),
		"Unavailable":                   &backoff.Error{Last: errors.Join(errBoom, fmt.Errorf("call: %w", grpcError{&status{}}))},
		"backoffslog_test.state":        state("4000x"),
		"backoffslog_test.odd":          odd{},
		"context.deadlineExceededError": context.DeadlineExceeded,
	} {
		require.Equal(t, want, backoffslog.ErrorType(err))
	}
}

func ExampleErrorType() {
	fmt.Println(backoffslog.ErrorType(fmt.Errorf("listing: %w", &net.DNSError{})))
	fmt.Println(backoffslog.ErrorType(&backoffhttp.StatusError{Code: 503}))
	// Output:
	// *net.DNSError
	// 503
}

// cycle is an error that wraps itself, twice.
type cycle struct{}

func (cycle) Error() string   { return "cycle" }
func (cycle) Unwrap() []error { return []error{cycle{}, cycle{}} }

func TestAnErrorWithoutAnEndHasAType(t *testing.T) {
	require.Equal(t, "backoffslog_test.cycle", backoffslog.ErrorType(cycle{}))
	e := &backoff.Error{}
	e.Last = e
	require.Equal(t, "*backoff.Error", backoffslog.ErrorType(e))
	require.Equal(t, "*backoff.Error", backoffslog.ErrorType((*backoff.Error)(nil)))
}
