package backoffmetrics_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/pace"
)

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
