package backoffotel_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/contrib/backoffotel"
)

// eventNames are the attributes of an event that the documents ask for.
var eventNames = map[string][]string{
	"operation: the call site": {"backoff.operation"},
	"operation: the endpoint":  {"backoff.endpoint"},
	"number of the retry":      {"backoff.attempt"},
	"retries there may be":     {"backoff.max_attempts"},
	"delay before jitter":      {"backoff.delay"},
	"delay after jitter":       {"backoff.wait"},
	"time really slept":        {"backoff.slept"},
	"type of the error":        {"error.type", "backoff.class"},
	"Retry-After":              {"backoff.retry_after", "http.response.header.retry-after"},
	"request of AWS":           {"http.response.header.x-amzn-requestid"},
	"status of gRPC":           {"error.type", "http.response.header.grpc-status"},
}

// metricNames are the metrics that the documents ask for.
var metricNames = map[string][]string{
	"retries per call site, endpoint":  {"backoff.retries"},
	"successes after retries":          {"backoff.call.attempts"},
	"successes at the first attempt":   {"backoff.call.attempts"},
	"failures, the budget being spent": {"backoff.call.attempts"},
	"state of a circuit":               {"backoff.breaker.state"},
	"transitions of a circuit":         {"backoff.breaker.transitions"},
	"histogram of delays":              {"backoff.retry.delay", "backoff.retry.wait", "backoff.retry.slept"},
}

// throttling is a service that throttles the first request of each method, and
// answers the next one.
func throttling(t *testing.T) (url, host string) {
	seen := make(map[string]bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !seen[r.Method] {
			seen[r.Method] = true
			w.Header().Set("Retry-After", "1")
			w.Header().Set("X-Amzn-RequestId", "7f1c-42")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, strings.TrimPrefix(server.URL, "http://")
}

// client returns a client that retries as the policy of a call site says.
func client(site string, observer backoff.Observer) *http.Client {
	return &http.Client{Transport: &backoffhttp.Transport{Unguarded: true, Policy: backoff.Policy{
		Name: site, MaxAttempts: 6, Schedule: backoff.Linear{Initial: 40 * time.Millisecond}, Rand: func() float64 { return 0.75 }, Observer: observer,
	}}}
}

func TestEveryRetryIsAnEventWithAllThatTheDocumentsAskFor(t *testing.T) {
	url, host := throttling(t)
	tp, exporter := tracing()
	ctx, span := tp.Tracer("test").Start(t.Context(), "caller")
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	require.NoError(t, err)
	response, err := client("checkout", backoffotel.SpanEvents).Do(req)
	require.NoError(t, err)
	response.Body.Close()
	span.End()
	events := exporter.GetSpans()[0].Events
	require.Equal(t, []string{"backoff.retry", "backoff.success"}, []string{events[0].Name, events[1].Name})
	retry, next := values(events[0].Attributes), values(events[1].Attributes)
	want := map[string][]any{
		"operation: the call site": {"checkout"},
		"operation: the endpoint":  {"GET " + host},
		"number of the retry":      {int64(1)},
		"retries there may be":     {int64(6)},
		"delay before jitter":      {0.04},
		"delay after jitter":       {1.075},
		"type of the error":        {"429", "throttled"},
		"Retry-After":              {1.0, []string{"1"}},
		"request of AWS":           {[]string{"7f1c-42"}},
	}
	for what, values := range want {
		require.Len(t, eventNames[what], len(values), what)
		for i, name := range eventNames[what] {
			require.Equal(t, values[i], retry[name], "%s: %s", what, name)
		}
	}
	require.Greater(t, next[eventNames["time really slept"][0]], 1.075)
}

// Two call sites call two endpoints each.
func TestTheMetricsShowAllThatTheDocumentsAskFor(t *testing.T) {
	url, host := throttling(t)
	mp, reader := metering()
	observe := backoffotel.Metrics(mp)
	for method, site := range map[string]string{"GET": "checkout", "PUT": "search"} {
		for range 3 { // of which the first one needs a retry
			req, err := http.NewRequest(method, url, nil)
			require.NoError(t, err)
			response, err := client(site, observe).Do(req)
			require.NoError(t, err)
			response.Body.Close()
		}
	}
	spent := backoff.Policy{Name: "pay", Budget: refusing{}, Observer: observe}
	require.ErrorIs(t, spent.Do(t.Context(), failing(errBoom)), backoff.ErrBudget)
	breaker := &backoff.Breaker{Name: "stock", Observer: observe}
	breaker.Trip()

	sums, counts := collect(t, reader)
	names := metricNames
	for method, site := range map[string]string{"GET": "checkout", "PUT": "search"} {
		at := "backoff.endpoint=" + method + " " + host + ",backoff.operation=" + site
		require.Equal(t, 1.0, sums[series{names["retries per call site, endpoint"][0] + " {retry}", "backoff.class=throttled," + at + ",error.type=429"}])
		require.Equal(t, 1.0, counts[series{names["successes after retries"][0] + " {attempt}", at + ",backoff.outcome=retried"}])
		require.Equal(t, 2.0, counts[series{names["successes at the first attempt"][0] + " {attempt}", at + ",backoff.outcome=first"}])
		for i, least := range []float64{0.04, 1.075, 1.0751} {
			sum := sums[series{names["histogram of delays"][i] + " s", at}]
			require.Equal(t, 1.0, counts[series{names["histogram of delays"][i] + " s", at}])
			require.GreaterOrEqual(t, sum, least)
			require.True(t, i == 2 || sum == least, "%v", sum)
		}
	}
	require.Equal(t, 1.0, counts[series{names["failures, the budget being spent"][0] + " {attempt}",
		"backoff.operation=pay,backoff.outcome=failed,backoff.reason=budget,error.type=*errors.errorString"}], "%v", counts)
	require.Equal(t, 1.0, sums[series{names["state of a circuit"][0] + " 1", "backoff.breaker.state=open,backoff.operation=stock"}])
	require.Equal(t, 1.0, sums[series{names["transitions of a circuit"][0] + " {transition}",
		"backoff.breaker.from=closed,backoff.breaker.to=open,backoff.breaker.trigger=manual,backoff.operation=stock"}])
}

// refusing is a budget without retries.
type refusing struct{ backoff.BudgetDefaults }

func (refusing) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, a.Number == 1
}
