package evidence_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/evidence"
)

// of reads an error whose types are all known to the package.
func of(err error) evidence.Class {
	return evidence.Of(err, func(error) (error, bool) { return nil, false })
}

// The errors of other libraries, each with one of their methods.
type (
	azure     struct{ error }
	retryable struct {
		error
		yes bool
	}
	canceled struct{ error }
	code     struct {
		error
		code string
	}
	status struct {
		error
		code int
	}
	safe  struct{ error }
	state struct {
		error
		state string
	}
	google struct {
		error
		code int
	}
	mongo struct {
		error
		label string
	}
	temporary struct {
		error
		yes bool
	}
	likeCanceled struct{ error }
)

func (azure) NonRetriable()                     {}
func (e retryable) RetryableError() bool        { return e.yes }
func (canceled) CanceledError() bool            { return true }
func (e code) ErrorCode() string                { return e.code }
func (e status) HTTPStatusCode() int            { return e.code }
func (safe) SafeToRetry() bool                  { return true }
func (e state) SQLState() string                { return e.state }
func (e google) HTTPCode() int                  { return e.code }
func (e mongo) HasErrorLabel(label string) bool { return e.label == label }
func (e temporary) Temporary() bool             { return e.yes }
func (likeCanceled) Is(target error) bool       { return target == context.Canceled }

var errPlain = errors.New("plain")

func TestAnErrorSaysByAMethodWhatItMeans(t *testing.T) {
	for _, c := range []struct {
		err  error
		want evidence.Class
	}{
		{azure{errPlain}, evidence.Permanent},
		{retryable{errPlain, true}, evidence.Retryable},
		{retryable{errPlain, false}, evidence.Permanent},
		{canceled{errPlain}, evidence.Permanent},
		{likeCanceled{errPlain}, evidence.Permanent},
		{safe{errPlain}, evidence.Retryable},
		{temporary{errPlain, true}, evidence.Retryable},
		{temporary{errPlain, false}, evidence.Unknown},
		{mongo{errPlain, "RetryableWriteError"}, evidence.Retryable},
		{mongo{errPlain, "another"}, evidence.Unknown},
		{status{errPlain, 503}, evidence.Retryable},
		{status{errPlain, 0}, evidence.Unknown},
		{google{errPlain, 429}, evidence.Throttled},
		{google{errPlain, -1}, evidence.Unknown},
		{code{errPlain, "SlowDown"}, evidence.Throttled},
		{code{errPlain, "RequestTimeout"}, evidence.Retryable},
		{code{errPlain, "AccessDenied"}, evidence.Unknown},
		{errPlain, evidence.Unknown},
	} {
		require.Equal(t, c.want, of(c.err), "%T", c.err)
		require.Equal(t, c.want, of(fmt.Errorf("layer: %w", c.err)), "%T", c.err)
	}
}

func TestASQLSTATEMeansWhatPostgreSQLSays(t *testing.T) {
	for code, want := range map[string]evidence.Class{
		"40001": evidence.Retryable, "57P03": evidence.Retryable, "08006": evidence.Retryable, "53300": evidence.Throttled,
		"23505": evidence.Permanent, "42601": evidence.Permanent, "99999": evidence.Unknown, "": evidence.Unknown,
	} {
		require.Equal(t, want, of(state{errPlain, code}), code)
	}
}

func TestAnHTTPStatusMeansWhatItsRFCSays(t *testing.T) {
	for code, want := range map[int]evidence.Class{
		200: evidence.Unknown, 399: evidence.Unknown, 404: evidence.Permanent, 408: evidence.Retryable, 425: evidence.Retryable,
		429: evidence.Throttled, 500: evidence.Retryable, 501: evidence.Permanent, 511: evidence.Permanent, 599: evidence.Retryable, 600: evidence.Unknown,
	} {
		require.Equal(t, want, evidence.Status(code), "%d", code)
	}
}

func TestAConnectionsErrorSaysWhetherTheRequestWasSent(t *testing.T) {
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	for _, c := range []struct {
		err  error
		want evidence.Class
	}{
		{&net.OpError{Op: "dial", Err: refused}, evidence.NotSent},
		{&net.OpError{Op: "read", Err: refused}, evidence.Retryable},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, evidence.Retryable},
		{syscall.EINTR, evidence.Retryable},
		{syscall.ENOENT, evidence.Unknown},
		{net.ErrClosed, evidence.Retryable},
		{&net.DNSError{IsNotFound: true}, evidence.Permanent},
		{&net.DNSError{}, evidence.Unknown},
		{&url.Error{Op: "Get", URL: "http://a.test", Err: io.EOF}, evidence.Retryable},
		{io.EOF, evidence.Unknown},
		{io.ErrUnexpectedEOF, evidence.Retryable},
		{context.DeadlineExceeded, evidence.Retryable},
		{context.Canceled, evidence.Permanent},
		{x509.UnknownAuthorityError{}, evidence.Permanent},
	} {
		require.Equal(t, c.want, of(c.err), "%v", c.err)
	}
}

func TestATreeIsNotSentOnlyIfEveryBranchIs(t *testing.T) {
	notSent := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	require.Equal(t, evidence.NotSent, of(errors.Join(notSent, notSent)))
	require.Equal(t, evidence.Retryable, of(errors.Join(notSent, errPlain)))
	require.Equal(t, evidence.Permanent, of(errors.Join(notSent, context.Canceled)))
	require.Equal(t, evidence.Throttled, of(errors.Join(status{errPlain, 404}, code{errPlain, "SlowDown"})), "a code says more than a status")
}

// A wrapper whose Unwrap returns nil is read as it is.
type empty struct{}

func (empty) Error() string { return "empty" }
func (empty) Unwrap() error { return nil }

func TestAWrapperOfNothingIsReadItself(t *testing.T) {
	require.Equal(t, evidence.Unknown, of(empty{}))
}

func TestTheCallerMayReadTypesOfItsOwn(t *testing.T) {
	look := func(err error) (error, bool) {
		if _, ok := err.(azure); ok {
			return context.DeadlineExceeded, true
		}
		return nil, false
	}
	require.Equal(t, evidence.Retryable, evidence.Of(fmt.Errorf("layer: %w", azure{errPlain}), look))
}

func TestNoneIsTrueOfErrorsThatSayNothing(t *testing.T) {
	require.True(t, evidence.None(&struct{ error }{errPlain}))
	for _, err := range []error{azure{errPlain}, syscall.ENOENT, errors.Join(errPlain), fmt.Errorf("%w", errPlain), context.Canceled, io.ErrUnexpectedEOF, x509.UnknownAuthorityError{}} {
		require.False(t, evidence.None(err), "%T", err)
	}
}
