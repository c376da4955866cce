package backoff_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// What the standard library reports, as it reports it.
func TestDefaultClassifierKnowsTheStandardLibrary(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
		want backoff.Class
	}{
		{"nil", nil, backoff.ClassPermanent},
		{"unknown", errBoom, backoff.ClassUnknown},
		{"the operation's own cancellation", context.Canceled, backoff.ClassPermanent},
		{"somebody's deadline", context.DeadlineExceeded, backoff.ClassRetryable},
		{"os deadline", os.ErrDeadlineExceeded, backoff.ClassRetryable},
		{"end of input", io.EOF, backoff.ClassUnknown},
		{"end of input in a request", &url.Error{Op: "Get", URL: "http://x", Err: io.EOF}, backoff.ClassRetryable},
		{"end of input in something else", &os.PathError{Op: "read", Path: "x", Err: io.EOF}, backoff.ClassUnknown},
		{"cut off", io.ErrUnexpectedEOF, backoff.ClassRetryable},
		{"closed connection", net.ErrClosed, backoff.ClassRetryable},
		{"cancelled request", &url.Error{Op: "Get", URL: "http://x", Err: context.Canceled}, backoff.ClassPermanent},
		{"timed out request", &url.Error{Op: "Get", URL: "http://x", Err: context.DeadlineExceeded}, backoff.ClassRetryable},
		{"no such host", &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, backoff.ClassPermanent},
		{"no such host, dialled", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}}, backoff.ClassPermanent},
		{"server misbehaving", &net.DNSError{Err: "server misbehaving", Name: "x", IsTemporary: true}, backoff.ClassRetryable},
		{"slow name server", &net.DNSError{Err: "i/o timeout", Name: "x", IsTimeout: true}, backoff.ClassRetryable},
		{"other trouble with names", &net.DNSError{Err: "?", Name: "x"}, backoff.ClassUnknown},
		{"unknown authority", x509.UnknownAuthorityError{}, backoff.ClassPermanent},
		{"wrong host", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"}, backoff.ClassPermanent},
		{"expired", x509.CertificateInvalidError{Reason: x509.Expired}, backoff.ClassPermanent},
		{"no roots", x509.SystemRootsError{}, backoff.ClassPermanent},
		{"verification", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, backoff.ClassPermanent},
		{"verification in a request", &url.Error{Op: "Get", URL: "https://x", Err: &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"}}}, backoff.ClassPermanent},
		{"end of input from nobody", (*nobody)(nil), backoff.ClassUnknown},
		{"end of input in somebody's Error", Error{}, backoff.ClassUnknown},
		{"cancelled read", &net.OpError{Op: "read", Net: "tcp", Err: context.Canceled}, backoff.ClassPermanent},
		{"wraps nothing", errorTree{nil, nil}, backoff.ClassUnknown},
		{"wraps nothings", fmt.Errorf("%w", error(nil)), backoff.ClassUnknown},
	} {
		require.Equal(t, row.want, backoff.DefaultClassifier(row.err), row.name)
		if row.err == nil {
			continue
		}
		require.Equal(t, row.want, backoff.DefaultClassifier(fmt.Errorf("fetch: %w", row.err)), "%s, wrapped", row.name)
		require.Equal(t, row.want, backoff.DefaultClassifier(errors.Join(errBoom, row.err)), "%s, joined", row.name)
		require.Equal(t, row.want, backoff.DefaultClassifier(fmt.Errorf("%w, %w", errBoom, fmt.Errorf("%w", row.err))), "%s, deep", row.name)
	}
}

// nobody is an error of which there is only the type; it wraps io.EOF all the
// same.
type nobody struct{}

func (*nobody) Error() string { return "nobody" }
func (*nobody) Unwrap() error { return io.EOF }

// Error is no *url.Error, though it is called the same.
type Error struct{}

func (Error) Error() string { return "end of input" }
func (Error) Unwrap() error { return io.EOF }

// Only what refused or could not be reached is known never to have arrived. As
// long as there is no connection, nothing has: whatever may pass is not sent, and
// what a setting forbids is permanent (POSIX.1-2024, connect and socket).
func TestDefaultClassifierKnowsTheKernel(t *testing.T) {
	for errno, want := range map[syscall.Errno]struct{ alone, dialing backoff.Class }{
		syscall.ECONNREFUSED:    {backoff.ClassNotSent, backoff.ClassNotSent},
		syscall.EHOSTUNREACH:    {backoff.ClassNotSent, backoff.ClassNotSent},
		syscall.ENETUNREACH:     {backoff.ClassNotSent, backoff.ClassNotSent},
		syscall.EHOSTDOWN:       {backoff.ClassNotSent, backoff.ClassNotSent},
		syscall.ECONNRESET:      {backoff.ClassRetryable, backoff.ClassNotSent},
		syscall.ECONNABORTED:    {backoff.ClassRetryable, backoff.ClassNotSent},
		syscall.EPIPE:           {backoff.ClassRetryable, backoff.ClassNotSent},
		syscall.ETIMEDOUT:       {backoff.ClassRetryable, backoff.ClassNotSent},
		syscall.ENETDOWN:        {backoff.ClassRetryable, backoff.ClassNotSent},
		syscall.ENETRESET:       {backoff.ClassRetryable, backoff.ClassNotSent},
		syscall.EINTR:           {backoff.ClassRetryable, backoff.ClassNotSent},
		syscall.EAGAIN:          {backoff.ClassRetryable, backoff.ClassNotSent}, // the backlog of a Unix socket is full
		syscall.EMFILE:          {backoff.ClassRetryable, backoff.ClassNotSent},
		syscall.ENFILE:          {backoff.ClassRetryable, backoff.ClassNotSent},
		syscall.ENOENT:          {backoff.ClassUnknown, backoff.ClassNotSent}, // a Unix socket before its server
		syscall.ENOBUFS:         {backoff.ClassUnknown, backoff.ClassNotSent},
		syscall.ENOMEM:          {backoff.ClassUnknown, backoff.ClassNotSent},
		syscall.EADDRNOTAVAIL:   {backoff.ClassUnknown, backoff.ClassNotSent}, // no port is free
		syscall.EADDRINUSE:      {backoff.ClassUnknown, backoff.ClassNotSent},
		syscall.EACCES:          {backoff.ClassUnknown, backoff.ClassPermanent}, // a firewall, or the rights of a file
		syscall.EPERM:           {backoff.ClassUnknown, backoff.ClassPermanent},
		syscall.EAFNOSUPPORT:    {backoff.ClassUnknown, backoff.ClassPermanent},
		syscall.EPROTONOSUPPORT: {backoff.ClassUnknown, backoff.ClassPermanent},
		syscall.EPROTOTYPE:      {backoff.ClassUnknown, backoff.ClassPermanent},
		syscall.EINVAL:          {backoff.ClassUnknown, backoff.ClassUnknown},
	} {
		require.Equal(t, want.alone, backoff.DefaultClassifier(errno), "%v", errno)
		dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
		require.Equal(t, want.dialing, backoff.DefaultClassifier(dial), "%v", dial)
		require.Equal(t, want.dialing, backoff.DefaultClassifier(&url.Error{Op: "Get", URL: "http://x", Err: dial}), "%v", dial)
		through := &net.OpError{Op: "proxyconnect", Net: "tcp", Err: dial}
		require.Equal(t, want.dialing, backoff.DefaultClassifier(through), "%v", through)
		dial.Op = "proxyconnect"
		require.Equal(t, want.alone, backoff.DefaultClassifier(dial), "%v", dial)
		dial.Op = "write"
		require.NotEqual(t, backoff.ClassNotSent, backoff.DefaultClassifier(dial), "%v", dial)
		require.NotEqual(t, backoff.ClassPermanent, backoff.DefaultClassifier(dial), "%v", dial)
	}
}

// The real dials that chance and a test may have: before a server listens there is no
// file of its socket, and afterwards nobody behind the file.
func TestADialToASocketWhoseServerIsNotThereIsNotSent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dial := func() backoff.Class {
		_, err := net.Dial("unix", path)
		require.Error(t, err)
		return backoff.DefaultClassifier(err)
	}
	require.Equal(t, backoff.ClassNotSent, dial())
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	require.Equal(t, backoff.ClassNotSent, dial())

	_, err = os.Open(filepath.Join(t.TempDir(), "s"))
	require.Equal(t, backoff.ClassUnknown, backoff.DefaultClassifier(err), "a file is no server: %v", err)
}

func TestADialThatTimesOutIsNotSent(t *testing.T) {
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := new(net.Dialer).DialContext(past, "tcp", "127.0.0.1:1")
	require.Equal(t, backoff.ClassNotSent, backoff.DefaultClassifier(err), "%v", err)
	slow := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "i/o timeout", Name: "x", IsTimeout: true}}
	require.Equal(t, backoff.ClassNotSent, backoff.DefaultClassifier(slow))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = new(net.Dialer).DialContext(gone, "tcp", "127.0.0.1:1")
	require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err), "%v", err)
}

// A connection that was up reports, when its packets stay away, what a router
// said of them last: EHOSTUNREACH may come from a read, after the request was
// sent.
func TestUnreachableIsNotSentOnlyWhileDialling(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ECONNREFUSED} {
		for _, op := range []string{"read", "write"} {
			err := &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, errno)}
			require.Equal(t, backoff.ClassRetryable, backoff.DefaultClassifier(err), "%v", err)
			require.Equal(t, backoff.ClassRetryable, backoff.DefaultClassifier(&url.Error{Op: "Post", URL: "http://x", Err: err}), "%v", err)
		}
	}
}

func TestARealRefusedDialIsNotSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = net.Dial("tcp", l.Addr().String())
	require.Error(t, err)
	require.Equal(t, backoff.ClassNotSent, backoff.DefaultClassifier(err))
}

// Errors that speak for themselves, in the words of the clients that make them.
type (
	azure      struct{ error }
	awsSays    struct{ retryable bool }
	awsStopped struct{ cancelled bool }
	pgxSays    struct{ safe bool }
	sqlState   string
	awsCode    string
	httpStatus struct {
		code   int
		behind error
	}
	gaxCode    int
	mongoLabel string
	mongoCode  struct {
		mongoLabel
		code int
	}
	temporary bool
	transient struct{ timeout, temporary bool }
	imposter  struct{}
	stranger  struct{}
	patient   struct{}
)

func (azure) NonRetriable()                      {}
func (awsSays) Error() string                    { return "aws" }
func (a awsSays) RetryableError() bool           { return a.retryable }
func (awsStopped) Error() string                 { return "aws" }
func (a awsStopped) CanceledError() bool         { return a.cancelled }
func (pgxSays) Error() string                    { return "pgx" }
func (p pgxSays) SafeToRetry() bool              { return p.safe }
func (s sqlState) Error() string                 { return "SQLSTATE " + string(s) }
func (s sqlState) SQLState() string              { return string(s) }
func (c awsCode) Error() string                  { return string(c) }
func (c awsCode) ErrorCode() string              { return string(c) }
func (h httpStatus) Error() string               { return "status " + strconv.Itoa(h.code) }
func (h httpStatus) HTTPStatusCode() int         { return h.code }
func (h httpStatus) Unwrap() error               { return h.behind }
func (c gaxCode) Error() string                  { return "code " + strconv.Itoa(int(c)) }
func (c gaxCode) HTTPCode() int                  { return int(c) }
func (m mongoLabel) Error() string               { return string(m) }
func (m mongoLabel) HasErrorLabel(l string) bool { return l == string(m) }
func (m mongoCode) HasErrorCode(code int) bool   { return code == m.code }
func (temporary) Error() string                  { return "temporary" }
func (t temporary) Temporary() bool              { return bool(t) }
func (transient) Error() string                  { return "transient" }
func (t transient) Timeout() bool                { return t.timeout }
func (t transient) Temporary() bool              { return t.temporary }
func (imposter) Error() string                   { return "stopped" }
func (stranger) Error() string                   { return "strange" }
func (stranger) Is(error) bool                   { return false }
func (patient) Error() string                    { return "patient" }
func (patient) Timeout() bool                    { return true }
func (patient) Unwrap() error                    { return syscall.ECONNREFUSED }
func (imposter) Is(target error) bool            { return target == context.Canceled }

func TestErrorsSpeakForThemselves(t *testing.T) {
	for _, row := range []struct {
		err  error
		want backoff.Class
	}{
		{azure{errBoom}, backoff.ClassPermanent},
		{azure{syscall.ECONNRESET}, backoff.ClassPermanent},
		{awsSays{true}, backoff.ClassRetryable}, {awsSays{false}, backoff.ClassPermanent},
		{awsStopped{true}, backoff.ClassPermanent}, {awsStopped{false}, backoff.ClassUnknown},
		{pgxSays{true}, backoff.ClassRetryable}, {pgxSays{false}, backoff.ClassUnknown},
		{mongoLabel("TransientTransactionError"), backoff.ClassRetryable},
		{mongoLabel("RetryableWriteError"), backoff.ClassRetryable},
		{mongoLabel("SystemOverloadedError"), backoff.ClassThrottled},
		{mongoLabel("RetryableError"), backoff.ClassRetryable},
		{mongoLabel("NetworkError"), backoff.ClassUnknown},
		{mongoCode{"NetworkError", 11000}, backoff.ClassPermanent}, {mongoCode{"NetworkError", 13}, backoff.ClassPermanent},
		{mongoCode{"NetworkError", 18}, backoff.ClassPermanent}, {mongoCode{"NetworkError", 121}, backoff.ClassPermanent},
		{mongoCode{"NetworkError", 91}, backoff.ClassUnknown}, {mongoCode{"RetryableError", 11000}, backoff.ClassRetryable},
		{tls.RecordHeaderError{}, backoff.ClassPermanent}, {http.ErrSchemeMismatch, backoff.ClassPermanent}, {sql.ErrNoRows, backoff.ClassPermanent},
		{errors.New("mongo: no documents in result"), backoff.ClassPermanent}, {errors.New("redis: nil"), backoff.ClassPermanent},
		{errors.New("redis: nil or not"), backoff.ClassUnknown}, {errors.New("NotFound"), backoff.ClassUnknown},
		{awsCode("ThrottlingException"), backoff.ClassThrottled},
		{awsCode("RequestTimeout"), backoff.ClassRetryable},
		{awsCode("RequestTimeoutException"), backoff.ClassRetryable},
		{awsCode("NoSuchBucket"), backoff.ClassUnknown},
		{gaxCode(503), backoff.ClassRetryable}, {gaxCode(429), backoff.ClassThrottled},
		{gaxCode(404), backoff.ClassPermanent}, {gaxCode(-1), backoff.ClassUnknown},
		{transient{timeout: true}, backoff.ClassRetryable}, {transient{temporary: true}, backoff.ClassRetryable},
		{transient{}, backoff.ClassUnknown}, {temporary(true), backoff.ClassRetryable}, {temporary(false), backoff.ClassUnknown},
		{imposter{}, backoff.ClassPermanent},
		{stranger{}, backoff.ClassUnknown},
		// No answer came: the status is none, and what lies behind tells.
		{httpStatus{0, syscall.ECONNRESET}, backoff.ClassRetryable},
		{httpStatus{0, syscall.ECONNREFUSED}, backoff.ClassNotSent},
		{httpStatus{0, errBoom}, backoff.ClassUnknown},
		{httpStatus{503, nil}, backoff.ClassRetryable},
		{httpStatus{429, nil}, backoff.ClassThrottled},
		{httpStatus{403, errBoom}, backoff.ClassPermanent},
		// A code that names the failure beats a status that only sorts it.
		{httpStatus{400, awsCode("RequestTimeout")}, backoff.ClassRetryable},
		{httpStatus{400, awsCode("ThrottlingException")}, backoff.ClassThrottled},
		{httpStatus{503, awsCode("SlowDown")}, backoff.ClassThrottled},
		// And an error that says so itself beats both.
		{httpStatus{503, awsSays{false}}, backoff.ClassPermanent},
		{httpStatus{503, awsStopped{true}}, backoff.ClassPermanent},
	} {
		require.Equal(t, row.want, backoff.DefaultClassifier(row.err), "%#v", row.err)
		require.Equal(t, row.want, backoff.DefaultClassifier(fmt.Errorf("op: %w", row.err)), "%#v, wrapped", row.err)
		if row.want == backoff.ClassPermanent {
			require.True(t, row.err == backoff.Policy{}.Do(t.Context(), func(context.Context) error { return row.err }), "%#v, bare", row.err)
		}
	}
}

func TestDefaultClassifierKnowsSQLStates(t *testing.T) {
	for class, states := range map[backoff.Class]string{
		backoff.ClassRetryable: "40001 40P01 55P03 57P01 57P02 57P03 57P05 08000 08006",
		backoff.ClassThrottled: "53000 53300",
		backoff.ClassPermanent: "22001 23505 28P01 42601 0A000 3D000",
		backoff.ClassUnknown:   "57P04 XX000 40 4000 400011",
	} {
		for state := range strings.FieldsSeq(states) {
			require.Equal(t, class, backoff.DefaultClassifier(sqlState(state)), state)
		}
	}
	require.Equal(t, backoff.ClassUnknown, backoff.DefaultClassifier(sqlState("")))
}

func TestStatusesAreClassified(t *testing.T) {
	want := map[int]backoff.Class{408: backoff.ClassRetryable, 425: backoff.ClassRetryable, 429: backoff.ClassThrottled}
	for code := 500; code < 1000; code++ {
		want[code] = backoff.ClassRetryable
	}
	want[529] = backoff.ClassThrottled
	for _, code := range []int{501, 505, 506, 507, 508, 510, 511} {
		want[code] = backoff.ClassPermanent
	}
	for code := 400; code < 500; code++ {
		if _, ok := want[code]; !ok {
			want[code] = backoff.ClassPermanent
		}
	}
	for code := -1; code < 1010; code++ {
		require.Equal(t, want[code], backoff.DefaultClassifier(httpStatus{code, nil}), "%d", code) // others: unknown
	}
}

// A branch that nobody marked may have been sent.
func TestAMarkOfNotSentIsNoWordForTheBranchesBesideIt(t *testing.T) {
	unsent := backoff.OfClass(errBoom, backoff.ClassNotSent)
	for want, joined := range map[int]error{
		1: errors.Join(unsent, syscall.ECONNRESET),
		4: errors.Join(unsent, backoff.OfClass(errOutage, backoff.ClassNotSent)),
	} {
		for _, err := range []error{joined, errors.Join(joined), fmt.Errorf("both: %w", joined)} {
			sent := 0
			policy := backoff.Policy{Schedule: backoff.Constant(0), Idempotency: backoff.NonIdempotent}
			require.Error(t, policy.Do(t.Context(), func(context.Context) error { sent++; return err }))
			require.Equal(t, want, sent, err)
		}
	}
}

// Of evidence that contradicts itself, the weightier stands; of equal, the more
// careful.
func TestJoinedEvidenceIsWeighed(t *testing.T) {
	for _, row := range []struct {
		a, b error
		want backoff.Class
	}{
		{syscall.ECONNREFUSED, syscall.ECONNRESET, backoff.ClassRetryable}, // one of the two was sent
		{syscall.ECONNRESET, context.Canceled, backoff.ClassPermanent},
		{syscall.ECONNREFUSED, x509.UnknownAuthorityError{}, backoff.ClassPermanent},
		{sqlState("23505"), syscall.ECONNRESET, backoff.ClassPermanent},
		{sqlState("40001"), httpStatus{400, nil}, backoff.ClassRetryable},
		{errBoom, syscall.ECONNREFUSED, backoff.ClassRetryable}, // who knows what the other one is
		{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, backoff.ClassNotSent},
	} {
		require.Equal(t, row.want, backoff.DefaultClassifier(errors.Join(row.a, row.b)), "%v, %v", row.a, row.b)
		require.Equal(t, row.want, backoff.DefaultClassifier(errors.Join(row.b, row.a)), "%v, %v", row.b, row.a)
	}
}

// Each piece of evidence has its weight, in every pair and order. That nothing
// was sent is proved only where both say so.
func TestEvidenceOfEachWeight(t *testing.T) {
	type piece struct {
		class  backoff.Class
		weight int
		err    error
	}
	all := []piece{
		{backoff.ClassUnknown, 0, errBoom}, {backoff.ClassUnknown, 0, awsCode("NoSuchBucket")}, {backoff.ClassUnknown, 0, gaxCode(0)},
		{backoff.ClassNotSent, 1, syscall.ECONNREFUSED},
		{backoff.ClassRetryable, 1, context.DeadlineExceeded}, {backoff.ClassRetryable, 1, io.ErrUnexpectedEOF},
		{backoff.ClassRetryable, 1, &url.Error{Op: "Get", URL: "http://x", Err: io.EOF}}, {backoff.ClassRetryable, 1, net.ErrClosed},
		{backoff.ClassRetryable, 1, &net.OpError{Op: "read", Err: syscall.ECONNREFUSED}}, {backoff.ClassRetryable, 1, syscall.ECONNRESET}, {backoff.ClassRetryable, 1, syscall.EINTR}, {backoff.ClassRetryable, 1, transient{timeout: true}},
		{backoff.ClassRetryable, 1, httpStatus{503, nil}}, {backoff.ClassThrottled, 1, gaxCode(429)},
		{backoff.ClassPermanent, 1, httpStatus{404, nil}}, {backoff.ClassPermanent, 1, gaxCode(404)},
		{backoff.ClassRetryable, 2, awsSays{true}}, {backoff.ClassRetryable, 2, awsCode("RequestTimeout")}, {backoff.ClassRetryable, 2, mongoLabel("RetryableError")},
		{backoff.ClassRetryable, 2, sqlState("40001")}, {backoff.ClassRetryable, 2, sqlState("08006")}, {backoff.ClassThrottled, 2, sqlState("53300")},
		{backoff.ClassPermanent, 2, sqlState("23505")}, {backoff.ClassPermanent, 2, &net.DNSError{IsNotFound: true}},
		{backoff.ClassRetryable, 3, pgxSays{true}}, {backoff.ClassPermanent, 3, context.Canceled}, {backoff.ClassPermanent, 3, azure{errBoom}},
		{backoff.ClassPermanent, 3, awsSays{false}}, {backoff.ClassPermanent, 3, awsStopped{true}}, {backoff.ClassPermanent, 3, imposter{}},
		{backoff.ClassPermanent, 3, x509.UnknownAuthorityError{}},
	}
	for _, a := range all {
		for _, b := range all {
			want := max(a.class, b.class)
			if a.weight != b.weight {
				want = map[bool]backoff.Class{true: a.class, false: b.class}[a.weight > b.weight]
			}
			if want == backoff.ClassNotSent && a.class != b.class {
				want = backoff.ClassRetryable
			}
			require.Equal(t, want, backoff.DefaultClassifier(errors.Join(a.err, b.err)), "%#v, %#v", a.err, b.err)
		}
	}
	require.Equal(t, backoff.ClassRetryable, backoff.DefaultClassifier(httpStatus{503, syscall.ECONNREFUSED}), "an answer came, so it was sent")
	require.Equal(t, backoff.ClassRetryable, backoff.DefaultClassifier(patient{}), "it was waited for, so it may have been sent")
}

// Marks.

func TestAMarkIsKnownHoweverDeep(t *testing.T) {
	for class := backoff.ClassNotSent; class <= backoff.ClassPermanent; class++ {
		mark := backoff.OfClass(syscall.ECONNRESET, class)
		for _, err := range []error{
			mark, fmt.Errorf("op: %w", mark), errors.Join(errBoom, mark), errors.Join(fmt.Errorf("%w", mark), io.EOF),
			fmt.Errorf("%w, %w", errBoom, fmt.Errorf("deep: %w", errors.Join(mark))), backoff.RetryAfter(mark, 1),
		} {
			want := class
			if joined := strings.Contains(err.Error(), errBoom.Error()) || strings.Contains(err.Error(), io.EOF.Error()); joined && want == backoff.ClassNotSent {
				want = backoff.ClassRetryable // the other branch may have been sent
			}
			require.Equal(t, want, backoff.DefaultClassifier(err), "%v", err)
			policy := backoff.Policy{Classify: func(error) backoff.Class { panic("asked about a marked error") }}
			require.Equal(t, class.Retryable(), policy.Retryable(err), "%v", err)
		}
	}
}

// limited says when to come back, and wraps why.
type limited struct{ error }

func (limited) RetryAfter() time.Duration { return time.Second }
func (l limited) Unwrap() error           { return l.error }

func TestAMarkIsKnownBelowARetryAfter(t *testing.T) {
	require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(limited{backoff.Permanent(errBoom)}))
}

func TestNoClassifierIsAskedAboutAnOpenCircuit(t *testing.T) {
	policy := backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return true })}
	require.False(t, policy.Retryable(fmt.Errorf("op: %w", &backoff.OpenError{State: backoff.BreakerOpen})))
}

func TestOfMarksAroundOneAnotherTheOutermostStands(t *testing.T) {
	inner := backoff.Permanent(errBoom)
	require.Equal(t, backoff.ClassRetryable, backoff.DefaultClassifier(backoff.OfClass(fmt.Errorf("op: %w", inner), backoff.ClassRetryable)))
	require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(backoff.Permanent(backoff.OfClass(errBoom, backoff.ClassRetryable))))
	require.Equal(t, backoff.ClassThrottled, backoff.DefaultClassifier(backoff.OfClass(errors.Join(inner, inner), backoff.ClassThrottled)))
}

// A budget still slows calls down for a server that throttles and says "do not
// retry", and only for that one.
func TestAThrottledErrorThatMustNotBeRetriedStaysThrottledToABudget(t *testing.T) {
	throttled := backoff.OfClass(errBoom, backoff.ClassThrottled)
	for name, c := range map[string]struct {
		err  error
		want backoff.Class
	}{
		"do not retry":      {backoff.OfClass(throttled, backoff.ClassOverloaded), backoff.ClassThrottled},
		"pushback":          {backoff.Pushback(throttled, -1), backoff.ClassThrottled},
		"wrapped":           {fmt.Errorf("x: %w", backoff.OfClass(fmt.Errorf("y: %w", throttled), backoff.ClassOverloaded)), backoff.ClassThrottled},
		"overloaded":        {backoff.OfClass(errBoom, backoff.ClassOverloaded), backoff.ClassOverloaded},
		"the other way":     {backoff.OfClass(backoff.OfClass(errBoom, backoff.ClassOverloaded), backoff.ClassThrottled), backoff.ClassThrottled},
		"marked permanent":  {backoff.Permanent(throttled), backoff.ClassPermanent},
		"marked twice over": {backoff.OfClass(backoff.OfClass(errBoom, backoff.ClassRetryable), backoff.ClassOverloaded), backoff.ClassOverloaded},
	} {
		b := new(clerk)
		require.Error(t, backoff.Policy{MaxAttempts: 1, Budget: b}.Do(t.Context(), returning(c.err).do), name)
		require.Len(t, b.results, 1, name)
		require.Equal(t, c.want, b.results[0].Class, name)
		if c.want != backoff.ClassPermanent {
			require.Equal(t, "throttled", b.results[0].String(), name)
		}
		require.Equal(t, name == "the other way", (&backoff.Policy{}).Retryable(c.err), name)
	}
}

func TestOfMarksSideBySideTheGreatestStands(t *testing.T) {
	classes := []backoff.Class{backoff.ClassNotSent, backoff.ClassRetryable, backoff.ClassThrottled, backoff.ClassOverloaded, backoff.ClassPermanent}
	for _, a := range classes {
		for _, b := range classes {
			err := errors.Join(backoff.OfClass(errBoom, a), backoff.OfClass(errFinal, b))
			require.Equal(t, max(a, b), backoff.DefaultClassifier(err), "%v, %v", a, b)
		}
	}
}

func TestTheMarkDoesNotShow(t *testing.T) {
	custom := statusError(503)
	err := backoff.Permanent(errors.Join(custom, io.ErrClosedPipe))
	require.Equal(t, errors.Join(custom, io.ErrClosedPipe).Error(), err.Error())
	require.ErrorIs(t, err, custom)
	require.ErrorIs(t, err, io.ErrClosedPipe, "the sibling")
	var got statusError
	require.ErrorAs(t, err, &got)
	require.Equal(t, custom, got)
}

func TestMarkingNothingGivesNothing(t *testing.T) {
	require.NoError(t, backoff.Permanent(nil))
	require.NoError(t, backoff.OfClass(nil, backoff.ClassRetryable))
	require.NoError(t, backoff.RetryAfter(nil, 1))
	require.NoError(t, backoff.Pushback(nil, 1))
	require.NoError(t, backoff.Pushback(nil, -1))
}

// Classifiers.

func TestRetryIfRetriesExactlyWhatItsPredicateAccepts(t *testing.T) {
	classify := backoff.RetryIf(func(err error) bool { return errors.Is(err, io.ErrShortBuffer) })
	require.Equal(t, backoff.ClassRetryable, classify(fmt.Errorf("op: %w", io.ErrShortBuffer)))
	require.Equal(t, backoff.ClassPermanent, classify(syscall.ECONNREFUSED))
	require.Equal(t, backoff.ClassPermanent, backoff.RetryIf(func(error) bool { return true })(nil))
	require.Nil(t, backoff.RetryIf(nil), "a predicate that was not given is no opinion")
	policy := backoff.Policy{Classify: classify}
	require.False(t, policy.Retryable(syscall.ECONNREFUSED))
	require.False(t, policy.Retryable(nil))
	require.True(t, policy.Retryable(io.ErrShortBuffer))
}

// The names of all others are promised by package backoffslog.
func TestWhatIsNotKnownHasNoName(t *testing.T) {
	require.Equal(t, "invalid invalid unknown unknown",
		fmt.Sprint(backoff.ClassPermanent+1, backoff.Class(99), backoff.ReasonInvalid+1, backoff.Reason(200)))
}

func TestAClassBelowOverloadedIsRetried(t *testing.T) {
	for class := backoff.ClassUnknown; class <= backoff.ClassPermanent; class++ {
		require.Equal(t, class < backoff.ClassOverloaded, class.Retryable(), "%v", class)
	}
}

// What go-retryablehttp returns when it gives up: with a status, and with an
// error. internal/lab/plugtest has the errors of other libraries, which have
// types.
var (
	errGaveUp     = errors.New("GET http://a/b giving up after 4 attempt(s)")
	gaveUpOnError = func(err error) error { return fmt.Errorf("GET http://a/b giving up after 4 attempt(s): %w", err) }
)

func TestWhatAnotherLoopGaveUpOnIsPermanent(t *testing.T) {
	down := errors.New("down")
	for _, err := range []error{
		errGaveUp,
		gaveUpOnError(down),
		fmt.Errorf("fetch: %w", errGaveUp),
		errors.Join(down, gaveUpOnError(down)),
		backoff.RetryAfter(gaveUpOnError(down), time.Second),
		errors.Join(backoff.OfClass(down, backoff.ClassRetryable), errGaveUp),
		fmt.Errorf("storage: retry failed after 3 attempts; last error: %w", down),
	} {
		outer, attempts := backoff.Policy{Schedule: backoff.Constant(0)}, 0
		outer.Classify = func(error) backoff.Class { return backoff.ClassRetryable } // as one that looks through the chain does
		got := outer.Do(t.Context(), func(context.Context) error { attempts++; return err })
		require.Equal(t, 1, attempts, "%v", err)
		require.ErrorIs(t, got, err)
		require.EqualError(t, got, err.Error(), "there is nothing to add")
		require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err))
	}
	for _, err := range []error{
		errors.New("no attempt(s) were made"),
		errors.New("giving up after lunch"),
		fmt.Errorf("storage: %w", down),
	} {
		require.Equal(t, backoff.ClassUnknown, backoff.DefaultClassifier(err), "%v", err)
	}
	require.Equal(t, backoff.ClassRetryable, backoff.DefaultClassifier(backoff.OfClass(errGaveUp, backoff.ClassRetryable)), "a mark around it knows more")
}

func TestWhatAnotherLoopGaveUpOnIsAFailureOfTheService(t *testing.T) {
	clerk := new(clerk)
	backoff.Policy{Budget: clerk}.Do(t.Context(), func(context.Context) error { return errGaveUp })
	require.Equal(t, []string{"failed"}, clerk.told)

	b := &backoff.Breaker{MinCalls: 2}
	for range 2 {
		b.Do(t.Context(), func(context.Context) error { return gaveUpOnError(errors.New("down")) })
	}
	require.Equal(t, backoff.BreakerOpen, b.State())
}

func TestALoopThatAttemptTimeoutEndedIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := returning(gaveUpOnError(context.DeadlineExceeded))
		err := backoff.Policy{Schedule: backoff.Constant(0), AttemptTimeout: time.Second}.Do(t.Context(), op.hang)
		require.Len(t, op.at, 4)
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
	})
}

// The mark is of the whole error: "below a mark, other marks are overruled".
func TestAMarkAroundJoinedErrorsCountsForAllOfThem(t *testing.T) {
	both := errors.Join(errors.New("a"), errors.New("b"))
	for _, class := range []backoff.Class{backoff.ClassRetryable, backoff.ClassThrottled, backoff.ClassNotSent, backoff.ClassPermanent, backoff.ClassOverloaded} {
		require.Equal(t, class, backoff.Policy{}.Decide(1, backoff.OfClass(both, class)).Class)
	}
}
