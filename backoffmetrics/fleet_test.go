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
	"github.com/gobackoff/backoff/endpoint"
)

func TestBeyondTheLimitEachScrapeShowsTheSameNames(t *testing.T) {
	m := backoffmetrics.Metrics{MaxNames: 20}
	p := backoff.Policy{Name: "x", Observer: m.Observe}
	breakers, budgets := new(backoff.Breakers), new(backoff.Budgets)
	m.WatchBreakers("hosts", breakers)
	m.WatchBudgets("hosts", budgets)
	for i := range 60 {
		to := &endpoint.Endpoint{Name: fmt.Sprint("GET ", i)}
		require.NoError(t, p.Do(endpoint.With(t.Context(), to), func(ctx context.Context) error { return to.Do(ctx, failing(0)) }))
		breakers.For(fmt.Sprint("host", i))
		budgets.For(fmt.Sprint("host", i))
	}
	first := scrape(t, &m)
	for range 5 {
		require.True(t, maps.Equal(first, scrape(t, &m)), "a counter is not a part of other now and then")
	}
}

func TestNewEndpointsOfOneNameLeaveRoomForOtherNames(t *testing.T) {
	m := backoffmetrics.Metrics{MaxNames: 5}
	p := backoff.Policy{Name: "x", Observer: m.Observe}
	call := func(name string) {
		to := &endpoint.Endpoint{Name: name}
		require.NoError(t, p.Do(endpoint.With(t.Context(), to), func(ctx context.Context) error { return to.Do(ctx, failing(0)) }))
	}
	for range 100 { // a program that makes a client for each request
		call("GET a")
	}
	call("GET b")
	requireSeries(t, &m, map[string]float64{`backoff_attempt_duration_seconds_count{endpoint="GET b",outcome="success"}`: 1})
}

func TestWhatIsWatchedAndUsedByAnEndpointIsCountedOnce(t *testing.T) {
	var m backoffmetrics.Metrics
	to := &endpoint.Endpoint{Name: "GET a.test", Breakers: &backoff.Breakers{MaxKeys: 1}, Budgets: &backoff.Budgets{MaxKeys: 1}}
	m.WatchBreakers("hosts", to.Breakers)
	m.WatchBreakers("again", to.Breakers)
	m.WatchBudgets("hosts", to.Budgets)
	m.WatchBudgets("again", to.Budgets)
	to.Breakers.For("b.test")
	to.Breakers.For("a.test")
	to.Budgets.For("b.test")
	p := backoff.Policy{Observer: m.Observe, Budget: to.Budgets.For("a.test")}
	for range 7 {
		require.NoError(t, p.Do(endpoint.With(t.Context(), to), failing(0)))
	}
	requireSeries(t, &m, map[string]float64{`backoff_budget_successes{budget="a.test"}`: 7, `backoff_key_evictions_total{keys="hosts"}`: 2})
	for series := range scrape(t, &m) {
		require.NotContains(t, series, "of endpoints", "it has names")
	}
}

func TestARegistryMayHaveKeysWithoutABreaker(t *testing.T) {
	var m backoffmetrics.Metrics
	hosts := &backoff.Breakers{New: func(key string) *backoff.Breaker {
		if key == "local" {
			return nil
		}
		return &backoff.Breaker{Name: key}
	}}
	m.WatchBreakers("hosts", hosts)
	hosts.For("local")
	hosts.For("a.test")
	requireSeries(t, &m, map[string]float64{`backoff_breaker_state{breaker="a.test",state="closed"}`: 1})
}

func TestHostileKeysAreBoundedAndKeepTheTextWhole(t *testing.T) {
	var m backoffmetrics.Metrics
	hosts, budgets := &backoff.Breakers{MaxKeys: -1}, &backoff.Budgets{MaxKeys: -1}
	m.WatchBreakers("ho\xffsts\n", hosts)
	m.WatchBudgets(strings.Repeat("x", 1<<20), budgets)
	for _, key := range []string{"a\nb_total 1\n", "\xff\"\\", "", strings.Repeat("x", 1<<20)} {
		hosts.For(key).Trip()
		budgets.For(key)
	}
	for i := range 10_000 {
		hosts.For(fmt.Sprint("host", i))
		budgets.For(fmt.Sprint("host", i))
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
	hosts, budgets := &backoff.Breakers{MaxKeys: 8}, &backoff.Budgets{MaxKeys: 8}
	m.WatchBreakers("hosts", hosts)
	m.WatchBudgets("hosts", budgets)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 500 {
				hosts.For(fmt.Sprint(worker, i)).Trip()
				budgets.For(fmt.Sprint(worker, i))
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
