package backoffotel_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/contrib/backoffotel"
)

// With a real server and the real otelhttp, the second request is answered by a
// redirect to a place that fails once, too.
func TestEveryAttemptIsASpanOfOtelhttp(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) {
		case 1, 3:
			w.WriteHeader(503)
		case 2:
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}))
	defer server.Close()

	tp, exporter := tracing()
	transport := &backoffhttp.Transport{
		Policy: backoff.Policy{Name: "fetch", Schedule: backoff.Constant(time.Millisecond), Observer: backoffotel.SpanEvents},
		Base:   otelhttp.NewTransport(backoffotel.Resends(nil), otelhttp.WithTracerProvider(tp)),
	}
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	ctx, span := tp.Tracer("test").Start(t.Context(), "caller")
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	span.End()
	require.Equal(t, 200, resp.StatusCode)

	spans := exporter.GetSpans()
	var caller trace.SpanID
	var resends, statuses []any
	slices.SortFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	for i, s := range spans {
		if i == 0 {
			require.Equal(t, "caller", s.Name)
			caller = s.SpanContext.SpanID()
			require.Equal(t, "backoff.retry", s.Events[0].Name)
			require.Equal(t, "503", values(s.Events[0].Attributes)["error.type"])
			continue
		}
		require.Equal(t, trace.SpanKindClient, s.SpanKind)
		require.Equal(t, caller, s.Parent.SpanID())
		resends = append(resends, values(s.Attributes)["http.request.resend_count"])
		statuses = append(statuses, values(s.Attributes)["http.response.status_code"])
	}
	require.Equal(t, []any{nil, int64(1), int64(2), int64(3)}, resends)
	require.Equal(t, []any{int64(503), int64(302), int64(503), int64(200)}, statuses)
}

// idle counts how often its idle connections are closed.
type idle struct {
	http.RoundTripper
	closed int
}

func (i *idle) CloseIdleConnections() { i.closed++ }

func TestIdleConnectionsAreThoseOfTheBase(t *testing.T) {
	base := new(idle)
	client := &http.Client{Transport: backoffotel.Resends(base)}
	client.CloseIdleConnections()
	require.Equal(t, 1, base.closed)
}
