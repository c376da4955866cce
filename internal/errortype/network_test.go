package errortype_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errortype"
)

// slow is an error of somebody's own that says that it is a timeout.
type slow struct{ inner error }

func (slow) Error() string   { return "slow" }
func (slow) Timeout() bool   { return true }
func (s slow) Unwrap() error { return s.inner }

// quota is one that only has the method.
type quota struct{}

func (quota) Error() string { return "quota" }
func (quota) Timeout() bool { return false }

// panics is one whose method cannot be called.
type panics struct{}

func (panics) Error() string { return "panics" }
func (panics) Timeout() bool { panic("nil pointer") }

func dial(err error) error {
	return &url.Error{Op: "Get", URL: "http://a.test", Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}}
}

func TestAFailureOfTheNetworkHasAPlainName(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{dial(syscall.ECONNREFUSED), "connection refused"},
		{syscall.ECONNREFUSED, "connection refused"},
		{dial(syscall.ECONNRESET), "connection reset"},
		{dial(syscall.EPIPE), "connection reset"},
		{dial(syscall.ECONNABORTED), "connection reset"},
		{dial(syscall.EHOSTUNREACH), "host unreachable"},
		{dial(syscall.ENETUNREACH), "host unreachable"},
		{dial(syscall.ETIMEDOUT), "timeout"},
		{dial(&net.DNSError{IsNotFound: true}), "no such host"},
		{dial(&net.DNSError{IsTimeout: true}), "host lookup failed"},
		{&net.DNSError{}, "host lookup failed"},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "timeout"},
		{fmt.Errorf("load: %w", context.DeadlineExceeded), "timeout"},
		{slow{}, "timeout"},
		{&url.Error{Op: "Get", Err: backoff.ErrAttemptTimeout}, "timeout"},
		{slow{syscall.ECONNREFUSED}, "connection refused"},
		{backoff.Permanent(context.Canceled), "canceled"},
		{&url.Error{Op: "Get", Err: io.EOF}, "EOF"},
		{io.ErrUnexpectedEOF, "EOF"},
		{&url.Error{Op: "Get", Err: x509.UnknownAuthorityError{}}, "x509.UnknownAuthorityError"},
		{&net.OpError{Op: "dial", Err: errors.New("odd")}, "*net.OpError"},
		{&url.Error{}, "*url.Error"},
		{quota{}, "errortype_test.quota"},
		{panics{}, "errortype_test.panics"},
		{errors.Join(errors.New("first"), syscall.ECONNREFUSED), "*errors.errorString"},
		{dial(syscall.ENOENT), "*net.OpError"},
		{&backoff.OpenError{Last: syscall.ECONNREFUSED}, "*backoff.OpenError"},
	} {
		require.Equal(t, c.want, errortype.Of(c.err), "%v", c.want)
	}
}

// The errors above are made by hand. These are what net/http returns.
func TestARealFailureOfTheNetworkHasAPlainName(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/close" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	}))
	get := func(path string, timeout time.Duration) string {
		_, err := (&http.Client{Timeout: timeout}).Get(s.URL + path) //nolint:bodyclose // there is none
		require.Error(t, err)
		return errortype.Of(err)
	}
	require.Equal(t, "EOF", get("/close", 0))
	require.Equal(t, "timeout", get("/hang", 10*time.Millisecond))
	s.Close()
	require.Equal(t, "connection refused", get("/", 0))
}
