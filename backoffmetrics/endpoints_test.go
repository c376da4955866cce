package backoffmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/pace"
)

func TestCallSitesAndEndpointsAreCountedBesideEachOther(t *testing.T) {
	var m backoffmetrics.Metrics
	a, b := &endpoint.Endpoint{Name: "GET a"}, &endpoint.Endpoint{Name: "GET b"}
	for _, call := range []struct {
		name     string
		to       *endpoint.Endpoint
		failures int
	}{{"x", a, 0}, {"x", a, 1}, {"x", b, 9}, {"y", a, 0}, {"y", nil, 0}} {
		p := backoff.Policy{Name: call.name, Schedule: backoff.Constant(0), MaxAttempts: 2, Observer: m.Observe}
		ctx := t.Context()
		if call.to != nil {
			ctx = endpoint.With(ctx, call.to)
		}
		_ = p.Do(ctx, failing(call.failures))
	}
	requireSeries(t, &m, map[string]float64{
		`backoff_calls_total{operation="x",endpoint="GET a",outcome="first"}`:        1,
		`backoff_calls_total{operation="x",endpoint="GET a",outcome="retried"}`:      1,
		`backoff_calls_total{operation="x",endpoint="GET a",outcome="failed"}`:       0,
		`backoff_calls_total{operation="x",endpoint="GET b",outcome="failed"}`:       1,
		`backoff_calls_total{operation="y",endpoint="GET a",outcome="first"}`:        1,
		`backoff_calls_total{operation="y",outcome="first"}`:                         1,
		`backoff_attempts_total{operation="x",endpoint="GET b"}`:                     2,
		`backoff_retries_total{operation="x",endpoint="GET b",class="retryable"}`:    1,
		`backoff_wait_seconds_count{operation="x",endpoint="GET b"}`:                 1,
		`backoff_attempts_per_call_bucket{operation="y",endpoint="GET a",le="+Inf"}`: 1,
	})
}

func TestEndpointsOfOneNameAreCountedTogetherAndLeaveRoomForOtherNames(t *testing.T) {
	var m backoffmetrics.Metrics
	p := backoff.Policy{Name: "x", Observer: m.Observe}
	call := func(name string) {
		to := &endpoint.Endpoint{Name: name}
		require.NoError(t, p.Do(endpoint.With(t.Context(), to), func(ctx context.Context) error { return to.Do(ctx, failing(0)) }))
	}
	for range 1000 { // a client that makes its Endpoint anew, and several clients of one host
		call("GET a")
	}
	call("GET b")
	requireSeries(t, &m, map[string]float64{
		`backoff_calls_total{operation="x",endpoint="GET a",outcome="first"}`:        1000,
		`backoff_attempt_duration_seconds_count{endpoint="GET a",outcome="success"}`: 200, // their number is bounded
		`backoff_attempt_duration_seconds_count{endpoint="GET b",outcome="success"}`: 1,   // there is room for other names
	})
}

func TestEndpointsBeyondTheLimitAreCountedTogether(t *testing.T) {
	m := backoffmetrics.Metrics{MaxNames: 3}
	p := backoff.Policy{Name: "x", Observer: m.Observe}
	for i := range 100 {
		to := &endpoint.Endpoint{Name: fmt.Sprint("GET ", i)}
		require.NoError(t, p.Do(endpoint.With(t.Context(), to), failing(0)))
	}
	requireSeries(t, &m, map[string]float64{
		`backoff_calls_total{operation="x",endpoint="GET 2",outcome="first"}`: 1,
		`backoff_calls_total{operation="other",outcome="first"}`:              97,
	})
	for series := range scrape(t, &m) {
		require.NotContains(t, series, `"GET 3"`)
	}
}

func TestTheAttemptsAtAnEndpointAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m backoffmetrics.Metrics
		to := &endpoint.Endpoint{Name: "GET a"}
		p := backoff.Policy{Schedule: backoff.Constant(time.Minute), MaxAttempts: 2, Observer: m.Observe}
		call := func(took time.Duration, err error) {
			_ = p.Do(endpoint.With(t.Context(), to), func(ctx context.Context) error {
				return to.Do(ctx, func(context.Context) error { time.Sleep(took); return err })
			})
		}
		call(20*time.Millisecond, nil)
		call(2*time.Second, errors.New("down"))
		var slow sync.WaitGroup
		slow.Go(func() { call(time.Hour, nil) })
		synctest.Wait()
		requireSeries(t, &m, map[string]float64{
			`backoff_attempts_in_flight{endpoint="GET a"}`:                                           1,
			`backoff_attempt_duration_seconds_bucket{endpoint="GET a",outcome="success",le="0.01"}`:  0,
			`backoff_attempt_duration_seconds_bucket{endpoint="GET a",outcome="success",le="0.025"}`: 1,
			`backoff_attempt_duration_seconds_sum{endpoint="GET a",outcome="success"}`:               0.02,
			`backoff_attempt_duration_seconds_count{endpoint="GET a",outcome="failure"}`:             2,
			`backoff_attempt_duration_seconds_sum{endpoint="GET a",outcome="failure"}`:               4,
		})
		slow.Wait()
		requireSeries(t, &m, map[string]float64{`backoff_attempts_in_flight{endpoint="GET a"}`: 0})
	})
}

// trip opens the circuit of a service.
func trip(s *guard.Service) {
	_, breaker := s.Parts()
	breaker.Trip()
}

func TestAWatchedBreakerHasAStateFromTheStart(t *testing.T) {
	var m backoffmetrics.Metrics
	require.NotContains(t, m.String(), "state", "nothing is wired up")
	b := &backoff.Breaker{Name: "search"}
	m.WatchBreaker("search", b)
	hosts := new(guard.Services)
	m.WatchServices("hosts", hosts)
	hosts.For("a.test")
	_, forced := hosts.For("b.test").Parts()
	forced.Force(backoff.ModeForcedOpen)
	requireSeries(t, &m, map[string]float64{
		`backoff_breaker_state{breaker="search",state="closed"}`: 1,
		`backoff_breaker_state{breaker="search",state="open"}`:   0,
		`backoff_breaker_state{breaker="a.test",state="closed"}`: 1,
		`backoff_breaker_state{breaker="b.test",state="open"}`:   1,
		`backoff_breaker_refusals_total{breaker="search"}`:       0,
		`backoff_key_evictions_total{keys="hosts"}`:              0,
	})
	m.WatchBreaker("search", nil)
	m.WatchServices("hosts", nil)
	require.Equal(t, "{}", m.String())
}

// Two clients may call the same host.
func TestOfBreakersOfOneNameTheWorstStateIsShown(t *testing.T) {
	var m backoffmetrics.Metrics
	for i := range 3 {
		hosts := new(guard.Services)
		m.WatchServices(fmt.Sprint(i), hosts)
		if a := hosts.For("a.test"); i == 1 {
			trip(a)
		}
	}
	requireSeries(t, &m, map[string]float64{
		`backoff_breaker_state{breaker="a.test",state="open"}`:   1,
		`backoff_breaker_state{breaker="a.test",state="closed"}`: 0,
	})
}

func TestATransportShowsItsHostsByItself(t *testing.T) {
	up := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	var m backoffmetrics.Metrics
	var to *endpoint.Endpoint
	client := backoffhttp.Client(backoff.Policy{Name: "search", MaxAttempts: 1, Observer: func(ctx context.Context, e backoff.Event) {
		to = endpoint.Of(ctx)
		m.Observe(ctx, e)
	}})
	get := func() {
		req, err := http.NewRequestWithContext(guard.WithFailFast(t.Context()), http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
		}
	}
	get()
	host := server.URL
	name := "GET " + strings.TrimPrefix(host, "http://")
	requireSeries(t, &m, map[string]float64{
		`backoff_calls_total{operation="search",endpoint="` + name + `",outcome="first"}`:   1,
		`backoff_breaker_state{breaker="` + host + `",state="closed"}`:                      1,
		`backoff_budget_successes{budget="` + host + `"}`:                                   1,
		`backoff_attempt_duration_seconds_count{endpoint="` + name + `",outcome="success"}`: 1,
		`backoff_key_evictions_total{keys="services of endpoints"}`:                         0,
	})

	for key, service := range to.Services.All() {
		require.Equal(t, host, key)
		trip(service)
	}
	get()
	get()
	requireSeries(t, &m, map[string]float64{
		`backoff_breaker_state{breaker="` + host + `",state="open"}`:                                         1,
		`backoff_failures_total{operation="search",endpoint="` + name + `",reason="open"}`:                   2,
		`backoff_calls_total{operation="search",endpoint="` + name + `",outcome="failed"}`:                   2,
		`backoff_attempts_total{operation="search",endpoint="` + name + `"}`:                                 1,
		`backoff_breaker_transitions_total{breaker="` + host + `",from="closed",to="open",trigger="manual"}`: 1,
	})
}

func TestBeyondTheLimitEachScrapeShowsTheSameNames(t *testing.T) {
	m := backoffmetrics.Metrics{MaxNames: 20}
	p := backoff.Policy{Name: "x", Observer: m.Observe}
	hosts := new(guard.Services)
	m.WatchServices("hosts", hosts)
	for i := range 60 {
		to := &endpoint.Endpoint{Name: fmt.Sprint("GET ", i)}
		require.NoError(t, p.Do(endpoint.With(t.Context(), to), func(ctx context.Context) error { return to.Do(ctx, failing(0)) }))
		hosts.For(fmt.Sprint("host", i))
	}
	first := scrape(t, &m)
	for range 5 {
		require.True(t, maps.Equal(first, scrape(t, &m)), "a counter is not a part of other now and then")
	}
}

func TestWhatIsWatchedAndUsedByAnEndpointIsCountedOnce(t *testing.T) {
	var m backoffmetrics.Metrics
	to := &endpoint.Endpoint{Name: "GET a.test", Services: &guard.Services{MaxKeys: 1}}
	m.WatchServices("hosts", to.Services)
	m.WatchServices("again", to.Services)
	to.Services.For("b.test")
	a := to.Services.For("a.test")
	for range 7 {
		require.NoError(t, a.Do(endpoint.With(t.Context(), to), backoff.Policy{Observer: m.Observe}, failing(0)))
	}
	requireSeries(t, &m, map[string]float64{`backoff_budget_successes{budget="a.test"}`: 7, `backoff_key_evictions_total{keys="hosts"}`: 1})
	for series := range scrape(t, &m) {
		require.NotContains(t, series, "of endpoints", "it has names")
	}
}

func TestWhatAServiceHasNotIsNotShown(t *testing.T) {
	var m backoffmetrics.Metrics
	hosts := &guard.Services{New: func(key string) *guard.Service {
		return map[string]*guard.Service{
			"a.test":     {NoBudget: true},
			"unguarded":  {NoBudget: true, NoBreaker: true},
			"no breaker": {NoBreaker: true},
			"own budget": {Name: "own budget", Budget: new(pace.HoldOff), NoBreaker: true},
		}[key]
	}}
	m.WatchServices("hosts", hosts)
	for _, key := range []string{"local", "a.test", "unguarded", "no breaker", "own budget"} {
		hosts.For(key)
	}
	shown := map[string]float64{}
	for series, value := range scrape(t, &m) {
		if strings.HasSuffix(series, `,state="closed"}`) || strings.Contains(series, "_budget_allowed{") {
			shown[series] = value
		}
	}
	require.Equal(t, map[string]float64{`backoff_breaker_state{breaker="a.test",state="closed"}`: 1, `backoff_budget_allowed{budget="no breaker"}`: 0}, shown)
}

func TestTheBreakerOfTenantsIsShownOnceUnderTheKeyOfTheirService(t *testing.T) {
	var m backoffmetrics.Metrics
	hosts := &guard.Services{MaxKeys: 2, New: func(string) *guard.Service { return new(guard.Service) }}
	m.WatchServices("hosts", hosts)
	hosts.For("a.test").Tenant("ada")
	service := hosts.For("a.test")
	require.NoError(t, service.Tenant("bob").Do(t.Context(), backoff.Policy{}, failing(0))) // a late key, whose budget is wrapped
	trip(service)
	all := scrape(t, &m)
	for series, value := range map[string]float64{
		`backoff_breaker_state{breaker="a.test",state="open"}`: 1, `backoff_budget_successes{budget="a.test"}`: 0, `backoff_budget_successes{budget="a.test#bob"}`: 1,
	} {
		require.Equal(t, value, all[series], series)
	}
	require.NotContains(t, all, `backoff_breaker_state{breaker="a.test#bob",state="open"}`)
}

func TestHostileKeysAreBoundedAndKeepTheTextWhole(t *testing.T) {
	var m backoffmetrics.Metrics
	hosts := &guard.Services{MaxKeys: -1}
	m.WatchServices("ho\xffsts\n", hosts)
	m.WatchServices(strings.Repeat("x", 1<<20), hosts)
	for _, key := range []string{"a\nb_total 1\n", "\xff\"\\", "", strings.Repeat("x", 1<<20)} {
		trip(hosts.For(key))
	}
	for i := range 10_000 {
		hosts.For(fmt.Sprint("host", i))
	}
	all := scrape(t, &m)
	require.Equal(t, 1.0, all[`backoff_breaker_state{breaker="a\nb_total 1\n",state="open"}`])
	require.Equal(t, 1.0, all[`backoff_breaker_state{breaker="`+"\uFFFD"+`\"\\",state="open"}`])
	require.Equal(t, 1.0, all[`backoff_breaker_state{breaker="other",state="open"}`], "the worst state of those that are not shown")
	require.Contains(t, all, `backoff_key_evictions_total{keys="ho`+"\uFFFD"+`sts\n"}`)
	require.Contains(t, all, `backoff_key_evictions_total{keys="other"}`)
	require.LessOrEqual(t, len(all), 101*(3+1+3)+2)
}

func TestAScrapeMayReadKeysWhileTheyAreForgotten(t *testing.T) {
	var m backoffmetrics.Metrics
	hosts := &guard.Services{MaxKeys: 8}
	m.WatchServices("hosts", hosts)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 500 {
				trip(hosts.For(fmt.Sprint(worker, i)))
			}
		})
	}
	before := 0.0
	for range 20 {
		evictions := scrape(t, &m)[`backoff_key_evictions_total{keys="hosts"}`]
		require.GreaterOrEqual(t, evictions, before, "it is a counter")
		before = evictions
	}
	all.Wait()
}
