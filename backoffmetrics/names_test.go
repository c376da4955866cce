package backoffmetrics_test

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

// Dashboards and alerts go by these names, so a new release adds to them and
// changes none. The other values of class, reason, from, to and trigger are
// promised by package backoffslog; the bounds of histograms are not promised.
func TestTheSeriesArePromised(t *testing.T) {
	var m backoffmetrics.Metrics
	m.WatchBudget("b", new(backoff.RetryBudget))
	m.WatchServices("k", new(guard.Services))
	for kind := backoff.EventRetry; kind.String() != "unknown"; kind++ {
		m.Observe(t.Context(), backoff.Event{Kind: kind, Name: "f", Reason: backoff.ReasonAttempts, Attempt: 2, Transition: &backoff.BreakerTransition{Trigger: "rate"}})
	}
	to := &endpoint.Endpoint{Name: "e"}
	m.Observe(endpoint.With(t.Context(), to), backoff.Event{Kind: backoff.EventSuccess, Name: "g", Attempt: 1})
	bound := regexp.MustCompile(`,le="[^"]*"`)
	seen := map[string]bool{}
	for series := range scrape(t, &m) {
		if strings.Contains(series, `operation="g"`) && !strings.Contains(series, "calls_total") {
			continue // as without an endpoint
		}
		seen[bound.ReplaceAllString(series, "")] = true
	}
	require.Equal(t, `
backoff_attempt_duration_seconds_bucket{endpoint="e",outcome="failure"}
backoff_attempt_duration_seconds_bucket{endpoint="e",outcome="success"}
backoff_attempt_duration_seconds_count{endpoint="e",outcome="failure"}
backoff_attempt_duration_seconds_count{endpoint="e",outcome="success"}
backoff_attempt_duration_seconds_sum{endpoint="e",outcome="failure"}
backoff_attempt_duration_seconds_sum{endpoint="e",outcome="success"}
backoff_attempts_in_flight{endpoint="e"}
backoff_attempts_per_call_bucket{operation="f"}
backoff_attempts_per_call_count{operation="f"}
backoff_attempts_per_call_sum{operation="f"}
backoff_attempts_total{operation="f"}
backoff_breaker_refusals_total{breaker="f"}
backoff_breaker_state{breaker="f",state="closed"}
backoff_breaker_state{breaker="f",state="half-open"}
backoff_breaker_state{breaker="f",state="open"}
backoff_breaker_transitions_total{breaker="f",from="closed",to="closed",trigger="rate"}
backoff_budget_allowed{budget="b"}
backoff_budget_retries{budget="b"}
backoff_budget_successes{budget="b"}
backoff_calls_total{operation="f",outcome="failed"}
backoff_calls_total{operation="f",outcome="first"}
backoff_calls_total{operation="f",outcome="retried"}
backoff_calls_total{operation="g",endpoint="e",outcome="failed"}
backoff_calls_total{operation="g",endpoint="e",outcome="first"}
backoff_calls_total{operation="g",endpoint="e",outcome="retried"}
backoff_delay_seconds_bucket{operation="f"}
backoff_delay_seconds_count{operation="f"}
backoff_delay_seconds_sum{operation="f"}
backoff_failed_attempts_total{operation="f",class="unknown"}
backoff_failures_total{operation="f",reason="attempts"}
backoff_hedges_total{operation="f",result="lost"}
backoff_hedges_total{operation="f",result="won"}
backoff_key_evictions_total{keys="k"}
backoff_reconnects_total{operation="f"}
backoff_refusals_total{operation="f",of="call"}
backoff_refusals_total{operation="f",of="hedge"}
backoff_refusals_total{operation="f",of="retry"}
backoff_refusals_total{operation="f",of="run"}
backoff_retries_total{operation="f",class="unknown"}
backoff_slept_seconds_bucket{operation="f"}
backoff_slept_seconds_count{operation="f"}
backoff_slept_seconds_sum{operation="f"}
backoff_wait_seconds_bucket{operation="f"}
backoff_wait_seconds_count{operation="f"}
backoff_wait_seconds_sum{operation="f"}`, "\n"+strings.Join(slices.Sorted(maps.Keys(seen)), "\n"))
}

func TestHostsOfAStrangerHideNoGaugeThatWasThereFirst(t *testing.T) {
	var m backoffmetrics.Metrics
	for client, hosts := range []int{151, 1} { // the last of which the stranger does not know
		services := new(guard.Services)
		m.WatchServices(fmt.Sprint(client), services)
		for i := range hosts {
			services.For(fmt.Sprint(client, 1000-i))
		}
	}
	all := scrape(t, &m)
	for key, shown := range map[string]bool{"0 1000": true, "1 1000": true, "0 902": true, "0 901": false} {
		require.Equal(t, shown, all[`backoff_breaker_state{breaker="`+key+`",state="closed"}`] == 1, key)
		require.Equal(t, shown, slices.Contains(slices.Collect(maps.Keys(all)), `backoff_budget_allowed{budget="`+key+`"}`), key)
	}
}

// Any name is one label on one line, and can be read back by the rules of the
// format.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"", "fetch", "a\"b", "a\\", "a\nb", "\xff", "é\u2028", `\n`} {
		f.Add(name)
	}
	line := regexp.MustCompile(`(?m)^backoff_attempts_total\{operation="((?:[^"\\\n]|\\["\\n])*)"\} 1$`)
	f.Fuzz(func(t *testing.T, name string) {
		var m backoffmetrics.Metrics
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: name, Attempt: 1})
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		found := line.FindStringSubmatch(w.Body.String())
		require.NotNil(t, found, "%q", name)
		got := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(found[1])
		switch {
		case name == "":
			require.Equal(t, "unnamed", got)
		case len(name) > 200:
			require.Equal(t, "other", got)
		default:
			require.Equal(t, strings.ToValidUTF8(name, "\uFFFD"), got)
		}
	})
}

func TestOnlyReadingIsServed(t *testing.T) {
	var m backoffmetrics.Metrics
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405} {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(method, "/metrics", nil))
		require.Equal(t, want, w.Code, method)
	}
}
