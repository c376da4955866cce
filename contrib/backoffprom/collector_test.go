package backoffprom_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/contrib/backoffprom"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

var errDown = errors.New("down")

// busy makes calls of every kind, under hostile names too.
func busy(t *testing.T, m *backoffmetrics.Metrics) {
	m.WatchBudget("search", new(backoff.RetryBudget))
	m.WatchBreaker("search", new(backoff.Breaker))
	m.WatchServices("hosts", new(guard.Services))
	to := &endpoint.Endpoint{Name: "GET api.test"}
	for i, name := range []string{"search", "", "endpoint", "a\"b\\c\n", "\xff", strings.Repeat("x", 300), "search"} {
		_ = backoff.Policy{Name: name, Observer: m.Observe}.Do(t.Context(), func(context.Context) error { return nil }) // of no endpoint
		p := backoff.Policy{Name: name, Schedule: backoff.Constant(0), Observer: m.Observe}
		left := i
		_ = p.Do(endpoint.With(t.Context(), to), func(ctx context.Context) error {
			return to.Do(ctx, func(context.Context) error {
				if left--; left >= 0 {
					return errDown
				}
				return nil
			})
		})
	}
}

// lines returns the samples of a text, sorted.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return all
}

// samples returns the samples of a text as sets of labels and a value.
func samples(t *testing.T, serve func(*httptest.ResponseRecorder)) []string {
	w := httptest.NewRecorder()
	serve(w)
	require.Equal(t, 200, w.Code, w.Body.String())
	all := lines(w.Body.String())
	for i, line := range all {
		name, rest, _ := strings.Cut(line, "{")
		labels, value, _ := strings.Cut(rest, "} ")
		parts := strings.Split(strings.Replace(labels, `endpoint="",`, "", 1), `",`) // an empty label is none
		for j := range parts {
			parts[j] = strings.TrimSuffix(parts[j], `"`)
		}
		slices.Sort(parts)
		all[i] = name + "{" + strings.Join(parts, `",`) + "} " + value
	}
	slices.Sort(all)
	return all
}

func TestTheRegistryHasTheSeriesOfTheText(t *testing.T) {
	var m backoffmetrics.Metrics
	busy(t, &m)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(backoffprom.New(&m))
	request := httptest.NewRequest("GET", "/metrics", nil)
	text := samples(t, func(w *httptest.ResponseRecorder) { m.Handler().ServeHTTP(w, request) })
	require.Equal(t, text, samples(t, func(w *httptest.ResponseRecorder) {
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(w, request)
	}))
	require.Greater(t, len(text), 100)
}

func TestTheNamesFollowTheRulesOfPrometheus(t *testing.T) {
	var m backoffmetrics.Metrics
	busy(t, &m)
	problems, err := testutil.CollectAndLint(backoffprom.New(&m))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestARegistryRefusesASecondCollectorUnlessEachHasALabel(t *testing.T) {
	var a, b backoffmetrics.Metrics
	busy(t, &a)
	busy(t, &b)
	registry := prometheus.NewPedanticRegistry()
	first := backoffprom.New(&a)
	require.NoError(t, registry.Register(first))
	for _, again := range []prometheus.Collector{first, backoffprom.New(&a), backoffprom.New(&b)} {
		var already prometheus.AlreadyRegisteredError
		require.ErrorAs(t, registry.Register(again), &already)
		require.Equal(t, first, already.ExistingCollector)
	}
	registry = prometheus.NewPedanticRegistry()
	for part, m := range map[string]*backoffmetrics.Metrics{"a": &a, "b": &b} {
		require.NoError(t, prometheus.WrapRegistererWith(prometheus.Labels{"part": part}, registry).Register(backoffprom.New(m)))
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.Zero(t, len(f.GetMetric())%2, f.GetName())
	}
}

// A scrape reads the text without the client library.
func TestTheTextFollowsTheRulesOfPrometheus(t *testing.T) {
	var m backoffmetrics.Metrics
	busy(t, &m)
	text := httptest.NewRecorder()
	m.Handler().ServeHTTP(text, httptest.NewRequest("GET", "/metrics", nil))
	problems, err := promlint.New(text.Body).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestTheRegistryMayGatherWhileCallsAreCounted(t *testing.T) {
	var m backoffmetrics.Metrics
	registry := prometheus.NewRegistry()
	registry.MustRegister(backoffprom.New(&m))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { busy(t, &m) })
		all.Go(func() {
			for range 10 {
				_, err := registry.Gather()
				require.NoError(t, err)
			}
		})
	}
	all.Wait()
}

func ExampleNew() {
	var metrics backoffmetrics.Metrics
	registry := prometheus.NewRegistry()
	registry.MustRegister(backoffprom.New(&metrics))

	policy := backoff.Policy{Name: "search", Observer: metrics.Observe}
	_ = policy.Do(context.Background(), func(context.Context) error { return nil })

	families, _ := registry.Gather()
	for _, f := range families {
		if f.GetName() == "backoff_calls_total" {
			fmt.Println(f.GetMetric()[1].GetLabel()[2].GetValue(), f.GetMetric()[1].GetCounter().GetValue())
		}
	}
	// Output: first 1
}
