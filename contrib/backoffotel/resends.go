package backoffotel

import (
	"cmp"
	"net/http"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/gobackoff/backoff/backoffhttp"
)

// Resends returns a RoundTripper that sets http.request.resend_count on the
// span of each request that was sent before: the retries of a
// [backoffhttp.Transport], and the redirects that [http.Client] follows. Put it
// below the RoundTripper that makes the spans, and that one below the
// Transport:
//
//	transport := &backoffhttp.Transport{
//		Base: otelhttp.NewTransport(backoffotel.Resends(nil)),
//	}
//
// Every attempt then has a client span of its own, below the span in the
// request's context. A nil base means [http.DefaultTransport].
func Resends(base http.RoundTripper) http.RoundTripper {
	return &resends{cmp.Or(base, http.DefaultTransport)}
}

// resends is the RoundTripper of Resends.
type resends struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (r *resends) RoundTrip(req *http.Request) (*http.Response, error) {
	if n := resendCount(req); n > 0 {
		trace.SpanFromContext(req.Context()).SetAttributes(semconv.HTTPRequestResendCount(n))
	}
	return r.base.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of the base. See
// [http.Client.CloseIdleConnections].
func (r *resends) CloseIdleConnections() {
	if c, ok := r.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// resendCount counts the attempts before this one, and those of all requests
// whose redirects led to it.
func resendCount(req *http.Request) int {
	n := backoffhttp.RetryNumber(req.Context())
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
		n += 1 + backoffhttp.RetryNumber(req.Context())
	}
	return n
}
