package backoffslog_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/internal/required"
)

// attributeOf returns an attribute of a record, by its path.
func attributeOf(record map[string]any, path string) any {
	group, name, nested := strings.Cut(path, ".")
	if !nested {
		return record[path]
	}
	inner, _ := record[group].(map[string]any)
	return inner[name]
}

// The service throttles the first request, fails the second one and answers the
// third one. What a Retry-After asks for is spread by up to 100 ms.
func TestEveryRetryIsLoggedWithAllThatTheDocumentsAskFor(t *testing.T) {
	answers := []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("X-Amzn-RequestId", "7f1c-42")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		func(http.ResponseWriter, *http.Request) {},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[0]
		answers = answers[1:]
		answer(w, r)
	}))
	defer server.Close()
	var j journal
	client := &http.Client{Transport: &backoffhttp.Transport{Unguarded: true, Policy: backoff.Policy{
		Name: "checkout", MaxAttempts: 6, Schedule: backoff.Linear{Initial: 40 * time.Millisecond}, Rand: func() float64 { return 0.75 },
		Observer: backoffslog.New(j.logger(), nil),
	}}}
	response, err := client.Get(server.URL + "/carts/17")
	require.NoError(t, err)
	response.Body.Close()
	records := j.records(t)
	require.Len(t, records, 3)
	throttled, failed, success := records[0], records[1], records[2]
	require.Equal(t, []any{"retry", "retry", "success"}, []any{throttled["msg"], failed["msg"], success["msg"]})

	endpoint := "GET " + strings.TrimPrefix(server.URL, "http://")
	nanoseconds := func(d time.Duration) any { return float64(d) }
	want := map[string][2][]any{ // in each of the two retries
		"operation: the call site": {{"checkout"}, {"checkout"}},
		"operation: the endpoint":  {{endpoint}, {endpoint}},
		"number of the retry":      {{1.0}, {2.0}},
		"retries there may be":     {{6.0}, {6.0}},
		"delay before jitter":      {{nanoseconds(40 * time.Millisecond)}, {nanoseconds(80 * time.Millisecond)}},
		"delay after jitter":       {{nanoseconds(time.Second + 75*time.Millisecond)}, {nanoseconds(60 * time.Millisecond)}},
		"type of the error":        {{"429", "throttled"}, {"502", "retryable"}},
		"Retry-After":              {{nanoseconds(time.Second), "1"}, {nil, nil}},
		"request of AWS":           {{"7f1c-42"}, {nil}},
	}
	promised, err := required.Names("../contrib/dashboards/README.md", "Of every retry", 2)
	require.NoError(t, err)
	for what, names := range promised {
		switch what {
		case "time really slept":
			require.Equal(t, []string{"slept"}, names)
			for i, wait := range []time.Duration{1075 * time.Millisecond, 60 * time.Millisecond} {
				slept := time.Duration(attributeOf(records[i+1], "slept").(float64))
				require.GreaterOrEqual(t, slept, wait, "measured, not planned")
				require.Less(t, slept, wait+30*time.Second)
				require.NotEqual(t, wait, slept)
			}
		case "status of gRPC": // whose values contrib/backoffgrpc tests
			require.Equal(t, []string{"error_type", "header.grpc-status"}, names)
		default:
			require.Contains(t, want, what)
			for i, record := range records[:2] {
				var got []any
				for _, name := range names {
					got = append(got, attributeOf(record, name))
				}
				require.Equal(t, want[what][i], got, "%s in record %d: %v", what, i, record)
			}
			delete(want, what)
		}
	}
	require.Empty(t, want, "what the README leaves out")
}
