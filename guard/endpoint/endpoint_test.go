package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/endpoint"
)

var errDown = errors.New("down")

func TestAContextWithoutAnEndpointHasNone(t *testing.T) {
	require.Nil(t, endpoint.Of(context.Background()))
	require.Nil(t, endpoint.Of(endpoint.With(t.Context(), nil)))
	outer := endpoint.With(t.Context(), &endpoint.Endpoint{Name: "outer"})
	require.Nil(t, endpoint.Of(endpoint.With(outer, nil)), "a call to something else")
}

func TestAttemptsAreCountedByTheirResultAndDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to endpoint.Endpoint
		took := func(d time.Duration, result error) func(context.Context) error {
			return func(context.Context) error {
				time.Sleep(d)
				return result
			}
		}
		require.NoError(t, to.Do(t.Context(), took(20*time.Millisecond, nil)))
		require.NoError(t, to.Do(t.Context(), took(5*time.Millisecond, nil)))
		require.Equal(t, errDown, to.Do(t.Context(), took(2*time.Hour, errDown)))
		require.Panics(t, func() { _ = to.Do(t.Context(), func(context.Context) error { panic("broken") }) })

		a := to.Attempts()
		require.Zero(t, a.InFlight)
		require.EqualValues(t, 2, a.Succeeded.Count())
		require.InDelta(t, 0.025, a.Succeeded.Sum, 1e-9)
		require.EqualValues(t, 1, a.Succeeded.Counts[0], "a bound is part of its bucket")
		require.EqualValues(t, 1, a.Succeeded.Counts[2])
		require.EqualValues(t, 2, a.Failed.Count(), "one of them panicked")
		require.EqualValues(t, 1, a.Failed.Counts[len(endpoint.Bounds())])
	})
}

func TestAttemptsUnderWayAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to endpoint.Endpoint
		release := make(chan struct{})
		var all sync.WaitGroup
		for range 7 {
			all.Go(func() {
				_ = to.Do(t.Context(), func(context.Context) error { <-release; return nil })
			})
		}
		synctest.Wait()
		require.Equal(t, 7, to.Attempts().InFlight)
		close(release)
		all.Wait()
		require.Zero(t, to.Attempts().InFlight)
	})
}

func TestAQuantileIsInTheBucketOfItsDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to endpoint.Endpoint
		for i := range 100 {
			_ = to.Do(t.Context(), func(context.Context) error {
				time.Sleep(time.Duration(i+1) * 10 * time.Millisecond) // 10 ms to 1 s
				return nil
			})
		}
		d := to.Attempts().Succeeded
		for q, want := range map[float64]float64{0.05: 0.05, 0.1: 0.1, 0.25: 0.25, 0.5: 0.5, 0.95: 0.95, 1: 1} {
			require.InDelta(t, want, d.Quantile(q), 0.011, "%v", q)
		}
		require.InDelta(t, 0.005, d.Quantile(0), 0.0051)
		require.True(t, math.IsNaN(endpoint.Durations{Counts: make([]uint64, 18)}.Quantile(0.5)))
		require.True(t, math.IsNaN(endpoint.Durations{}.Quantile(0.5)))

		_ = to.Do(t.Context(), func(context.Context) error { time.Sleep(time.Hour); return errDown })
		require.InDelta(t, 300, to.Attempts().Failed.Quantile(0.5), 0, "all that is known")
	})
}

func TestMeasuringAnAttemptAllocatesNothing(t *testing.T) {
	var to endpoint.Endpoint
	ctx, op := t.Context(), func(context.Context) error { return nil }
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = to.Do(ctx, op) }))
	ctx = endpoint.With(ctx, &to)
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = endpoint.Of(ctx) }))
}

func TestAnEndpointMayBeUsedByManyGoroutines(t *testing.T) {
	var to endpoint.Endpoint
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				_ = to.Do(t.Context(), func(context.Context) error {
					if i%4 == 0 {
						return errDown
					}
					return nil
				})
				_ = to.Attempts()
			}
		})
	}
	all.Wait()
	a := to.Attempts()
	require.Zero(t, a.InFlight)
	require.EqualValues(t, 6000, a.Succeeded.Count())
	require.EqualValues(t, 2000, a.Failed.Count())
}

func ExampleEndpoint() {
	charges := &endpoint.Endpoint{Name: "POST pay.example.com/charges"}
	policy := backoff.Policy{
		Name:     "checkout",
		Schedule: backoff.Constant(0),
		Observer: func(ctx context.Context, e backoff.Event) {
			fmt.Printf("%s: %s: %s\n", e.Name, endpoint.Of(ctx).Name, e.Kind)
		},
	}
	failures := 1
	charge := func(context.Context) error {
		if failures--; failures >= 0 {
			return errors.New("down")
		}
		return nil
	}
	ctx := endpoint.With(context.Background(), charges)
	err := policy.Do(ctx, func(ctx context.Context) error { return charges.Do(ctx, charge) })
	fmt.Println(err)
	// Output:
	// checkout: POST pay.example.com/charges: retry
	// checkout: POST pay.example.com/charges: success
	// <nil>
}

func ExampleAttempts() {
	var charges endpoint.Endpoint
	_ = charges.Do(context.Background(), func(context.Context) error { return nil })
	a := charges.Attempts()
	fmt.Println(a.InFlight, "under way,", a.Succeeded.Count(), "succeeded,", a.Failed.Count(), "failed")
	// Output: 0 under way, 1 succeeded, 0 failed
}

func ExampleDurations() {
	var charges endpoint.Endpoint
	for range 100 {
		_ = charges.Do(context.Background(), func(context.Context) error { return nil })
	}
	fmt.Println("99 % within 5 ms:", charges.Attempts().Succeeded.Quantile(0.99) <= 0.005)
	// Output: 99 % within 5 ms: true
}

func TestTheSumOfManyLongAttemptsDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e endpoint.Endpoint
		var polls sync.WaitGroup
		for range 4000 { // in 1,000 lanes they take a year
			polls.Go(func() {
				_ = e.Do(t.Context(), func(context.Context) error { time.Sleep(90 * 24 * time.Hour); return nil })
			})
		}
		polls.Wait()
		require.InEpsilon(t, 4000*90*24*3600.0, e.Attempts().Succeeded.Sum, 1e-9)
	})
}
