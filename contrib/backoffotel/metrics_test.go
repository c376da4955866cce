package backoffotel_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffotel"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
)

func TestEverySeriesIsInTheMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer, reader := observing()
		policy := backoff.Policy{Name: "fetch", MaxAttempts: 3, Rand: half, Schedule: backoff.Linear{Initial: 2 * time.Second}, Observer: observer}
		asked := backoff.RetryAfter(throttled{}, time.Minute)
		require.NoError(t, policy.Do(t.Context(), failing(nil)))
		require.NoError(t, policy.Do(t.Context(), failing(errBoom, nil)))
		require.ErrorIs(t, policy.Do(t.Context(), failing(errBoom, asked)), backoff.ErrExhausted)
		require.Error(t, policy.Do(t.Context(), failing(backoff.Permanent(errBoom))))

		sums, counts := collect(t, reader)
		const boom, first = "error.type=*errors.errorString", "backoff.operation=fetch"
		require.Equal(t, map[series]float64{
			{"backoff.call.attempts {attempt}", first + ",backoff.outcome=first"}:                                         1,
			{"backoff.call.attempts {attempt}", first + ",backoff.outcome=retried"}:                                       2,
			{"backoff.call.attempts {attempt}", first + ",backoff.outcome=failed,backoff.reason=attempts,error.type=429"}: 3,
			{"backoff.call.attempts {attempt}", first + ",backoff.outcome=failed,backoff.reason=permanent," + boom}:       1,
			{"backoff.retries {retry}", "backoff.class=unknown," + first + "," + boom}:                                    2,
			{"backoff.retries {retry}", "backoff.class=throttled," + first + ",error.type=429"}:                           1,
			{"backoff.retry.delay s", first}: 2 + 2 + 4,
			{"backoff.retry.wait s", first}:  1 + 1 + 63,
			{"backoff.retry.slept s", first}: 1 + 1 + 63,
		}, sums)
		for s, n := range counts {
			if strings.HasPrefix(s.name, "backoff.call") {
				require.Equal(t, 1.0, n, s)
			} else {
				require.Equal(t, 3.0, n, s)
			}
		}
	})
}

func TestABreakersStateAndTransitionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mp, reader := metering()
		b := &backoff.Breaker{
			Name: "search", ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Minute), Jitter: backoff.NoJitter,
			Observer: backoffotel.Metrics(mp),
		}
		require.Error(t, b.Do(t.Context(), failing(errBoom)))
		require.ErrorIs(t, b.Do(t.Context(), failing(nil)), backoff.ErrOpen)
		synctest.Wait()
		sums, _ := collect(t, reader)
		require.Equal(t, map[series]float64{
			{"backoff.breaker.transitions {transition}", "backoff.breaker.from=closed,backoff.breaker.to=open,backoff.breaker.trigger=consecutive,backoff.operation=search"}: 1,
			{"backoff.breaker.state 1", "backoff.breaker.state=closed,backoff.operation=search"}:                                                                             0,
			{"backoff.breaker.state 1", "backoff.breaker.state=open,backoff.operation=search"}:                                                                               1,
			{"backoff.breaker.state 1", "backoff.breaker.state=half-open,backoff.operation=search"}:                                                                          0,
			{"backoff.refusals {refusal}", "backoff.operation=search,backoff.reason=open"}:                                                                                   1,
		}, sums)
		time.Sleep(time.Minute)
		require.NoError(t, b.Do(t.Context(), failing(nil)))
		require.NoError(t, b.Do(t.Context(), failing(nil)))
		synctest.Wait()
		sums, _ = collect(t, reader)
		require.Equal(t, 1.0, sums[series{"backoff.breaker.state 1", "backoff.breaker.state=closed,backoff.operation=search"}])
		require.Equal(t, 0.0, sums[series{"backoff.breaker.state 1", "backoff.breaker.state=open,backoff.operation=search"}])
	})
}

func TestHedgesAndReconnectsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer, reader := observing()
		h := &hedge.Hedge{Name: "read", MaxAttempts: 3, Delay: time.Second, MaxExtraLoad: -1, Observer: observer}
		_, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
			if hedge.Number(ctx) == 1 {
				time.Sleep(1500 * time.Millisecond)
				return 1, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}, nil)
		require.NoError(t, err)
		policy := backoff.Policy{Name: "watch", Observer: observer}
		require.Error(t, backoff.Supervisor{Policy: policy}.Run(t.Context(), failing(errBoom, errBoom, backoff.Permanent(errBoom))))
		sums, _ := collect(t, reader)
		require.Equal(t, 1.0, sums[series{"backoff.hedges {hedge}", "backoff.operation=read,backoff.outcome=won"}])
		require.Equal(t, 1.0, sums[series{"backoff.hedges {hedge}", "backoff.operation=read,backoff.outcome=lost"}])
		require.Equal(t, 2.0, sums[series{"backoff.reconnects {reconnect}", "backoff.class=unknown,backoff.operation=watch,error.type=*errors.errorString"}])
	})
}

func TestABudgetIsReadWhenMetricsAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mp, reader := metering()
		var budget backoff.RetryBudget
		watch, err := backoffotel.WatchBudget(mp, "fetch", &budget)
		require.NoError(t, err)
		policy := backoff.Policy{Name: "fetch", Budget: &budget, Observer: backoffotel.Metrics(mp)}
		for range 100 {
			require.NoError(t, policy.Do(t.Context(), failing(nil)))
		}
		require.NoError(t, policy.Do(t.Context(), failing(errBoom, nil)))
		sums, _ := collect(t, reader)
		allowed, used := series{"backoff.budget.allowed {retry}", "backoff.operation=fetch"}, series{"backoff.budget.used {retry}", "backoff.operation=fetch"}
		require.EqualValues(t, budget.Stats().Allowed, sums[allowed])
		require.Positive(t, sums[allowed])
		require.Equal(t, 1.0, sums[used])
		require.NoError(t, watch.Unregister())
		sums, _ = collect(t, reader)
		require.NotContains(t, sums, allowed)
	})
}

func TestABudgetThatIsNoneIsRefused(t *testing.T) {
	mp, _ := metering()
	_, err := backoffotel.WatchBudget(mp, "fetch", nil)
	require.EqualError(t, err, "backoff: RetryBudget is nil")
	_, err = backoffotel.WatchBudget(mp, "fetch", &backoff.RetryBudget{Floor: -1})
	require.ErrorContains(t, err, "RetryBudget.Floor")
}

func TestACallThatItsServiceRefusedFailedForTheReasonOpen(t *testing.T) {
	observer, reader := observing()
	breaker := &backoff.Breaker{Name: "db", Observer: observer}
	breaker.Force(backoff.ModeForcedOpen)
	service, policy := &guard.Service{Breaker: breaker}, backoff.Policy{Name: "fetch", Observer: observer}
	require.ErrorIs(t, service.Do(t.Context(), policy, failing(nil)), backoff.ErrOpen)
	sums, counts := collect(t, reader)
	require.Equal(t, 1.0, sums[series{"backoff.refusals {refusal}", "backoff.operation=db,backoff.reason=open"}])
	failed := series{"backoff.call.attempts {attempt}", "backoff.operation=fetch,backoff.outcome=failed,backoff.reason=open,error.type=*backoff.OpenError"}
	require.Equal(t, 1.0, counts[failed], "%v", counts)
	require.Zero(t, sums[failed])
}

// A policy that waits for a breaker reports each refusal, too.
func TestARefusalIsCountedOnceWhereThePolicyWaitsForTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer, reader := observing()
		breaker := &backoff.Breaker{Name: "db", ConsecutiveFailures: 1, ConsecutiveSpan: -1, Observer: observer}
		policy := backoff.Policy{Name: "fetch", Observer: observer}
		op := failing(errBoom, nil)
		require.NoError(t, policy.Do(t.Context(), func(ctx context.Context) error {
			return backoff.OfClass(breaker.Do(ctx, op), backoff.ClassRetryable)
		}))
		sums, counts := collect(t, reader)
		const refusals, attempts = "backoff.refusals {refusal}", "backoff.call.attempts {attempt}"
		require.Equal(t, 1.0, sums[series{refusals, "backoff.operation=db,backoff.reason=open"}])
		require.NotContains(t, sums, series{refusals, "backoff.operation=fetch,backoff.reason=open"})
		require.Equal(t, 1.0, counts[series{attempts, "backoff.operation=fetch,backoff.outcome=retried"}])
	})
}

// After Run.Progress the attempts are counted from 1 again.
func TestACallThatMadeProgressBetweenItsAttemptsWasRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mp, reader := metering()
		policy := backoff.Policy{Name: "copy", Schedule: backoff.Constant(time.Second), Observer: backoffotel.Metrics(mp)}
		run := policy.Start(t.Context())
		for range run.Attempts() {
			if run.Attempt() == 2 {
				run.Progress()
				break
			}
			run.Fail(errBoom)
		}
		require.NoError(t, run.Err())
		_, counts := collect(t, reader)
		require.Equal(t, 1.0, counts[series{"backoff.call.attempts {attempt}", "backoff.operation=copy,backoff.outcome=retried"}])
	})
}

// The memory for calls that succeed at once is bounded, but all of them are
// counted.
func TestManyOperationsAreCountedAllTheSame(t *testing.T) {
	reader := metric.NewManualReader(metric.WithCardinalityLimitSelector(func(metric.InstrumentKind) (int, bool) { return 0, true }))
	observe := backoffotel.Metrics(metric.NewMeterProvider(metric.WithReader(reader)))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 1500 {
				observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: fmt.Sprint(i), Attempt: 1})
			}
		})
	}
	group.Wait()
	_, counts := collect(t, reader)
	require.Len(t, counts, 1500)
	for s, n := range counts {
		require.Equal(t, 4.0, n, s)
	}
}

func TestASuccessAtOnceAllocatesNothing(t *testing.T) {
	mp, _ := metering()
	observe := backoff.JoinObservers(backoffotel.Metrics(mp), backoffotel.SpanEvents)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		observe(context.Background(), backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
	}))
}

func TestTheGlobalProviderIsTheDefault(t *testing.T) {
	before := otel.GetMeterProvider()
	defer otel.SetMeterProvider(before)
	mp, reader := metering()
	otel.SetMeterProvider(mp)
	backoffotel.Metrics(nil)(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
	sums, _ := collect(t, reader)
	require.Len(t, sums, 1)
}

func BenchmarkMetrics(b *testing.B) {
	mp, _ := metering()
	for name, observer := range map[string]backoff.Observer{"sdk": backoffotel.Metrics(mp), "noop": backoffotel.Metrics(noop.NewMeterProvider()), "events": backoffotel.SpanEvents} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				observer(context.Background(), backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
			}
		})
	}
}
