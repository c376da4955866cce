package backoffotel_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffotel"
	"github.com/gobackoff/backoff/endpoint"
	"github.com/gobackoff/backoff/pace"
)

func TestTheBreakersOfARegistryAppearWithTheirKeysAndItsEvictions(t *testing.T) {
	mp, reader := metering()
	hosts := &backoff.Breakers{MaxKeys: 2}
	watch, err := backoffotel.WatchBreakers(mp, "hosts", hosts)
	require.NoError(t, err)
	evictions := series{"backoff.key.evictions {key}", "backoff.keys=hosts"}
	sums, _ := collect(t, reader)
	require.Equal(t, map[series]float64{evictions: 0}, sums, "so it is seen that breakers are wired up")

	hosts.For("a.test")
	hosts.For("b.test")
	sums, _ = collect(t, reader)
	require.Equal(t, 1.0, sums[stateOf("a.test", "closed")])
	hosts.For("c.test").Trip()
	sums, _ = collect(t, reader)
	require.Equal(t, 1.0, sums[evictions])
	require.Equal(t, 1.0, sums[stateOf("c.test", "open")])
	require.NotContains(t, sums, stateOf("a.test", "closed"), "which was forgotten")
	require.NoError(t, watch.Unregister())
	sums, _ = collect(t, reader)
	require.Empty(t, sums)

	_, err = backoffotel.WatchBreakers(mp, "hosts", nil)
	require.ErrorContains(t, err, "Breakers")
}

func TestTheBudgetsOfARegistryAppearWithTheirKeysAndItsEvictions(t *testing.T) {
	mp, reader := metering()
	hosts := &backoff.Budgets{MaxKeys: 2, New: func(key string) backoff.Budget {
		if key == "own" {
			return backoff.JoinBudgets() // which has no Stats
		}
		return new(pace.Pacer)
	}}
	_, err := backoffotel.WatchBudgets(mp, "hosts", hosts)
	require.NoError(t, err)
	for _, key := range []string{"own", "a.test", "b.test"} {
		policy := backoff.Policy{Budget: hosts.For(key)}
		for range 100 {
			require.NoError(t, policy.Do(t.Context(), failing(nil)))
		}
		require.NoError(t, policy.Do(t.Context(), failing(errBoom, nil)))
	}
	sums, _ := collect(t, reader)
	require.Equal(t, 1.0, sums[series{"backoff.budget.used {retry}", "backoff.operation=b.test"}])
	require.Positive(t, sums[series{"backoff.budget.allowed {retry}", "backoff.operation=b.test"}])
	require.Equal(t, 1.0, sums[series{"backoff.key.evictions {key}", "backoff.keys=hosts"}])
	require.NotContains(t, sums, series{"backoff.budget.used {retry}", "backoff.operation=own"})

	_, err = backoffotel.WatchBudgets(mp, "hosts", nil)
	require.ErrorContains(t, err, "Budgets")
}

func TestTheBudgetsAndEvictionsOfAnEndpointAppearWithItsFirstCall(t *testing.T) {
	mp, reader := metering()
	observe := backoffotel.Metrics(mp)
	for range 2 { // of two clients
		to := &endpoint.Endpoint{Name: "GET a.test", Breakers: &backoff.Breakers{MaxKeys: 1}, Budgets: &backoff.Budgets{MaxKeys: 1}}
		for _, key := range []string{"old.test", "a.test"} {
			to.Breakers.For(key)
			to.Budgets.For(key)
		}
		policy := backoff.Policy{Budget: to.Budgets.For("a.test"), Observer: observe}
		require.NoError(t, policy.Do(endpoint.With(t.Context(), to), failing(errBoom, nil)))
	}
	sums, _ := collect(t, reader)
	require.Equal(t, 2.0, sums[series{"backoff.budget.used {retry}", "backoff.operation=a.test"}], "%v", sums)
	require.Equal(t, 2.0, sums[series{"backoff.key.evictions {key}", "backoff.keys=breakers of endpoints"}])
	require.Equal(t, 2.0, sums[series{"backoff.key.evictions {key}", "backoff.keys=budgets of endpoints"}])
}

// One byte that is not UTF-8 would make an exporter refuse a whole batch.
func TestHostileKeysAreBoundedAndValid(t *testing.T) {
	mp, reader := metering()
	hosts := &backoff.Breakers{MaxKeys: -1}
	_, err := backoffotel.WatchBreakers(mp, "ho\xffsts", hosts)
	require.NoError(t, err)
	long := hosts.For(strings.Repeat("x", 1<<20))
	hosts.For("a\nb\xff")
	for i := range 5000 {
		hosts.For("key" + strconv.Itoa(i))
	}
	sums, _ := collect(t, reader)
	require.Equal(t, 1.0, sums[stateOf("a\nb\uFFFD", "closed")])
	require.Equal(t, 1.0, sums[stateOf("other", "closed")])
	require.LessOrEqual(t, len(sums), 3*301+1)
	long.Trip()
	again, _ := collect(t, reader)
	require.Equal(t, 1.0, again[stateOf("other", "open")], "the worst state of those that are not shown")
	require.Len(t, again, len(sums), "the same keys are shown")

	observe := backoffotel.Metrics(mp)
	to := &endpoint.Endpoint{Name: "GET \xff"}
	ctx := endpoint.With(t.Context(), to)
	for kind := backoff.EventRetry; kind.String() != "unknown"; kind++ {
		observe(ctx, backoff.Event{Kind: kind, Name: "\xff", Attempt: 1, Slept: 1, Transition: &backoff.BreakerTransition{Name: strings.Repeat("x", 1<<20)}})
	}
	observe(ctx, backoff.Event{Kind: backoff.EventSuccess, Name: "\xff", Attempt: 1})
	sums, _ = collect(t, reader)
	for s := range sums {
		require.NotEqual(t, "not UTF-8", s.attributes)
		require.Less(t, len(s.attributes), 1000)
	}
}

func TestMetricsMayBeCollectedWhileKeysAreForgotten(t *testing.T) {
	mp, reader := metering()
	breakers, budgets := &backoff.Breakers{MaxKeys: 8}, &backoff.Budgets{MaxKeys: 8}
	_, err := backoffotel.WatchBreakers(mp, "hosts", breakers)
	require.NoError(t, err)
	_, err = backoffotel.WatchBudgets(mp, "hosts", budgets)
	require.NoError(t, err)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 500 {
				breakers.For(fmt.Sprint(worker, i)).Trip()
				budgets.For(fmt.Sprint(worker, i))
			}
		})
	}
	for range 20 {
		collect(t, reader)
	}
	all.Wait()
}

// A program may make a client for each request.
func TestSuccessesAtEndpointsThatAreMadeAnewAllocateNothing(t *testing.T) {
	mp, _ := metering()
	observe := backoffotel.Metrics(mp)
	contexts, breakers := make([]context.Context, 3000), new(backoff.Breakers)
	for i := range contexts {
		contexts[i] = endpoint.With(t.Context(), &endpoint.Endpoint{Name: "GET a.test", Breakers: breakers})
		observe(contexts[i], backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
	}
	at := 0
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		at++
		observe(contexts[len(contexts)-1-at%1000], backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
	}))
}

func TestTheHeadersOfAHostileServerAreBoundedAndValid(t *testing.T) {
	tp, exporter := tracing()
	ctx, span := tp.Tracer("test").Start(t.Context(), "caller")
	many := make([]string, 10_000)
	for i := range many {
		many[i] = strings.Repeat("é", 1<<10)
	}
	backoffotel.SpanEvents(ctx, backoff.Event{
		Kind: backoff.EventRetry, Name: "\xff", Err: fmt.Errorf("bad \xff"), Header: map[string][]string{"Retry-After": many, "X-Request-Id": {"\xff\n"}},
	})
	span.End()
	found := values(exporter.GetSpans()[0].Events[0].Attributes)
	require.Len(t, found["http.response.header.retry-after"], 4)
	require.LessOrEqual(t, len(found["http.response.header.retry-after"].([]string)[0]), 259)
	require.Equal(t, []string{"\uFFFD\n"}, found["http.response.header.x-request-id"])
	require.Equal(t, "bad \uFFFD", found["exception.message"])
	require.Equal(t, "\uFFFD", found["backoff.operation"])
	for _, a := range exporter.GetSpans()[0].Events[0].Attributes {
		require.True(t, utf8.ValidString(a.Value.String()), a.Key)
	}
}

func ExampleWatchBreakers() {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	hosts := new(backoff.Breakers)
	registration, err := backoffotel.WatchBreakers(provider, "hosts", hosts)
	if err != nil {
		panic(err)
	}
	defer registration.Unregister()
	hosts.For("api.example.com").Trip()
	var collected metricdata.ResourceMetrics
	reader.Collect(context.Background(), &collected)
	for _, p := range collected.ScopeMetrics[0].Metrics[0].Data.(metricdata.Gauge[int64]).DataPoints {
		if p.Value == 1 {
			fmt.Println(p.Attributes.Encoded(attribute.DefaultEncoder()))
		}
	}
	// Output: backoff.breaker.state=open,backoff.operation=api.example.com
}
