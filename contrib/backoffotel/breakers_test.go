package backoffotel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffotel"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

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
	mp, reader := metering()
	observe := backoffotel.Metrics(mp)
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
	mp, reader := metering()
	observe := backoffotel.Metrics(mp)
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
