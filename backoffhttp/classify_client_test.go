package backoffhttp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

func inURL(err error) error { return &url.Error{Op: "Get", URL: "http://a.test/", Err: err} }

func opError(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }

func errno(op string, e syscall.Errno) error { return opError(op, os.NewSyscallError(op, e)) }

func TestClassifyKnowsTheErrorsOfATransport(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want backoff.Class
	}{
		// Failures to connect.
		"refused":                    {errno("dial", syscall.ECONNREFUSED), backoff.ClassNotSent},
		"refused, in url.Error":      {inURL(errno("dial", syscall.ECONNREFUSED)), backoff.ClassNotSent},
		"no route":                   {errno("dial", syscall.EHOSTUNREACH), backoff.ClassNotSent},
		"dial timeout":               {opError("dial", os.ErrDeadlineExceeded), backoff.ClassNotSent},
		"dial, too many open files":  {errno("dial", syscall.EMFILE), backoff.ClassNotSent},
		"dial, reset":                {errno("dial", syscall.ECONNRESET), backoff.ClassNotSent},
		"dial, a wrong address":      {opError("dial", &net.AddrError{Err: "missing port", Addr: "x"}), backoff.ClassPermanent},
		"dns, temporary (EAI_AGAIN)": {opError("dial", &net.DNSError{IsTemporary: true}), backoff.ClassNotSent},
		"dns, timeout":               {opError("dial", &net.DNSError{IsTimeout: true}), backoff.ClassNotSent},
		"dns, no such name":          {opError("dial", &net.DNSError{IsNotFound: true}), backoff.ClassPermanent},
		"proxy refused":              {opError("proxyconnect", errno("dial", syscall.ECONNREFUSED)), backoff.ClassNotSent},
		"proxy timeout":              {opError("proxyconnect", opError("dial", os.ErrDeadlineExceeded)), backoff.ClassNotSent},
		"proxy unreachable":          {opError("proxyconnect", errno("dial", syscall.ENETUNREACH)), backoff.ClassPermanent},
		"proxy wants a password":     {errors.New("Proxy Authentication Required"), backoff.ClassPermanent},
		"bare dns, temporary":        {&net.DNSError{IsTemporary: true}, backoff.ClassNotSent},
		"bare dns, timeout":          {&net.DNSError{IsTimeout: true}, backoff.ClassNotSent},
		"bare dns, no such name":     {&net.DNSError{IsNotFound: true}, backoff.ClassPermanent},
		"bare dns, canceled":         {&net.DNSError{IsTimeout: true, UnwrapErr: context.Canceled}, backoff.ClassPermanent},
		"several addresses":          {opError("dial", errors.Join(os.ErrDeadlineExceeded, syscall.ECONNREFUSED)), backoff.ClassNotSent},

		// Failures of TLS.
		"TLS handshake timeout":   {handshakeTimeout{}, backoff.ClassNotSent},
		"certificate":             {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, backoff.ClassPermanent},
		"certificate, wrong host": {inURL(x509.HostnameError{Certificate: new(x509.Certificate)}), backoff.ClassPermanent},
		"no TLS":                  {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, backoff.ClassPermanent},

		// Lost and silent connections.
		"reset by peer":                 {errno("read", syscall.ECONNRESET), backoff.ClassRetryable},
		"broken pipe":                   {errno("write", syscall.EPIPE), backoff.ClassRetryable},
		"aborted":                       {errno("read", syscall.ECONNABORTED), backoff.ClassRetryable},
		"read timeout":                  {opError("read", os.ErrDeadlineExceeded), backoff.ClassRetryable},
		"net.ErrClosed":                 {net.ErrClosed, backoff.ClassRetryable},
		"server closed idle connection": {inURL(errors.New("http: server closed idle connection")), backoff.ClassRetryable},
		"cannot rewind":                 {errors.New("net/http: cannot rewind body after connection loss"), backoff.ClassRetryable},
		"response header timeout":       {headerTimeout{}, backoff.ClassRetryable},

		// Answers that are cut short.
		"unexpected EOF":            {io.ErrUnexpectedEOF, backoff.ClassRetryable},
		"unexpected EOF, wrapped":   {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), backoff.ClassRetryable},
		"unexpected EOF, joined":    {errors.Join(errors.New("x"), io.ErrUnexpectedEOF), backoff.ClassRetryable},
		"EOF":                       {io.EOF, backoff.ClassPermanent},
		"EOF, in url.Error":         {inURL(io.EOF), backoff.ClassRetryable},
		"EOF, connection broken":    {fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", io.EOF), backoff.ClassRetryable},
		"header cut in a name":      {errors.New(`net/http: HTTP/1.x transport connection broken: malformed MIME header: missing colon: "Dat"`), backoff.ClassRetryable},
		"header cut in the version": {errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "HTTP/1"`), backoff.ClassRetryable},
		"header cut in the status":  {errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP status code "50"`), backoff.ClassRetryable},
		"a status that is none":     {errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP status code "5003"`), backoff.ClassPermanent},
		"another protocol":          {errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0-OpenSSH"`), backoff.ClassPermanent},

		// Connections that HTTP/2 gave up.
		"h2 lost":                          {errors.New("http2: client connection lost"), backoff.ClassRetryable},
		"h2 closed":                        {errors.New("http2: client conn is closed"), backoff.ClassRetryable},
		"h2 not usable":                    {errors.New("http2: client conn not usable"), backoff.ClassNotSent},
		"h2 not established":               {errors.New("http2: client conn could not be established"), backoff.ClassNotSent},
		"h2 nothing cached":                {errors.New("http2: no cached connection was available"), backoff.ClassNotSent},
		"h2 goaway beyond the last stream": {errors.New("http2: Transport received Server's graceful shutdown GOAWAY"), backoff.ClassNotSent},
		"h2 goaway with an error":          {errors.New("http2: Transport received GOAWAY from server ErrCode:INTERNAL_ERROR"), backoff.ClassNotSent},
		"h2 goaway, calm":                  {errors.New("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"), backoff.ClassThrottled},
		"h2 goaway and closed":             {errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug="x, ErrCode=ENHANCE_YOUR_CALM"`), backoff.ClassRetryable},
		"h2 goaway and closed, calm":       {errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=ENHANCE_YOUR_CALM, debug=""`), backoff.ClassThrottled},
		"h2 cannot retry goaway":           {errors.New("http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body was written; define Request.GetBody to avoid this error"), backoff.ClassNotSent},
		"h2 cannot retry refused":          {errors.New("http2: Transport: cannot retry err [stream error: stream ID 3; REFUSED_STREAM] after Request.Body was written; define Request.GetBody to avoid this error"), backoff.ClassNotSent},
		"h2 something else":                {errors.New("http2: frame too large"), backoff.ClassPermanent},

		// Stream errors of golang.org/x/net.
		"x/net refused stream":         {errors.New("stream error: stream ID 1; REFUSED_STREAM; received from peer"), backoff.ClassNotSent},
		"x/net internal error":         {errors.New("stream error: stream ID 1; INTERNAL_ERROR; received from peer"), backoff.ClassRetryable},
		"x/net calm":                   {errors.New("stream error: stream ID 1; ENHANCE_YOUR_CALM; received from peer"), backoff.ClassThrottled},
		"x/net protocol error":         {errors.New("stream error: stream ID 1; PROTOCOL_ERROR; invalid header field"), backoff.ClassPermanent},
		"x/net protocol error of peer": {errors.New("stream error: stream ID 1; PROTOCOL_ERROR; received from peer"), backoff.ClassRetryable},
		"x/net wants HTTP/1":           {errors.New("stream error: stream ID 1; HTTP_1_1_REQUIRED; received from peer"), backoff.ClassPermanent},
		"x/net a code of the future":   {errors.New("stream error: stream ID 1; unknown error code 0x63; received from peer"), backoff.ClassRetryable},
		"x/net cut short":              {errors.New("stream error: stream ID 1"), backoff.ClassPermanent},

		// The end of a context.
		"canceled":                    {context.Canceled, backoff.ClassPermanent},
		"canceled while dialling":     {opError("dial", context.Canceled), backoff.ClassPermanent},
		"canceled, joined to a reset": {errors.Join(syscall.ECONNRESET, context.Canceled), backoff.ClassPermanent},
		"deadline":                    {context.DeadlineExceeded, backoff.ClassRetryable},

		// The unknown, and what is marked as permanent.
		"nil":                {nil, backoff.ClassPermanent},
		"unknown":            {errors.New("never heard of it"), backoff.ClassPermanent},
		"unsupported scheme": {errors.New(`unsupported protocol scheme "gopher"`), backoff.ClassPermanent},
		"marked permanent":   {backoff.Permanent(syscall.ECONNRESET), backoff.ClassPermanent},
	} {
		require.Equal(t, c.want, backoffhttp.Classify(c.err), "%s: %v", name, c.err)
		if c.err != nil {
			require.Equal(t, c.want, backoffhttp.Classify(fmt.Errorf("attempt: %w", maskEOF(c.err))), "%s, wrapped", name)
		}
	}
}

// A RoundTripper that tries several servers joins their errors.
func TestAJoinedErrorIsNotSentOnlyIfEveryBranchIs(t *testing.T) {
	text := func(s string) error { return errors.New(s) }
	unsent := []error{
		errno("dial", syscall.ECONNREFUSED),
		opError("dial", os.ErrDeadlineExceeded),
		inURL(errno("dial", syscall.EHOSTUNREACH)),
		opError("proxyconnect", errno("dial", syscall.ECONNREFUSED)),
		&net.DNSError{IsTemporary: true},
		handshakeTimeout{},
		streamRefusal{StreamID: 1, Code: 7},
		text("http2: client conn not usable"),
		text("stream error: stream ID 1; REFUSED_STREAM; received from peer"),
		text("http2: Transport: cannot retry err [stream error: stream ID 3; REFUSED_STREAM] after Request.Body was written"),
	}
	sent := []error{
		errno("read", syscall.ECONNRESET),
		io.ErrUnexpectedEOF,
		headerTimeout{},
		text("http: server closed idle connection"),
		text("stream error: stream ID 1; INTERNAL_ERROR; received from peer"),
		streamRefusal{StreamID: 1, Code: 2},
		text("never heard of it"),
		backoffhttp.Check(respond(t, 503)),
	}
	for _, a := range unsent {
		for _, b := range unsent {
			require.Equal(t, backoff.ClassNotSent, backoffhttp.Classify(errors.Join(a, nil, b)), "%v, %v", a, b)
			require.Equal(t, backoff.ClassNotSent, backoffhttp.Classify(fmt.Errorf("%w, then %w", inURL(a), b)), "%v, %v", a, b)
		}
		for _, b := range sent {
			for _, err := range []error{
				errors.Join(a, b), errors.Join(b, a), errors.Join(a, a, b), fmt.Errorf("%w, then %w", a, inURL(b)),
				inURL(errors.Join(errors.Join(a, b), a)), fmt.Errorf("%w", errors.Join(a, b)),
			} {
				require.Equal(t, backoff.ClassRetryable, backoffhttp.Classify(err), "%v", err)
			}
		}
		for _, b := range []error{context.Canceled, x509.UnknownAuthorityError{}, &net.DNSError{IsNotFound: true}} {
			require.Equal(t, backoff.ClassPermanent, backoffhttp.Classify(errors.Join(a, b)), "%v, %v", a, b)
		}
	}
}

// streamRefusal has the fields of net/http's error of a stream, and its way to
// show them.
type streamRefusal struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamRefusal) Error() string { return "a stream" }

func (e streamRefusal) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	if to.Kind() != reflect.Struct || !reflect.TypeOf(e).ConvertibleTo(to.Type()) {
		return false
	}
	to.Set(reflect.ValueOf(e).Convert(to.Type()))
	return true
}

// maskEOF leaves a bare io.EOF out of what is tried wrapped: there it means the
// opposite.
func maskEOF(err error) error {
	if err == io.EOF {
		return errors.New("EOF")
	}
	return err
}

type handshakeTimeout struct{}

func (handshakeTimeout) Error() string   { return "net/http: TLS handshake timeout" }
func (handshakeTimeout) Timeout() bool   { return true }
func (handshakeTimeout) Temporary() bool { return true }

type headerTimeout struct{}

func (headerTimeout) Error() string   { return "net/http: timeout awaiting response headers" }
func (headerTimeout) Timeout() bool   { return true }
func (headerTimeout) Temporary() bool { return true }

func TestClassifyKnowsStatuses(t *testing.T) {
	retried := map[int]bool{408: true, 425: true, 429: true}
	for code := 500; code < 600; code++ {
		retried[code] = true
	}
	for _, code := range []int{501, 505, 506, 507, 508, 510, 511} {
		delete(retried, code)
	}
	for code := 400; code < 600; code++ {
		class := backoffhttp.Classify(backoffhttp.Check(respond(t, code)))
		require.Equal(t, retried[code], class.Retryable(), "%d", code)
		require.Equal(t, code == 429 || code == 529, class == backoff.ClassThrottled, "%d", code)
	}
}

// The errors of the real net/http, as they come.
func TestClassifyKnowsWhatNetHTTPReturns(t *testing.T) {
	stalled := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/reset":
			reset(w, r)
		case "/hangup":
			hangUp(w, r)
		case "/stall":
			<-stalled
		case "/garbage":
			conn, buffer, _ := http.NewResponseController(w).Hijack()
			buffer.WriteString("SSH-2.0-OpenSSH_9.9\r\n\r\n")
			buffer.Flush()
			conn.Close()
		}
	})
	t.Cleanup(func() { close(stalled) })
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = quiet
	t.Cleanup(secure.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	plain := strings.Replace(s.URL, "http:", "https:", 1)

	for name, c := range map[string]struct {
		url  string
		want backoff.Class
	}{
		"refused":             {gone.URL, backoff.ClassNotSent},
		"reset":               {s.URL + "/reset", backoff.ClassRetryable},
		"hangup":              {s.URL + "/hangup", backoff.ClassRetryable},
		"header timeout":      {s.URL + "/stall", backoff.ClassRetryable},
		"not HTTP":            {s.URL + "/garbage", backoff.ClassPermanent},
		"certificate":         {secure.URL, backoff.ClassPermanent},
		"not TLS":             {plain, backoff.ClassPermanent},
		"no such scheme":      {"gopher://a.test/", backoff.ClassPermanent},
		"no such port":        {"http://127.0.0.1:99999/", backoff.ClassPermanent},
		"a name that is none": {"http://a..test/", backoff.ClassPermanent},
	} {
		base := &http.Transport{ResponseHeaderTimeout: 200 * time.Millisecond, DisableKeepAlives: true}
		_, err := (&http.Client{Transport: base}).Get(c.url)
		require.Error(t, err, name)
		require.Equal(t, c.want, backoffhttp.Classify(err), "%s: %v", name, err)
		attempts := 0
		counting := step(func(req *http.Request) (*http.Response, error) { attempts++; return base.RoundTrip(req) })
		_, err = (&http.Client{Transport: &backoffhttp.Unguarded{Base: counting, Policy: atOnce()}}).Get(c.url)
		require.Error(t, err, name)
		require.Equal(t, c.want.Retryable(), attempts == 4, "%s: %d attempts", name, attempts)
	}
}

func TestStatusErrorTellsTheStatusAndNoMore(t *testing.T) {
	resp := respond(t, 503, "Set-Cookie", "secret")
	err := backoffhttp.Check(resp)
	require.EqualError(t, err, "status 503 Service Unavailable")
	e := statusOf(t, err)
	require.Equal(t, 503, e.HTTPStatusCode())
	require.EqualError(t, &backoffhttp.StatusError{Code: 404}, "status 404 Not Found")
	require.EqualError(t, &backoffhttp.StatusError{Code: 529}, "status 529")
	require.EqualError(t, &backoffhttp.StatusError{Code: 529, Status: "529 "}, "status 529")
	header := e.ResponseHeader()
	header["Set-Cookie"] = nil
	require.Equal(t, "secret", resp.Header.Get("Set-Cookie"), "it is a copy")
}

func TestCheckPassesWhatIsNoFailure(t *testing.T) {
	for _, code := range []int{101, 200, 204, 301, 304, 399} {
		require.NoError(t, backoffhttp.Check(respond(t, code)), strconv.Itoa(code))
	}
	require.Error(t, backoffhttp.Check(&http.Response{StatusCode: 500}), "without a request")
}

func TestCheckCanBeToldWhatSuccessIs(t *testing.T) {
	only, both := []int{http.StatusOK}, []int{backoffhttp.Status2xx, http.StatusConflict}
	for _, c := range []struct {
		code    int
		success []int
		failed  bool
	}{
		{200, only, false}, {204, only, true}, {302, only, true}, {503, only, true},
		{200, both, false}, {299, both, false}, {304, both, true}, {199, both, true}, {300, both, true}, {409, both, false}, {410, both, true},
		{100, []int{100}, false}, {999, []int{999}, false},
	} {
		err := backoffhttp.Check(respond(t, c.code), c.success...)
		require.Equal(t, c.failed, err != nil, "%d by %v", c.code, c.success)
		if c.failed {
			status := statusOf(t, err)
			require.Equal(t, c.code, status.Code)
		}
	}
}

func TestAnUnexpectedSuccessIsUnknownAndToClassifyPermanent(t *testing.T) {
	err := backoffhttp.Check(respond(t, 302, "Retry-After", "7"), backoffhttp.Status2xx)
	require.Equal(t, backoff.ClassUnknown, backoff.DefaultClassifier(err))
	require.Equal(t, backoff.ClassPermanent, backoffhttp.Classify(err))
	p := steady()
	d := p.Decide(1, err)
	require.True(t, d.Again, "a policy retries what it does not know")
	require.GreaterOrEqual(t, d.Wait, 7*time.Second)
	require.Equal(t, backoff.ClassThrottled, backoffhttp.Classify(backoffhttp.Check(respond(t, 429), 200)))
}

func TestCheckRefusesANilResponse(t *testing.T) {
	require.ErrorContains(t, backoffhttp.Check(nil), "the response is nil")
}

func TestCheckRefusesASuccessThatIsNoStatus(t *testing.T) {
	for _, bad := range []int{-200, 0, 1, 3, 99, 1000} {
		err := backoffhttp.Check(respond(t, 200), 200, bad)
		require.ErrorContains(t, err, "success "+strconv.Itoa(bad)+" is neither a status from 100 to 999 nor Status2xx")
		require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err))
	}
}

// What the caller calls a success is none if a Transport gave up on it.
func TestCheckSaysThatATransportGaveUpWhateverSuccessIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp := getRoot(t, over(newWire(answer(503))))
		require.ErrorIs(t, backoffhttp.Check(resp, 503), backoff.ErrExhausted)

		next := newRequest(t, "GET", "http://a.test/", nil).WithContext(resp.Request.Context())
		resp = roundTrip(t, over(newWire(answer(304))), next)
		err := backoffhttp.Check(resp, backoffhttp.Status2xx)
		require.EqualError(t, err, "status 304 Not Modified", "not what became of the call before")
	})
}

func TestAWSErrorCodesCountAboveTheStatus(t *testing.T) {
	for value, want := range map[string]backoff.Class{
		"ThrottlingException": backoff.ClassThrottled,
		"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException:http://x": backoff.ClassThrottled,
		"RequestTimeout":        backoff.ClassRetryable,
		"ValidationException":   backoff.ClassPermanent,
		"":                      backoff.ClassPermanent,
		"#:":                    backoff.ClassPermanent,
		"aws.x#AccessDenied:zz": backoff.ClassPermanent,
	} {
		require.Equal(t, want, backoffhttp.Classify(backoffhttp.Check(respond(t, 400, "X-Amzn-ErrorType", value))), value)
	}
}

// An Inspect that returns a nil pointer for "nothing is wrong" is a common
// mistake.
func TestANilStatusErrorIsAnError(t *testing.T) {
	var none *backoffhttp.StatusError
	require.EqualError(t, none, "<nil>")
	require.Zero(t, none.HTTPStatusCode())
	require.Zero(t, none.ErrorCode())
	require.Nil(t, none.ResponseHeader())
	require.Equal(t, backoff.ClassUnknown, backoff.DefaultClassifier(none))
}

// flattener makes its text of what it wraps, as many errors do, and counts how
// often.
type flattener struct {
	error
	texts *int
}

func (f flattener) Error() string { *f.texts++; return "x" }
func (f flattener) Unwrap() error { return f.error }

func TestTheTextsOfADeepTreeAreReadAFewTimesOnly(t *testing.T) {
	texts, err := 0, error(&net.DNSError{IsTemporary: true})
	for range 5000 {
		err = flattener{err, &texts}
	}
	require.Equal(t, backoff.ClassRetryable, backoffhttp.Classify(err), "what is too deep may have been sent")
	require.LessOrEqual(t, texts, 100)
}

// A server may send a status line of megabytes.
func TestTheTextOfAStatusIsShortAndPrintable(t *testing.T) {
	err := &backoffhttp.StatusError{Code: 503, Status: "503 " + strings.Repeat("x", 1<<20)}
	require.Len(t, err.Error(), len("status ")+200)
	err.Status = "503 \x1b[2JBusy\r level=INFO\u009b\u202e é\n" // net/http passes most of it on
	require.EqualError(t, err, "status 503 [2JBusy level=INFO é")
}

// A breaker keeps the error as long as its circuit is open.
func TestAnErrorHoldsNoHeaderOfMegabytes(t *testing.T) {
	resp := &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"7"}, "X-Long": {strings.Repeat("x", 1<<20)}}}
	for i := range 1000 {
		resp.Header[fmt.Sprint("X-", i)] = []string{strings.Repeat("x", 900)}
	}
	var failed *backoffhttp.StatusError
	require.ErrorAs(t, backoffhttp.Check(resp), &failed)
	size := 0
	for name, values := range failed.Header {
		size += len(name) + len(values[0])
	}
	require.LessOrEqual(t, size, 64<<10)
	require.Equal(t, "7", failed.Header.Get("Retry-After"))
	require.Len(t, resp.Header, 1002, "the answer has them all")
}

// Whatever a server writes into its headers, a call ends within its limits,
// waits for no negative time, and returns the server's answer.
func FuzzHostileHeaders(f *testing.F) {
	f.Add(503, "120", "", "", "", "0", "946684860")
	f.Add(429, "99999999999999999999", "-1", "false", "true", "-1", "1e309")
	f.Add(403, "Fri, 31 Dec 9999 23:59:59 GMT", "18446744073709551616", "true", "", "0", "NaN")
	f.Add(413, "0", "0", "TRUE", "\x00", "", "1m")
	f.Add(200, "5", "٣", "false", "false", "0", "2000-01-01T00:00:30Z")
	f.Fuzz(func(t *testing.T, code int, retryAfter, millis, should, overloaded, remaining, limit string) {
		header := []string{
			"Retry-After", retryAfter, "Retry-After-Ms", millis, "X-Ms-Retry-After-Ms", millis, "X-Amz-Retry-After", millis,
			"X-Should-Retry", should, "Stripe-Should-Retry", should, "X-Envoy-Overloaded", overloaded,
			"Grpc-Retry-Pushback-Ms", millis, "X-Ratelimit-Remaining", remaining, "X-Ratelimit-Reset", limit,
			"X-Amzn-Errortype", retryAfter, "Content-Range", limit,
		}
		if millis == "" {
			header = append(header[:14], header[16:]...)
		}
		for form := backoffhttp.ResetSeconds; form <= backoffhttp.ResetDuration; form++ {
			fuzzOnce(t, form, code, header)
		}
	})
}

func fuzzOnce(t *testing.T, form backoffhttp.ResetForm, code int, header []string) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := holding(answer(code, header...))
		tr.FailFast = true
		tr.RateLimits = []backoffhttp.RateLimit{{Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Form: form}}
		began := time.Now()
		for range 2 {
			resp, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != code {
				t.Errorf("got status %d, want %d", resp.StatusCode, code)
			}
			var gave *backoff.Error
			if errors.As(backoffhttp.Check(resp), &gave) && gave.RetryAfter() < 0 {
				t.Errorf("RetryAfter() = %v", gave.RetryAfter())
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if w.requests() > 8 {
			t.Errorf("%d requests", w.requests())
		}
		if d := time.Since(began); d > 8*6*time.Minute { // MaxRetryAfter, and a tenth of it
			t.Errorf("waited %v", d)
		}
		for _, wait := range w.waits() {
			if wait < 0 {
				t.Errorf("a wait of %v", wait)
			}
		}
	})
}

// Classify knows texts: none of them, however long or odd, may confuse it.
func FuzzClassify(f *testing.F) {
	for _, seed := range []string{"stream error: stream ID 1; REFUSED_STREAM", "http2: Transport: cannot retry err [http2: Transport: cannot retry err [", "http2: server sent GOAWAY and closed the connection; ", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if class := backoffhttp.Classify(errors.New(text)); class == backoff.ClassUnknown || class > backoff.ClassPermanent {
			t.Errorf("%q: %v", text, class)
		}
	})
}

// A table's rules come from configuration.
func FuzzOperations(f *testing.F) {
	f.Add("GET /storage/v1/b/{bucket}/o/{object}", "?ifGenerationMatch, If-Match, {etag}", "/storage/v1/b/x/o/y%2Fz")
	f.Add("POST host.test/{$}", "never", "/")
	f.Fuzz(func(t *testing.T, pattern, rule, path string) {
		table, err := backoffhttp.NewOperations(map[string]string{pattern: rule})
		if err != nil {
			return
		}
		req, err := http.NewRequest("POST", "http://a.test"+path, nil)
		if err != nil {
			return
		}
		table.Idempotency(req).Repeatable(t.Context(), backoff.ClassRetryable)
	})
}

// passing is an error whose method As passes the target on, as that of the AWS SDK does.
type passing struct{ error }

func (p passing) As(target any) bool { return errors.As(p.error, target) }
func (p passing) Unwrap() error      { return p.error }

func TestAnErrorWhoseAsPassesTheTargetOnIsClassified(t *testing.T) {
	require.Equal(t, backoff.ClassPermanent, backoffhttp.Classify(passing{errors.New("no such bucket")}))
	require.Equal(t, backoff.ClassNotSent, backoffhttp.Classify(inURL(passing{syscall.ECONNREFUSED})))
}
