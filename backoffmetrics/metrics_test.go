package backoffmetrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
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
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/snapshot"
	"github.com/gobackoff/backoff/pace"
)

var errDown = backoff.OfClass(errors.New("down"), backoff.ClassRetryable)

// scrape returns what Prometheus would get, by series.
func scrape(t *testing.T, m *backoffmetrics.Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", w.Header().Get("Content-Type"))
	series := make(map[string]float64)
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[end:]), 64)
		require.NoError(t, err, line)
		_, twice := series[line[:end]]
		require.False(t, twice, line)
		series[line[:end]] = value
	}
	return series
}

// requireSeries compares some series with their expected values.
func requireSeries(t *testing.T, m *backoffmetrics.Metrics, want map[string]float64) {
	t.Helper()
	got := scrape(t, m)
	for series, value := range want {
		is, ok := got[series]
		require.True(t, ok, "there is no "+series)
		require.InDelta(t, value, is, 1e-9, series)
	}
}

// failing returns an operation that fails the given number of times, then
// succeeds.
func failing(times int) func(context.Context) error {
	return func(context.Context) error {
		if times--; times >= 0 {
			return errDown
		}
		return nil
	}
}

// refusing is a budget that refuses every attempt from a number on.
type refusing struct {
	backoff.BudgetDefaults

	from int
}

func (r refusing) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, a.Number < r.from
}

func TestCallsAreSplitByHowTheyEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m backoffmetrics.Metrics
		p := &backoff.Policy{Name: "fetch", Observer: m.Observe, MaxAttempts: 3}
		for _, failures := range []int{0, 0, 0, 1, 2, 9} {
			_ = p.Do(t.Context(), failing(failures))
		}
		require.Error(t, p.Do(t.Context(), func(context.Context) error { return backoff.Permanent(errDown) }))
		requireSeries(t, &m, map[string]float64{
			`backoff_calls_total{operation="fetch",outcome="first"}`:             3,
			`backoff_calls_total{operation="fetch",outcome="retried"}`:           2,
			`backoff_calls_total{operation="fetch",outcome="failed"}`:            2,
			`backoff_attempts_total{operation="fetch"}`:                          3 + 2 + 3 + 3 + 1,
			`backoff_retries_total{operation="fetch",class="retryable"}`:         1 + 2 + 2,
			`backoff_failed_attempts_total{operation="fetch",class="retryable"}`: 1 + 2 + 3,
			`backoff_failed_attempts_total{operation="fetch",class="permanent"}`: 1,
			`backoff_failures_total{operation="fetch",reason="attempts"}`:        1,
			`backoff_failures_total{operation="fetch",reason="permanent"}`:       1,
			`backoff_attempts_per_call_bucket{operation="fetch",le="0"}`:         0,
			`backoff_attempts_per_call_bucket{operation="fetch",le="1"}`:         4,
			`backoff_attempts_per_call_bucket{operation="fetch",le="2"}`:         5,
			`backoff_attempts_per_call_bucket{operation="fetch",le="3"}`:         7,
			`backoff_attempts_per_call_bucket{operation="fetch",le="+Inf"}`:      7,
			`backoff_attempts_per_call_sum{operation="fetch"}`:                   12,
			`backoff_attempts_per_call_count{operation="fetch"}`:                 7,
			`backoff_refusals_total{operation="fetch",of="retry"}`:               0,
			`backoff_reconnects_total{operation="fetch"}`:                        0,
		})
	})
}

func TestDelaysWaitsAndSleepsAreDistributions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m backoffmetrics.Metrics
		p := &backoff.Policy{Name: "fetch", Observer: m.Observe, Rand: func() float64 { return 0.25 },
			Schedule: backoff.Constant(200 * time.Millisecond)}
		require.NoError(t, p.Do(t.Context(), failing(2)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(10*time.Millisecond, cancel) // in the sleep of 50 ms
		require.ErrorIs(t, p.Do(ctx, failing(1)), context.Canceled)
		requireSeries(t, &m, map[string]float64{
			`backoff_delay_seconds_bucket{operation="fetch",le="0.1"}`:  0,
			`backoff_delay_seconds_bucket{operation="fetch",le="0.2"}`:  3,
			`backoff_delay_seconds_sum{operation="fetch"}`:              0.6,
			`backoff_wait_seconds_bucket{operation="fetch",le="0.025"}`: 0,
			`backoff_wait_seconds_bucket{operation="fetch",le="0.05"}`:  3,
			`backoff_wait_seconds_sum{operation="fetch"}`:               0.15,
			`backoff_slept_seconds_bucket{operation="fetch",le="0.01"}`: 1,
			`backoff_slept_seconds_bucket{operation="fetch",le="0.05"}`: 3,
			`backoff_slept_seconds_sum{operation="fetch"}`:              0.11,
			`backoff_attempts_total{operation="fetch"}`:                 4,
		})
	})
}

func TestABreakerIsCountedByItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m backoffmetrics.Metrics
		b := &backoff.Breaker{Name: "search", Observer: m.Observe, ConsecutiveFailures: 2, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		is := func(closed, open, halfOpen float64) {
			t.Helper()
			requireSeries(t, &m, map[string]float64{
				`backoff_breaker_state{breaker="search",state="closed"}`:    closed,
				`backoff_breaker_state{breaker="search",state="open"}`:      open,
				`backoff_breaker_state{breaker="search",state="half-open"}`: halfOpen,
			})
		}
		for range 2 {
			require.Error(t, b.Do(t.Context(), failing(1)))
		}
		is(0, 1, 0)
		require.ErrorIs(t, b.Do(t.Context(), failing(0)), backoff.ErrOpen)
		time.Sleep(time.Second)
		require.NoError(t, b.Do(t.Context(), failing(0)))
		is(0, 0, 1)
		require.NoError(t, b.Do(t.Context(), failing(0)))
		is(1, 0, 0)
		requireSeries(t, &m, map[string]float64{
			`backoff_breaker_transitions_total{breaker="search",from="closed",to="open",trigger="consecutive"}`: 1,
			`backoff_breaker_transitions_total{breaker="search",from="open",to="half-open",trigger="time"}`:     1,
			`backoff_breaker_transitions_total{breaker="search",from="half-open",to="closed",trigger="probe"}`:  1,
			`backoff_breaker_refusals_total{breaker="search"}`:                                                  1,
		})
	})
}

func TestABreakerIsClosedUntilItSaysOtherwise(t *testing.T) {
	var m backoffmetrics.Metrics
	b := &backoff.Breaker{Name: "search", Observer: m.Observe, FailureRate: math.NaN()}
	require.Error(t, b.Do(t.Context(), failing(0)))
	requireSeries(t, &m, map[string]float64{
		`backoff_breaker_state{breaker="search",state="closed"}`: 1,
		`backoff_breaker_refusals_total{breaker="search"}`:       1,
	})
}

func TestABudgetIsReadWithTheSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m backoffmetrics.Metrics
		budget := &backoff.RetryBudget{}
		m.WatchBudget("search", budget)
		p := &backoff.Policy{Name: "fetch", Observer: m.Observe, Budget: budget}
		for range 100 {
			require.NoError(t, p.Do(t.Context(), failing(0)))
		}
		require.NoError(t, p.Do(t.Context(), failing(2)))
		requireSeries(t, &m, map[string]float64{
			`backoff_budget_successes{budget="search"}`: 101,
			`backoff_budget_retries{budget="search"}`:   2,
			`backoff_budget_allowed{budget="search"}`:   12 + 3 + 3, // and what the retry paid that succeeded
		})
		time.Sleep(time.Minute)
		requireSeries(t, &m, map[string]float64{`backoff_budget_successes{budget="search"}`: 0})
		m.WatchBudget("search", nil)
		require.NotContains(t, scrape(t, &m), `backoff_budget_successes{budget="search"}`)
	})
}

func TestRefusalsAreCountedByWhatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m backoffmetrics.Metrics
		for from, name := range map[int]string{1: "call", 2: "retry"} {
			p := &backoff.Policy{Name: name, Observer: m.Observe, Budget: refusing{from: from}}
			require.ErrorIs(t, p.Do(t.Context(), failing(9)), backoff.ErrBudget)
		}
		hedged := &hedge.Hedge{Name: "hedge", Observer: m.Observe, Delay: time.Second, Budget: refusing{from: 2}}
		_, err := hedge.Value(t.Context(), hedged, func(context.Context) (int, error) { time.Sleep(time.Minute); return 0, nil }, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		loop := backoff.Policy{Name: "run", Observer: m.Observe, Schedule: backoff.Constant(40 * time.Second), Jitter: backoff.NoJitter, Budget: refusing{from: 2}}
		require.Error(t, backoff.Supervisor{Policy: loop}.Run(ctx, failing(9)))
		for _, what := range []string{"call", "retry", "hedge", "run"} {
			for _, of := range []string{"call", "retry", "hedge", "run"} {
				want := 0.0
				if of == what {
					want = 1
				}
				requireSeries(t, &m, map[string]float64{`backoff_refusals_total{operation="` + what + `",of="` + of + `"}`: want})
			}
		}
		requireSeries(t, &m, map[string]float64{
			`backoff_attempts_total{operation="call"}`:                           0,
			`backoff_attempts_per_call_bucket{operation="call",le="0"}`:          1,
			`backoff_calls_total{operation="hedge",outcome="first"}`:             1,
			`backoff_failures_total{operation="retry",reason="budget"}`:          1,
			`backoff_calls_total{operation="retry",outcome="failed"}`:            1,
			`backoff_failed_attempts_total{operation="retry",class="retryable"}`: 1,
		})
	})
}

func TestHedgesAreExtraLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m backoffmetrics.Metrics
		h := &hedge.Hedge{Name: "read", Observer: m.Observe, Delay: time.Second, MaxAttempts: 3, MaxExtraLoad: -1}
		slow := func(attempts ...time.Duration) {
			_, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
				select {
				case <-time.After(attempts[hedge.Number(ctx)]):
				case <-ctx.Done():
				}
				return 0, ctx.Err()
			}, nil)
			require.NoError(t, err)
		}
		slow(time.Millisecond)
		slow(time.Minute, time.Minute, time.Second)
		slow(1500*time.Millisecond, time.Minute)
		requireSeries(t, &m, map[string]float64{
			`backoff_calls_total{operation="read",outcome="first"}`:   1,
			`backoff_calls_total{operation="read",outcome="retried"}`: 2,
			`backoff_hedges_total{operation="read",result="won"}`:     1,
			`backoff_hedges_total{operation="read",result="lost"}`:    2,
			`backoff_attempts_total{operation="read"}`:                6,
		})
	})
}

func TestReconnectsAreNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m backoffmetrics.Metrics
		p := backoff.Policy{Name: "feed", Observer: m.Observe}
		require.Error(t, backoff.Supervisor{Policy: p, MaxRuns: 4}.Run(t.Context(), failing(9)))
		requireSeries(t, &m, map[string]float64{
			`backoff_reconnects_total{operation="feed"}`:                 3,
			`backoff_attempts_total{operation="feed"}`:                   1,
			`backoff_wait_seconds_count{operation="feed"}`:               3,
			`backoff_calls_total{operation="feed",outcome="failed"}`:     1,
			`backoff_failures_total{operation="feed",reason="attempts"}`: 1,
		})
	})
}

// What a server sends is never a label: the server would decide on the number of
// series, and the secrets in errors would be shown.
func TestNothingOfAResponseBecomesASeries(t *testing.T) {
	var m backoffmetrics.Metrics
	header := map[string][]string{"X-Amzn-Requestid": {"secret-1"}}
	heard := 0
	count := backoff.JoinObservers(m.Observe, func(_ context.Context, e backoff.Event) {
		if e.Header["X-Amzn-Requestid"] != nil {
			heard++
		}
	})
	p := &backoff.Policy{Name: "fetch", Schedule: backoff.Constant(0), Observer: count}
	require.Error(t, p.Do(t.Context(), func(context.Context) error { return answer(header) }))
	require.Equal(t, 4, heard)
	for series := range scrape(t, &m) {
		require.NotContains(t, series, "secret")
	}
	require.NotContains(t, m.String(), "secret")
}

// answer is an error with response headers.
type answer map[string][]string

func (a answer) Error() string                       { return "secret-2" }
func (a answer) ResponseHeader() map[string][]string { return a }

func TestEveryReasonIsASeries(t *testing.T) {
	var m backoffmetrics.Metrics
	want := map[string]float64{}
	for reason := backoff.ReasonPermanent; reason <= backoff.ReasonInvalid; reason++ {
		for range reason {
			m.Observe(t.Context(), backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Reason: reason})
		}
		want[`backoff_failures_total{operation="fetch",reason="`+reason.String()+`"}`] = float64(reason)
	}
	requireSeries(t, &m, want)
	require.Len(t, want, 12)
}

// After Run.Progress the count of attempts starts again, but the sleep still
// counts.
func TestASuccessAfterASleepIsNoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m backoffmetrics.Metrics
		r := (&backoff.Policy{Name: "copy", Observer: m.Observe, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}).Start(t.Context())
		for range r.Attempts() {
			n := r.Attempt()
			if n > 1 {
				r.Progress()
				break
			}
			r.Fail(errDown)
		}
		require.NoError(t, r.Err())
		requireSeries(t, &m, map[string]float64{
			`backoff_calls_total{operation="copy",outcome="first"}`:   0,
			`backoff_calls_total{operation="copy",outcome="retried"}`: 1,
			`backoff_slept_seconds_sum{operation="copy"}`:             1,
			`backoff_attempts_total{operation="copy"}`:                2,
		})
	})
}

// Of a Pacer that slows calls down, most calls wait, and are not retried.
func TestACallThatWaitedForItsTurnSucceedsAtItsFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m backoffmetrics.Metrics
		throttled := backoff.OfClass(errDown, backoff.ClassThrottled)
		p := backoff.Policy{Name: "search", Observer: m.Observe, Budget: new(pace.Pacer), MaxAttempts: 1}
		require.Error(t, p.Do(t.Context(), func(context.Context) error { return throttled }))
		began := time.Now()
		for range 3 {
			require.NoError(t, p.Do(t.Context(), failing(0)))
		}
		require.Greater(t, time.Since(began), time.Second, "they wait")
		requireSeries(t, &m, map[string]float64{
			`backoff_calls_total{operation="search",outcome="first"}`:   3,
			`backoff_calls_total{operation="search",outcome="retried"}`: 0,
			`backoff_attempts_total{operation="search"}`:                4,
			`backoff_attempts_per_call_count{operation="search"}`:       4,
			`backoff_slept_seconds_count{operation="search"}`:           3,
		})
	})
}

func TestNothingIsLostWhenManyCount(t *testing.T) {
	var m backoffmetrics.Metrics
	p := &backoff.Policy{Name: "fetch", Observer: m.Observe, Schedule: backoff.Constant(0), MaxAttempts: 2}
	const each = 2000
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range each {
				_ = p.Do(context.Background(), failing(n%4/2*2)) // half succeed at once
			}
		})
	}
	last := 0.0
	for range 20 {
		got := scrape(t, &m)[`backoff_attempts_total{operation="fetch"}`]
		require.GreaterOrEqual(t, got, last)
		last = got
		_ = m.String()
	}
	all.Wait()
	requireSeries(t, &m, map[string]float64{
		`backoff_calls_total{operation="fetch",outcome="first"}`:  8 * each / 2,
		`backoff_calls_total{operation="fetch",outcome="failed"}`: 8 * each / 2,
		`backoff_attempts_total{operation="fetch"}`:               8 * each * 3 / 2,
	})
}

func TestARefusalThatACallWaitsForIsCountedByTheBreakerAlone(t *testing.T) {
	var m backoffmetrics.Metrics
	m.Observe(t.Context(), backoff.Event{Kind: backoff.EventRefused, Name: "db", Reason: backoff.ReasonOpen})
	m.Observe(t.Context(), backoff.Event{Kind: backoff.EventRefused, Name: "db", Reason: backoff.ReasonOpen, Attempt: 1, Wait: 1})
	requireSeries(t, &m, map[string]float64{`backoff_breaker_refusals_total{breaker="db"}`: 1})
}

func TestNamesBeyondTheLimitAreCountedTogether(t *testing.T) {
	m := backoffmetrics.Metrics{MaxNames: 2}
	for n := range 1000 {
		name := "tenant " + strconv.Itoa(n)
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: name, Attempt: 1})
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventRefused, Name: name, Reason: backoff.ReasonOpen})
	}
	requireSeries(t, &m, map[string]float64{
		`backoff_attempts_total{operation="tenant 0"}`:       1,
		`backoff_attempts_total{operation="tenant 1"}`:       1,
		`backoff_attempts_total{operation="other"}`:          998,
		`backoff_breaker_refusals_total{breaker="tenant 1"}`: 1,
		`backoff_breaker_refusals_total{breaker="other"}`:    998,
	})
	require.NotContains(t, m.String(), "tenant 2")
}

func TestWithoutALimitEveryNameCounts(t *testing.T) {
	m := backoffmetrics.Metrics{MaxNames: -1}
	for n := range 300 {
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: strconv.Itoa(n), Attempt: 1})
	}
	require.NotContains(t, m.String(), "other")
}

func TestNamesThatCannotBeShownAreReplaced(t *testing.T) {
	var m backoffmetrics.Metrics
	for name, label := range map[string]string{
		"":                       "unnamed",
		"unnamed":                "unnamed",
		"a\xffb":                 "a\uFFFDb",
		"a\xfeb":                 "a\uFFFDb",
		strings.Repeat("n", 201): "other",
		"other":                  "other",
		"q\"\\\n{}":              `q\"\\\n{}`,
	} {
		for range 2 {
			m.Observe(t.Context(), backoff.Event{Kind: backoff.EventSuccess, Name: name, Attempt: 1})
		}
		require.Contains(t, scrape(t, &m), `backoff_attempts_total{operation="`+label+`"}`)
	}
	requireSeries(t, &m, map[string]float64{
		`backoff_attempts_total{operation="unnamed"}`:            4,
		`backoff_attempts_total{operation="other"}`:              4,
		`backoff_attempts_total{operation="a` + "\uFFFD" + `b"}`: 4,
	})
}

// Whatever made a circuit open, the breaker is shown as open.
func TestATransitionIsCountedWhateverTriggeredIt(t *testing.T) {
	for _, trigger := range snapshot.Triggers {
		var m backoffmetrics.Metrics
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventTransition, Name: "db", Transition: &backoff.BreakerTransition{
			Name: "db", To: backoff.BreakerOpen, Trigger: trigger, At: time.Now(),
		}})
		requireSeries(t, &m, map[string]float64{
			`backoff_breaker_transitions_total{breaker="db",from="closed",to="open",trigger="` + trigger + `"}`: 1,
			`backoff_breaker_state{breaker="db",state="open"}`:                                                  1,
		})
	}
}

// Values that this version does not know are left out, and do no harm.
func TestEventsOfAnotherVersionDoNoHarm(t *testing.T) {
	var m backoffmetrics.Metrics
	for _, e := range []backoff.Event{
		{Kind: 99}, {Kind: backoff.EventTransition}, {Kind: backoff.EventGiveUp, Reason: 99, Class: 99, Attempt: -1},
		{Kind: backoff.EventTransition, Transition: &backoff.BreakerTransition{To: 99}},
		{Kind: backoff.EventRetry, Class: 99, Delay: math.MaxInt64, Wait: -1, Slept: math.MaxInt64},
		{Kind: backoff.EventRetry, Delay: math.MaxInt64, Wait: math.MaxInt64, Slept: math.MaxInt64},
	} {
		e.Name = "fetch"
		require.NotPanics(t, func() { m.Observe(t.Context(), e) })
	}
	requireSeries(t, &m, map[string]float64{`backoff_slept_seconds_bucket{operation="fetch",le="+Inf"}`: 2})
	require.Greater(t, scrape(t, &m)[`backoff_delay_seconds_sum{operation="fetch"}`], 1e10)
}

func TestAMetricsIsAVariableOfExpvar(t *testing.T) {
	var m backoffmetrics.Metrics
	budget := &backoff.RetryBudget{}
	m.WatchBudget("search", budget)
	p := &backoff.Policy{Name: "fetch", Schedule: backoff.Constant(0), Observer: m.Observe, Budget: budget}
	require.NoError(t, p.Do(t.Context(), failing(1)))
	b := &backoff.Breaker{Name: "search", Observer: m.Observe}
	b.Trip()
	var variable expvar.Var = &m // Publish would panic if the test ran again
	var got map[string]float64
	require.NoError(t, json.Unmarshal([]byte(variable.String()), &got))
	all := scrape(t, &m)
	require.Subset(t, all, got)
	maps.DeleteFunc(all, func(series string, _ float64) bool { return strings.Contains(series, "_bucket{") })
	require.Len(t, got, len(all))
}

func ExampleMetrics_WatchBudget() {
	var metrics backoffmetrics.Metrics
	budget := &backoff.RetryBudget{}
	metrics.WatchBudget("search", budget)

	policy := backoff.Policy{Name: "search", Budget: budget, Observer: metrics.Observe}
	for range 50 {
		_ = policy.Do(context.Background(), func(context.Context) error { return nil })
	}
	for _, family := range metrics.Families() {
		if family.Name == "backoff_budget_allowed" {
			fmt.Println(family.Name, family.Samples[0].Labels, family.Samples[0].Value)
		}
	}
	// Output: backoff_budget_allowed [budget search] 9
}

func ExampleMetrics_String() {
	var metrics backoffmetrics.Metrics
	expvar.Publish("retries", &metrics)

	policy := backoff.Policy{Name: "fetch", Observer: metrics.Observe}
	_ = policy.Do(context.Background(), func(context.Context) error { return nil })

	var values map[string]float64
	_ = json.Unmarshal([]byte(expvar.Get("retries").String()), &values)
	fmt.Println(values[`backoff_attempts_total{operation="fetch"}`])
	// Output: 1
}

func ExampleMetrics_WatchServices() {
	var metrics backoffmetrics.Metrics
	shards := &guard.Services{MaxKeys: 2}
	metrics.WatchServices("shards", shards)
	for _, shard := range []string{"a", "b", "c"} {
		shards.For(shard)
	}
	fmt.Println(shards.Evictions())
	// Output: 1
}

type operation = func(context.Context) error

// waiting is an operation for whose circuit the policy around it waits.
func waiting(op operation) operation {
	return func(ctx context.Context) error {
		err := op(ctx)
		if errors.Is(err, backoff.ErrOpen) {
			return backoff.OfClass(err, backoff.ClassRetryable)
		}
		return err
	}
}

// refusedCalls returns how many calls failed because a circuit was open.
func refusedCalls(t *testing.T, m *backoffmetrics.Metrics, operation string) float64 {
	t.Helper()
	return scrape(t, m)["backoff_failures_total{"+operation+`,reason="open"}`]
}

// A refused call is a call that failed, wherever the breaker is. Each composition gets
// 20 calls that fail, after which its breaker is open, and 30 more.
func TestRefusedCallsAreCallsInEveryComposition(t *testing.T) {
	type guards struct {
		service       guard.Service // has orders
		orders, stock *backoff.Breaker
		policy        backoff.Policy
	}
	for name, c := range map[string]struct {
		call             func(g *guards, ctx context.Context, op operation) error
		refuse, attempts int
	}{
		"breaker outside":    {func(g *guards, ctx context.Context, op operation) error { return g.service.Do(ctx, g.policy, op) }, 30, 40},
		"breaker inside":     {func(g *guards, ctx context.Context, op operation) error { return g.policy.Do(ctx, g.orders.Wrap(op)) }, 40, 20},
		"another one inside": {func(g *guards, ctx context.Context, op operation) error { return g.policy.Do(ctx, g.stock.Wrap(op)) }, 40, 20},
		"both": {func(g *guards, ctx context.Context, op operation) error {
			return g.service.Do(ctx, g.policy, g.stock.Wrap(op))
		}, 40, 20},
		"inside, which waits": {func(g *guards, ctx context.Context, op operation) error {
			return g.policy.Do(ctx, waiting(g.orders.Wrap(op)))
		}, 0, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m backoffmetrics.Metrics
				breaker := func(name string) *backoff.Breaker {
					return &backoff.Breaker{Name: name, Observer: m.Observe, MinCalls: 20, ConsecutiveFailures: -1, OpenFor: backoff.Constant(time.Hour)}
				}
				policy := backoff.Policy{Name: "orders", Observer: m.Observe, MaxAttempts: 2, Schedule: backoff.Constant(time.Millisecond), MaxElapsed: 2 * time.Hour}
				g := &guards{orders: breaker("orders"), stock: breaker("stock"), policy: policy}
				g.service.Breaker, g.service.NoBudget, g.service.FailFast = g.orders, true, true
				refused, attempts := 0, 0
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					err := c.call(g, ctx, func(context.Context) error { attempts++; return errDown })
					cancel()
					if errors.Is(err, backoff.ErrOpen) {
						refused++
					}
				}
				require.Equal(t, c.attempts, attempts)
				require.EqualValues(t, c.refuse, refusedCalls(t, &m, `operation="orders"`))
				if c.refuse > 0 {
					require.Equal(t, c.refuse, refused)
				}
				requireSeries(t, &m, map[string]float64{
					`backoff_calls_total{operation="orders",outcome="failed"}`: 50, `backoff_attempts_per_call_count{operation="orders"}`: 50,
					`backoff_attempts_total{operation="orders"}`: float64(attempts),
				})
			})
		})
	}
}

func TestRefusedCallsBelongToTheEndpointOfTheirContext(t *testing.T) {
	var m backoffmetrics.Metrics
	a, b := &endpoint.Endpoint{Name: "GET a"}, &endpoint.Endpoint{Name: "GET b"}
	breaker := &backoff.Breaker{Name: "orders", Observer: m.Observe}
	breaker.Trip()
	policy := backoff.Policy{Name: "orders", Observer: m.Observe}
	service := guard.Service{Breaker: breaker, FailFast: true}
	for _, to := range []*endpoint.Endpoint{a, b} {
		require.NoError(t, policy.Do(endpoint.With(t.Context(), to), failing(0)))
	}
	for range 3 {
		require.Error(t, service.Do(endpoint.With(t.Context(), b), policy, failing(0)))
	}
	require.Zero(t, refusedCalls(t, &m, `operation="orders",endpoint="GET a"`))
	require.EqualValues(t, 3, refusedCalls(t, &m, `operation="orders",endpoint="GET b"`))
}

// A Transport reports its refused calls itself, and so may its breakers.
func TestARefusedRequestIsOneCall(t *testing.T) {
	for name, services := range map[string]func(m *backoffmetrics.Metrics) *guard.Services{
		"its own": func(*backoffmetrics.Metrics) *guard.Services { return nil },
		"with an observer": func(m *backoffmetrics.Metrics) *guard.Services {
			return &guard.Services{New: func(string) *guard.Service { return &guard.Service{Name: "search", Observer: m.Observe} }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.NotFoundHandler())
			server.Close() // a refused connection
			var m backoffmetrics.Metrics
			policy := backoff.Policy{Name: "search", MaxAttempts: 1, Observer: m.Observe}
			transport := &backoffhttp.Transport{Policy: policy, Services: services(&m), FailFast: true}
			client := &http.Client{Transport: transport}
			refused := 0
			for range 30 { // for more than the second in which all calls must fail
				time.Sleep(50 * time.Millisecond)
				_, err := client.Get(server.URL)
				require.Error(t, err)
				if errors.Is(err, backoff.ErrOpen) {
					refused++
				}
			}
			require.Positive(t, refused)
			at := `operation="search",endpoint="GET ` + strings.TrimPrefix(server.URL, "http://") + `"`
			require.EqualValues(t, refused, refusedCalls(t, &m, at))
			requireSeries(t, &m, map[string]float64{`backoff_calls_total{` + at + `,outcome="failed"}`: 30})
			for _, breaker := range []string{server.URL, "search"} {
				if of, ok := scrape(t, &m)[`backoff_breaker_refusals_total{breaker="`+breaker+`"}`]; ok {
					require.EqualValues(t, refused, of, "the breaker has refused them")
				}
			}
		})
	}
}

func ExampleMetrics() {
	var metrics backoffmetrics.Metrics
	policy := backoff.Policy{Name: "fetch", Schedule: backoff.Constant(0), Observer: metrics.Observe}

	attempts := 0
	_ = policy.Do(context.Background(), func(context.Context) error {
		if attempts++; attempts < 3 {
			return errors.New("not yet")
		}
		return nil
	})

	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "backoff_calls_total") || strings.HasPrefix(line, "backoff_attempts_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// backoff_calls_total{operation="fetch",outcome="first"} 0
	// backoff_calls_total{operation="fetch",outcome="retried"} 1
	// backoff_calls_total{operation="fetch",outcome="failed"} 0
	// backoff_attempts_total{operation="fetch"} 3
}

func ExampleFamily() {
	var metrics backoffmetrics.Metrics
	policy := backoff.Policy{Name: "search", Observer: metrics.Observe}
	_ = policy.Do(context.Background(), func(context.Context) error { return nil })

	for _, family := range metrics.Families() {
		if family.Name == "backoff_attempts_total" {
			fmt.Println(family.Type, family.Help)
		}
	}
	// Output: counter Attempts that ended.
}

func ExampleSample() {
	var metrics backoffmetrics.Metrics
	policy := backoff.Policy{Name: "search", Observer: metrics.Observe}
	_ = policy.Do(context.Background(), func(context.Context) error { return nil })

	for _, family := range metrics.Families() {
		if family.Name == "backoff_calls_total" {
			for _, sample := range family.Samples {
				fmt.Println(sample.Labels, sample.Value)
			}
		}
	}
	// Output:
	// [operation search outcome first] 1
	// [operation search outcome retried] 0
	// [operation search outcome failed] 0
}

func ExampleMetrics_WatchFamily() {
	var metrics backoffmetrics.Metrics
	metrics.WatchFamily("build", func() backoffmetrics.Family {
		return backoffmetrics.Family{Name: "build_info", Type: "gauge", Help: "The version.", Labels: []string{"version"},
			Samples: []backoffmetrics.Sample{{Labels: []string{"version", "v1.2.3"}, Value: 1}}}
	})
	for _, family := range metrics.Families() {
		if family.Name == "build_info" {
			fmt.Println(family.Samples[0].Labels)
		}
	}
	// Output: [version v1.2.3]
}
