package backoffotel_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffotel"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

func TestServicesAppearWithTheirKeysAndEvictions(t *testing.T) {
	mp, reader := metering()
	hosts := &guard.Services{MaxKeys: 2, New: func(key string) *guard.Service {
		made := &guard.Service{Name: key}
		if key == "own" {
			made.Budget = backoff.JoinBudgets() // which has no Stats
		}
		return made
	}}
	watch, err := backoffotel.WatchServices(mp, "hosts", hosts)
	require.NoError(t, err)
	evictions := series{"backoff.key.evictions {key}", "backoff.keys=hosts"}
	sums, _ := collect(t, reader)
	require.Equal(t, map[series]float64{evictions: 0}, sums, "so it is seen that services are wired up")

	policy := backoff.Policy{Schedule: backoff.Constant(0)}
	for _, key := range []string{"own", "a.test"} {
		for range 100 {
			require.NoError(t, hosts.For(key).Do(t.Context(), policy, failing(nil)))
		}
		require.NoError(t, hosts.For(key).Do(t.Context(), policy, failing(errBoom, nil)))
	}
	used := series{"backoff.budget.used {retry}", "backoff.operation=a.test"}
	sums, _ = collect(t, reader)
	require.Equal(t, 1.0, sums[stateOf("own", "closed")])
	require.NotContains(t, sums, series{used.name, "backoff.operation=own"})
	require.Equal(t, 1.0, sums[used])
	require.Positive(t, sums[series{"backoff.budget.allowed {retry}", "backoff.operation=a.test"}])
	_, breaker := hosts.For("b.test").Parts()
	breaker.Trip()
	sums, _ = collect(t, reader)
	require.Equal(t, 1.0, sums[evictions])
	require.Equal(t, 1.0, sums[stateOf("b.test", "open")])
	require.NotContains(t, sums, stateOf("own", "closed"), "which was forgotten")
	require.NoError(t, watch.Unregister())
	sums, _ = collect(t, reader)
	require.Empty(t, sums)

	_, err = backoffotel.WatchServices(mp, "hosts", nil)
	require.ErrorContains(t, err, "Services")
}

func TestTheServicesOfAnEndpointAppearWithItsFirstCall(t *testing.T) {
	observe, reader := observing()
	for range 2 { // of two clients
		to := &endpoint.Endpoint{Name: "GET a.test", Services: &guard.Services{MaxKeys: 1}}
		to.Services.For("old.test")
		policy := backoff.Policy{Schedule: backoff.Constant(0), Observer: observe}
		call := to.Services.For("a.test").With(policy)
		for range 100 {
			require.NoError(t, call.Do(t.Context(), failing(nil)))
		}
		require.NoError(t, call.Do(endpoint.With(t.Context(), to), failing(errBoom, nil)))
	}
	sums, _ := collect(t, reader)
	require.Equal(t, 2.0, sums[series{"backoff.budget.used {retry}", "backoff.operation=a.test"}], "%v", sums)
	require.Equal(t, 2.0, sums[series{"backoff.key.evictions {key}", "backoff.keys=services of endpoints"}])
}

// One byte that is not UTF-8 would make an exporter refuse a whole batch.
func TestHostileKeysAreBoundedAndValid(t *testing.T) {
	mp, reader := metering()
	hosts := &guard.Services{MaxKeys: -1}
	_, err := backoffotel.WatchServices(mp, "ho\xffsts", hosts)
	require.NoError(t, err)
	_, long := hosts.For(strings.Repeat("x", 1<<20)).Parts()
	hosts.For("a\nb\xff")
	for i := range 5000 {
		hosts.For("key" + strconv.Itoa(i))
	}
	sums, _ := collect(t, reader)
	require.Equal(t, 1.0, sums[stateOf("a\nb\uFFFD", "closed")])
	require.Equal(t, 1.0, sums[stateOf("other", "closed")])
	require.LessOrEqual(t, len(sums), (3+2)*301+1)
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
	services := &guard.Services{MaxKeys: 8}
	_, err := backoffotel.WatchServices(mp, "hosts", services)
	require.NoError(t, err)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 500 {
				_, breaker := services.For(fmt.Sprint(worker, i)).Parts()
				breaker.Trip()
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
	observe, _ := observing()
	contexts, services := make([]context.Context, 3000), new(guard.Services)
	for i := range contexts {
		contexts[i] = endpoint.With(t.Context(), &endpoint.Endpoint{Name: "GET a.test", Services: services})
		observe(contexts[i], backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
	}
	at := 0
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		at++
		observe(contexts[len(contexts)-1-at%1000], backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
	}))
}

func TestTheHeadersOfAHostileServerAreBoundedAndValid(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = strings.Repeat("é", 1<<10)
	}
	attributes := eventsOf(t, func(ctx context.Context) {
		backoffotel.SpanEvents(ctx, backoff.Event{
			Kind: backoff.EventRetry, Name: "\xff", Err: fmt.Errorf("bad \xff"), Header: map[string][]string{"Retry-After": many, "X-Request-Id": {"\xff\n"}},
		})
	})[0].Attributes
	found := values(attributes)
	require.Len(t, found["http.response.header.retry-after"], 4)
	require.LessOrEqual(t, len(found["http.response.header.retry-after"].([]string)[0]), 259)
	require.Equal(t, []string{"\uFFFD\n"}, found["http.response.header.x-request-id"])
	require.Equal(t, "bad \uFFFD", found["exception.message"])
	require.Equal(t, "\uFFFD", found["backoff.operation"])
	for _, a := range attributes {
		require.True(t, utf8.ValidString(a.Value.String()), a.Key)
	}
}

func ExampleWatchServices() {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	hosts := new(guard.Services)
	registration, err := backoffotel.WatchServices(provider, "hosts", hosts)
	if err != nil {
		panic(err)
	}
	defer registration.Unregister()
	_, breaker := hosts.For("api.example.com").Parts()
	breaker.Trip()
	var collected metricdata.ResourceMetrics
	reader.Collect(context.Background(), &collected)
	for _, p := range collected.ScopeMetrics[0].Metrics[0].Data.(metricdata.Gauge[int64]).DataPoints {
		if p.Value == 1 {
			fmt.Println(p.Attributes.Encoded(attribute.DefaultEncoder()))
		}
	}
	// Output: backoff.breaker.state=open,backoff.operation=api.example.com
}

// stateOf is the series of a state of a breaker.
func stateOf(breaker, state string) series {
	return series{"backoff.breaker.state 1", "backoff.breaker.state=" + state + ",backoff.operation=" + breaker}
}

func TestAWatchedBreakerHasAStateFromTheStart(t *testing.T) {
	mp, reader := metering()
	b := &backoff.Breaker{Name: "search", OpenFor: backoff.Constant(time.Hour), Observer: backoffotel.Metrics(mp)}
	watch, err := backoffotel.WatchBreaker(mp, "search", b)
	require.NoError(t, err)
	sums, _ := collect(t, reader)
	require.Equal(t, 1.0, sums[stateOf("search", "closed")])
	b.Trip()
	sums, _ = collect(t, reader)
	require.Equal(t, 0.0, sums[stateOf("search", "closed")])
	require.Equal(t, 1.0, sums[stateOf("search", "open")])
	require.NoError(t, watch.Unregister())

	_, err = backoffotel.WatchBreaker(mp, "x", &backoff.Breaker{FailureRate: 2})
	require.ErrorContains(t, err, "FailureRate")
}

func TestTheAttributesSayWhatACallIsSentTo(t *testing.T) {
	mp, reader := metering()
	to := &endpoint.Endpoint{Name: "GET a.test", Services: new(guard.Services)}
	to.Services.For("https://a.test")
	policy := backoff.Policy{Name: "search", Schedule: backoff.Constant(0), MaxAttempts: 2, Observer: backoffotel.Metrics(mp)}
	require.NoError(t, policy.Do(endpoint.With(t.Context(), to), failing(nil)))
	sums, counts := collect(t, reader)
	require.Equal(t, 1.0, sums[stateOf("https://a.test", "closed")], "from the first call on")
	require.Equal(t, 1.0, counts[series{"backoff.call.attempts {attempt}", "backoff.endpoint=GET a.test,backoff.operation=search,backoff.outcome=first"}])
	require.Error(t, policy.Do(endpoint.With(t.Context(), to), failing(errBoom)))
	require.NoError(t, policy.Do(endpoint.With(t.Context(), to), failing(errBoom, nil)))
	sums, counts = collect(t, reader)
	both := "backoff.endpoint=GET a.test,backoff.operation=search"
	require.Equal(t, 2.0, sums[series{"backoff.retries {retry}", "backoff.class=unknown," + both + ",error.type=*errors.errorString"}])
	require.Equal(t, 2.0, counts[series{"backoff.retry.wait s", both}])
	require.Equal(t, 1.0, counts[series{"backoff.call.attempts {attempt}", both + ",backoff.outcome=retried"}])
}

func TestTheBreakersThatAreRememberedAreBounded(t *testing.T) {
	mp, reader := metering()
	observe := backoffotel.Metrics(mp)
	for i := range 3000 {
		observe(t.Context(), backoff.Event{Kind: backoff.EventTransition, Transition: &backoff.BreakerTransition{Name: fmt.Sprint(i), To: backoff.BreakerOpen}})
	}
	sums, _ := collect(t, reader)
	open := 0
	for s, n := range sums {
		if n == 1 && s.name == "backoff.breaker.state 1" {
			open++
		}
	}
	require.Equal(t, 300, open)

	mp, reader = metering()
	hosts := new(guard.Services)
	for i := range 400 {
		hosts.For(fmt.Sprint(1000 - i))
	}
	_, err := backoffotel.WatchServices(mp, "hosts", hosts)
	require.NoError(t, err)
	sums, _ = collect(t, reader)
	require.Contains(t, sums, stateOf("1000", "closed"), "which was there first")
	require.NotContains(t, sums, stateOf("601", "closed"))
}

func TestTheBreakersOfClientsThatAreMadeAnewAreBounded(t *testing.T) {
	observe, reader := observing()
	for i := range 300 { // a program that makes a client for each request
		to := &endpoint.Endpoint{Name: "GET a.test", Services: new(guard.Services)}
		to.Services.For(fmt.Sprint("https://", i))
		observe(endpoint.With(t.Context(), to), backoff.Event{Kind: backoff.EventSuccess, Attempt: 1})
	}
	sums, _ := collect(t, reader)
	require.Equal(t, 1.0, sums[stateOf("https://99", "closed")])
	require.NotContains(t, sums, stateOf("https://100", "closed"))
}

func TestOfTheBreakersOfSeveralClientsTheWorstStateIsShown(t *testing.T) {
	observe, reader := observing()
	for i := range 20 {
		to := &endpoint.Endpoint{Name: "GET a.test", Services: new(guard.Services)}
		_, b := to.Services.For("https://a.test").Parts()
		if i == 7 {
			b.Trip()
		}
		observe(endpoint.With(t.Context(), to), backoff.Event{Kind: backoff.EventSuccess, Attempt: 1})
	}
	sums, _ := collect(t, reader)
	require.Equal(t, 1.0, sums[stateOf("https://a.test", "open")])
	require.Equal(t, 0.0, sums[stateOf("https://a.test", "closed")])
}

func TestAServiceMayHaveNoBreakerAndOneThatIsNilIsNotShown(t *testing.T) {
	for _, none := range []*guard.Service{nil, {NoBreaker: true, NoBudget: true}} {
		mp, reader := metering()
		to := &endpoint.Endpoint{Services: &guard.Services{New: func(string) *guard.Service { return none }}}
		to.Services.For("local")
		backoffotel.Metrics(mp)(endpoint.With(t.Context(), to), backoff.Event{Kind: backoff.EventSuccess, Attempt: 1})
		sums, _ := collect(t, reader)
		require.NotContains(t, sums, stateOf("local", "closed"))
	}
}
