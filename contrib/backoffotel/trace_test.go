package backoffotel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/contrib/backoffotel"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

func TestEveryFieldIsInTheSpanEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{Name: "fetch", MaxAttempts: 3, MaxElapsed: time.Hour, Rand: half, Schedule: backoff.Linear{Initial: 2 * time.Second}, Observer: backoffotel.SpanEvents}
		asked := backoff.RetryAfter(backoff.OfClass(throttled{}, backoff.ClassThrottled), time.Minute)
		events := eventsOf(t, func(ctx context.Context) {
			ctx = endpoint.With(ctx, &endpoint.Endpoint{Name: "GET a.test"})
			require.ErrorIs(t, policy.Do(ctx, failing(errBoom, asked, errBoom)), backoff.ErrExhausted)
			require.NoError(t, policy.Do(ctx, failing(nil)), "a success at once is no event")
			require.NoError(t, policy.Do(ctx, failing(errBoom, nil)))
		})
		require.Len(t, events, 5)
		require.NotContains(t, values(events[0].Attributes), "backoff.elapsed", "nobody measured the first attempt")
		require.Equal(t, "backoff.retry", events[1].Name)
		require.Equal(t, map[string]any{
			"backoff.operation": "fetch", "backoff.endpoint": "GET a.test", "backoff.attempt": int64(2), "backoff.max_attempts": int64(3), "http.request.resend_count": int64(2),
			"error.type": "429", "exception.message": "throttled by https://xxxxx@example.com/?key=xxxxx", "backoff.class": "throttled",
			"backoff.delay": 4.0, "backoff.wait": 63.0, "backoff.slept": 1.0, "backoff.elapsed": 1.0, "backoff.retry_after": 60.0,
			"http.response.header.retry-after": []string{"60"}, "http.response.header.x-amzn-requestid": []string{"7f1c"}, "http.response.header.grpc-status": []string{"8"},
		}, values(events[1].Attributes))
		require.Equal(t, "backoff.give_up", events[2].Name)
		require.Equal(t, map[string]any{
			"backoff.operation": "fetch", "backoff.endpoint": "GET a.test", "backoff.attempt": int64(3), "backoff.max_attempts": int64(3), "backoff.reason": "attempts",
			"error.type": "*errors.errorString", "exception.message": "boom", "backoff.class": "unknown", "backoff.slept": 63.0, "backoff.elapsed": 64.0,
		}, values(events[2].Attributes))
		require.Equal(t, "backoff.success", events[4].Name)
	})
}

func TestEveryReasonIsInAnEvent(t *testing.T) {
	var want, got []string
	events := eventsOf(t, func(ctx context.Context) {
		for why := backoff.ReasonPermanent; why.String() != "unknown"; why++ {
			backoffotel.SpanEvents(ctx, backoff.Event{Kind: backoff.EventGiveUp, Reason: why})
			want = append(want, why.String())
		}
	})
	for _, e := range events {
		got = append(got, values(e.Attributes)["backoff.reason"].(string))
	}
	require.Equal(t, want, got)
}

func TestRefusalsTransitionsAndHedgesAreEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Breaker{Name: "search", ConsecutiveFailures: 1, ConsecutiveSpan: -1, Observer: backoffotel.SpanEvents}
		events := eventsOf(t, func(ctx context.Context) {
			require.Error(t, b.Do(ctx, failing(throttled{}, errBoom)))
			require.Error(t, b.Do(ctx, failing(errBoom)))
			synctest.Wait()
			require.ErrorIs(t, b.Do(ctx, failing(nil)), backoff.ErrOpen)
			backoffotel.SpanEvents(ctx, backoff.Event{Kind: backoff.EventHedgeWon, Name: "read", Attempt: 2})
			backoffotel.SpanEvents(ctx, backoff.Event{Kind: backoff.EventGiveUp, Waiting: true})
		})
		require.Equal(t, "backoff.transition", events[0].Name)
		require.Equal(t, map[string]any{
			"backoff.operation": "search", "backoff.breaker.from": "closed", "backoff.breaker.to": "open", "backoff.breaker.trigger": "consecutive",
			"error.type": "*errors.errorString", "exception.message": "boom",
		}, values(events[0].Attributes))
		require.Equal(t, "backoff.refused", events[1].Name)
		require.Equal(t, "open", values(events[1].Attributes)["backoff.reason"])
		require.Equal(t, "backoff.hedge_won", events[2].Name)
		require.EqualValues(t, 1, values(events[2].Attributes)["backoff.hedge"])
		require.Equal(t, true, values(events[3].Attributes)["backoff.waiting"])
	})
}

// A call is a tree: its span, below it a span per attempt, and below these the
// spans of the operation.
func TestACallIsATreeOfSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tp, exporter := tracing()
		policy := backoff.Policy{Name: "search", MaxAttempts: 2, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Observer: backoffotel.SpanEvents}
		service := backoffotel.Trace(tp, "search", (&guard.Service{Name: "search", NoBudget: true}).With(policy))
		op := failing(throttled{}, errBoom)
		require.ErrorIs(t, service.Do(t.Context(), func(ctx context.Context) error {
			_, span := tp.Tracer("test").Start(ctx, "query")
			defer span.End()
			time.Sleep(10 * time.Millisecond)
			return op(ctx)
		}), backoff.ErrExhausted)

		spans := exporter.GetSpans()
		require.Equal(t, []string{"query", "search attempt", "query", "search attempt", "search"}, names(spans))
		call, first, second := spans[4], spans[1], spans[3]
		require.False(t, call.Parent.IsValid())
		for _, attempt := range []tracetest.SpanStub{first, second} {
			require.Equal(t, call.SpanContext.SpanID(), attempt.Parent.SpanID())
			require.Equal(t, 10*time.Millisecond, attempt.EndTime.Sub(attempt.StartTime))
			require.Equal(t, trace.SpanKindInternal, attempt.SpanKind)
		}
		require.Equal(t, second.SpanContext.SpanID(), spans[2].Parent.SpanID())
		require.Equal(t, map[string]any{"backoff.operation": "search", "backoff.attempt": int64(1), "error.type": "429", "backoff.class": "throttled"}, values(first.Attributes))
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "throttled by https://xxxxx@example.com/?key=xxxxx"}, first.Status)
		require.Equal(t, map[string]any{
			"backoff.operation": "search", "backoff.attempt": int64(2), "http.request.resend_count": int64(1), "backoff.slept": 1.0,
			"error.type": "*errors.errorString", "backoff.class": "unknown",
		}, values(second.Attributes))
		require.Equal(t, map[string]any{"backoff.operation": "search", "backoff.attempt": int64(2), "backoff.reason": "attempts", "error.type": "*errors.errorString"}, values(call.Attributes))
		require.Equal(t, codes.Error, call.Status.Code)
		require.Equal(t, []string{"backoff.retry", "backoff.give_up"}, []string{call.Events[0].Name, call.Events[1].Name})
	})
}

func names(spans tracetest.SpanStubs) []string {
	var all []string
	for _, s := range spans {
		all = append(all, s.Name)
	}
	return all
}

func TestASuccessHasNoError(t *testing.T) {
	tp, exporter := tracing()
	service := backoffotel.Trace(tp, "search", new(backoff.Policy))
	v, err := backoff.DoValue(t.Context(), service, func(context.Context) (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, v)
	spans := exporter.GetSpans()
	require.Equal(t, []string{"search attempt", "search"}, names(spans))
	for _, s := range spans {
		require.Equal(t, map[string]any{"backoff.operation": "search", "backoff.attempt": int64(1)}, values(s.Attributes))
		require.Equal(t, codes.Unset, s.Status.Code)
	}
}

// Without an observer the class is not known, but the times are right.
func TestWithoutAnObserverTheSpansEndAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tp, exporter := tracing()
		policy := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter}
		require.Error(t, backoffotel.Trace(tp, "search", policy).Do(t.Context(), failing(errBoom)))
		for _, s := range exporter.GetSpans()[:2] {
			require.Equal(t, "search attempt", s.Name)
			require.Zero(t, s.EndTime.Sub(s.StartTime))
			require.NotContains(t, values(s.Attributes), "backoff.class")
		}
	})
}

// What is outside of Trace is not in its span.
func TestABreakerOutsideRefusesWithoutASpan(t *testing.T) {
	tp, exporter := tracing()
	breaker := &backoff.Breaker{Name: "search"}
	breaker.Trip()
	inner := backoffotel.Trace(tp, "search", new(backoff.Policy))
	outside := breaker.Wrap(func(ctx context.Context) error { return inner.Do(ctx, failing(nil)) })
	require.ErrorIs(t, outside(t.Context()), backoff.ErrOpen)
	require.Empty(t, exporter.GetSpans())

	inside := backoffotel.Trace(tp, "search", (&guard.Service{Breaker: breaker, FailFast: true}).With(backoff.Policy{}))
	require.ErrorIs(t, inside.Do(t.Context(), failing(nil)), backoff.ErrOpen)
	require.Equal(t, []string{"search"}, names(exporter.GetSpans()))
	require.Equal(t, map[string]any{"backoff.operation": "search", "backoff.attempt": int64(0), "backoff.reason": "open", "error.type": "*backoff.OpenError"}, values(exporter.GetSpans()[0].Attributes))
}

// A policy inside the operation has attempts of its own.
func TestAPolicyInsideDoesNotEndTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tp, exporter := tracing()
		inner := backoff.Policy{Name: "inner", MaxAttempts: 2, Observer: backoffotel.SpanEvents}
		outer := backoffotel.Trace(tp, "outer", backoff.Policy{Name: "outer", Observer: backoffotel.SpanEvents})
		require.Error(t, outer.Do(t.Context(), func(ctx context.Context) error {
			defer time.Sleep(time.Hour)
			return inner.Do(ctx, failing(throttled{}))
		}))
		spans := exporter.GetSpans()
		require.Equal(t, []string{"outer attempt", "outer"}, names(spans))
		require.GreaterOrEqual(t, spans[0].EndTime.Sub(spans[0].StartTime), time.Hour)
		require.Equal(t, "permanent", values(spans[0].Attributes)["backoff.class"])
		require.Len(t, spans[0].Events, 2, "of the inner policy")
		require.Len(t, spans[1].Events, 1, "of the outer one")
	})
}

func TestAPanicEndsTheSpans(t *testing.T) {
	tp, exporter := tracing()
	service := backoffotel.Trace(tp, "search", new(backoff.Policy))
	require.PanicsWithValue(t, "oops", func() {
		service.Do(t.Context(), func(context.Context) error { panic("oops") })
	})
	spans := exporter.GetSpans()
	require.Equal(t, []string{"search attempt", "search"}, names(spans))
	for _, s := range spans {
		require.Equal(t, codes.Error, s.Status.Code)
	}
}

func TestTheGlobalTracerIsTheDefault(t *testing.T) {
	before := otel.GetTracerProvider()
	defer otel.SetTracerProvider(before)
	tp, exporter := tracing()
	otel.SetTracerProvider(tp)
	require.NoError(t, backoffotel.Trace(nil, "search", new(backoff.Policy)).Do(t.Context(), failing(nil)))
	require.Len(t, exporter.GetSpans(), 2)
}

// Many calls share a Doer at the same time, and each has its own tree.
func TestCallsDoNotMix(t *testing.T) {
	tp, exporter := tracing()
	service := backoffotel.Trace(tp, "search", backoff.Policy{Schedule: backoff.Constant(0), Observer: backoffotel.SpanEvents})
	const calls = 100
	ended := make(chan error)
	for range calls {
		go func() { ended <- service.Do(t.Context(), failing(errBoom, errBoom, nil)) }()
	}
	for range calls {
		require.NoError(t, <-ended)
	}
	attempts := map[trace.SpanID]int{}
	for _, s := range exporter.GetSpans() {
		if s.Parent.IsValid() {
			attempts[s.Parent.SpanID()]++
		}
	}
	require.Len(t, attempts, calls)
	for _, n := range attempts {
		require.Equal(t, 3, n)
	}
}

// ring is an error that wraps itself twice.
type ring struct{ all []error }

func (*ring) Error() string     { return "round and round" }
func (r *ring) Unwrap() []error { return r.all }

func TestTheReasonOfACallIsThatOfItsOwnError(t *testing.T) {
	policy := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)}
	another := policy.Do(t.Context(), func(context.Context) error { return errors.New("down") })
	breaker := &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1}
	breaker.Do(t.Context(), func(context.Context) error { return another })
	refused := breaker.Do(t.Context(), func(context.Context) error { return nil })
	require.ErrorIs(t, refused, backoff.ErrOpen)
	endless := new(ring)
	endless.all = []error{endless, endless}
	for name, row := range map[string]struct {
		err  error
		want any
	}{
		"gave up":               {another, "attempts"},
		"refused":               {refused, "open"},
		"refused, within":       {fmt.Errorf("call: %w", refused), "open"},
		"joined":                {errors.Join(errors.New("first"), nil, refused), "open"},
		"of nobody":             {errors.Join(errors.New("one"), errors.New("two")), nil},
		"nil in an error":       {(*backoff.Error)(nil), nil},
		"a tree without an end": {endless, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tp, exporter := tracing()
			require.Error(t, backoffotel.Trace(tp, "search", new(endpoint.Endpoint)).Do(t.Context(), func(context.Context) error { return row.err }))
			all := exporter.GetSpans()
			require.Equal(t, row.want, values(all[len(all)-1].Attributes)["backoff.reason"])
		})
	}
}

// With a real server and the real otelhttp, the second request is answered by a
// redirect to a place that fails once, too.
func TestEveryAttemptIsASpanOfOtelhttp(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) {
		case 1, 3:
			w.WriteHeader(503)
		case 2:
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}))
	defer server.Close()

	tp, exporter := tracing()
	transport := &backoffhttp.Transport{
		Policy: backoff.Policy{Name: "fetch", Schedule: backoff.Constant(time.Millisecond), Observer: backoffotel.SpanEvents},
		Base:   otelhttp.NewTransport(backoffotel.Resends(nil), otelhttp.WithTracerProvider(tp)),
	}
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	ctx, span := tp.Tracer("test").Start(t.Context(), "caller")
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	span.End()
	require.Equal(t, 200, resp.StatusCode)

	spans := exporter.GetSpans()
	var caller trace.SpanID
	var resends, statuses []any
	slices.SortFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	for i, s := range spans {
		if i == 0 {
			require.Equal(t, "caller", s.Name)
			caller = s.SpanContext.SpanID()
			require.Equal(t, "backoff.retry", s.Events[0].Name)
			require.Equal(t, "503", values(s.Events[0].Attributes)["error.type"])
			continue
		}
		require.Equal(t, trace.SpanKindClient, s.SpanKind)
		require.Equal(t, caller, s.Parent.SpanID())
		resends = append(resends, values(s.Attributes)["http.request.resend_count"])
		statuses = append(statuses, values(s.Attributes)["http.response.status_code"])
	}
	require.Equal(t, []any{nil, int64(1), int64(2), int64(3)}, resends)
	require.Equal(t, []any{int64(503), int64(302), int64(503), int64(200)}, statuses)
}

// idle counts how often its idle connections are closed.
type idle struct {
	http.RoundTripper
	closed int
}

func (i *idle) CloseIdleConnections() { i.closed++ }

func TestIdleConnectionsAreThoseOfTheBase(t *testing.T) {
	base := new(idle)
	client := &http.Client{Transport: backoffotel.Resends(base)}
	client.CloseIdleConnections()
	require.Equal(t, 1, base.closed)
}
