package backoffmetrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/internal/required"
)

// A flaky service fails the first requests of each path as often as the path
// says: "/2" succeeds at the third attempt.
func flaky(t *testing.T) (url, host string) {
	failed := make(map[string]int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failed[r.URL.RequestURI()]++; failed[r.URL.RequestURI()] <= int(r.URL.Path[1]-'0') {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, strings.TrimPrefix(server.URL, "http://")
}

// Two call sites call two endpoints.
func TestTheSeriesShowAllThatTheDocumentsAskFor(t *testing.T) {
	var m backoffmetrics.Metrics
	urlA, hostA := flaky(t)
	urlB, hostB := flaky(t)
	site := func(name string) *http.Client {
		return &http.Client{Transport: &backoffhttp.Transport{Unguarded: true, Policy: backoff.Policy{
			Name: name, MaxAttempts: 3, Schedule: backoff.Linear{Initial: 40 * time.Millisecond}, Rand: func() float64 { return 0.25 }, Observer: m.Observe,
		}}}
	}
	get := func(site *http.Client, url string) {
		response, err := site.Get(url)
		if err == nil {
			response.Body.Close()
		}
	}
	checkout, search := site("checkout"), site("search")
	for _, path := range []string{"/0?1", "/0?2", "/0?3", "/1", "/2"} { // 5 calls that succeed, 3 at once, with 3 retries
		get(checkout, urlA+path)
	}
	get(checkout, urlB+"/9") // which fails, with 2 retries
	get(search, urlA+"/1?")  // with a retry

	spent := backoff.Policy{Name: "pay", Budget: refusing{2}, Schedule: backoff.Constant(time.Millisecond), Observer: m.Observe}
	require.ErrorIs(t, spent.Do(t.Context(), failing(9)), backoff.ErrBudget)

	breaker := &backoff.Breaker{Name: "stock", ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Second), Observer: m.Observe, ProbeSuccesses: 2}
	m.WatchBreaker("stock", breaker)
	state := func(is string) string { return `backoff_breaker_state{breaker="stock",state="` + is + `"}` }
	requireSeries(t, &m, map[string]float64{state("closed"): 1, state("open"): 0, state("half-open"): 0})
	require.Error(t, breaker.Do(t.Context(), failing(1)))
	requireSeries(t, &m, map[string]float64{state("closed"): 0, state("open"): 1, state("half-open"): 0})
	require.Eventually(t, func() bool { return breaker.Do(t.Context(), failing(0)) == nil }, 10*time.Second, time.Millisecond)
	requireSeries(t, &m, map[string]float64{state("closed"): 0, state("open"): 0, state("half-open"): 1})
	require.NoError(t, breaker.Do(t.Context(), failing(0)))
	requireSeries(t, &m, map[string]float64{state("closed"): 1, state("open"): 0, state("half-open"): 0})

	atA := func(site string) string { return `{operation="` + site + `",endpoint="GET ` + hostA + `"` }
	atB := `{operation="checkout",endpoint="GET ` + hostB + `"`
	transition := func(from, to, trigger string) string {
		return `{breaker="stock",from="` + from + `",to="` + to + `",trigger="` + trigger + `"}`
	}
	want := map[string]map[string]float64{ // by what follows the name
		"retries per call site, endpoint": {
			atA("checkout") + `,class="retryable"}`: 3, atB + `,class="retryable"}`: 2, atA("search") + `,class="retryable"}`: 1,
		},
		"successes after retries":          {atA("checkout") + `,outcome="retried"}`: 2, atA("search") + `,outcome="retried"}`: 1, atB + `,outcome="retried"}`: 0},
		"successes at the first attempt":   {atA("checkout") + `,outcome="first"}`: 3, atA("search") + `,outcome="first"}`: 0},
		"failures, the budget being spent": {`{operation="pay",reason="budget"}`: 1},
		"state of a circuit":               {`{breaker="stock",state="closed"}`: 1},
		"transitions of a circuit": {
			transition("closed", "open", "consecutive"): 1, transition("open", "half-open", "time"): 1, transition("half-open", "closed", "probe"): 1,
		},
		"histogram of delays": {
			"_count" + atA("checkout") + "}": 3, "_count" + atB + "}": 2,
			"_bucket" + atA("checkout") + `,le="+Inf"}`: 3,
		},
	}
	all := scrape(t, &m)
	promised, err := required.Names("../contrib/dashboards/README.md", "Of the whole", 2)
	require.NoError(t, err)
	for what, names := range promised {
		require.Contains(t, want, what)
		for _, name := range names {
			for rest, value := range want[what] {
				require.Contains(t, all, name+rest)
				require.Equal(t, value, all[name+rest], name+rest)
			}
		}
		delete(want, what)
	}
	require.Empty(t, want, "what the README leaves out")

	// The delays of checkout at A: 40, 40 and 80 ms, a quarter of which is waited.
	require.InDelta(t, 0.16, all["backoff_delay_seconds_sum"+atA("checkout")+"}"], 1e-9)
	require.InDelta(t, 0.04, all["backoff_wait_seconds_sum"+atA("checkout")+"}"], 1e-9)
	require.Greater(t, all["backoff_slept_seconds_sum"+atA("checkout")+"}"], 0.04)
	for at, n := range map[string]float64{"0.005": 0, "0.01": 2, "0.025": 3} {
		require.Equal(t, n, all["backoff_wait_seconds_bucket"+atA("checkout")+`,le="`+at+`"}`], at)
	}
	// Each call has one outcome, each failure one reason.
	require.Equal(t, 1.0, all["backoff_calls_total"+atB+`,outcome="failed"}`])
	require.Equal(t, 1.0, all["backoff_failures_total"+atB+`,reason="attempts"}`])
}
