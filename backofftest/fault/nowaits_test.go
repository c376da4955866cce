package fault_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
)

// quick fails the test if it took longer than any of the waits that it skips.
func quick(t *testing.T) {
	fault.NoWaits(t)
	began := time.Now()
	t.Cleanup(func() { require.Less(t, time.Since(began), time.Minute) })
}

func TestAWaitThatIsSkippedUsesUpNoTime(t *testing.T) {
	quick(t)
	var waits []time.Duration
	p := backoff.Policy{Schedule: backoff.Constant(time.Hour), Jitter: backoff.NoJitter, MaxElapsed: time.Minute,
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				waits = append(waits, e.Wait)
			}
		}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	sent := &fault.Injector{Plan: always(fault.Status(503).RetryAfter(2 * time.Minute))}
	require.ErrorIs(t, p.Do(ctx, sent.Op(func(context.Context) error { return nil })), backoff.ErrExhausted)
	sent.Check(t, 4)
	require.Equal(t, []time.Duration{time.Hour, time.Hour, time.Hour}, waits)
}

func TestACircuitIsWaitedForInNoTime(t *testing.T) {
	quick(t)
	b := &backoff.Breaker{OpenFor: backoff.Constant(time.Hour), ConsecutiveFailures: 1, ConsecutiveSpan: -1, Jitter: backoff.NoJitter}
	p := backoff.Policy{MaxRetryAfter: 24 * time.Hour}
	require.Error(t, b.Do(t.Context(), func(context.Context) error { return errors.New("down") }))
	sent := new(fault.Injector)
	require.NoError(t, p.Do(t.Context(), func(ctx context.Context) error {
		return backoff.OfClass(b.Do(ctx, sent.Op(func(context.Context) error { return nil })), backoff.ClassRetryable)
	}))
	sent.Check(t, 1)
}

func TestARateIsWaitedForInNoTime(t *testing.T) {
	quick(t)
	p := backoff.Policy{Budget: &limit.Rate{Limiter: rate.NewLimiter(0.001, 1)}}
	for range 5 {
		require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
	}
}

func TestAServiceIsWaitedForInNoTime(t *testing.T) {
	quick(t)
	var s guard.Service
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	sent := &fault.Injector{Plan: func(a fault.Attempt) fault.Fault {
		if a.Number <= 30 {
			return fault.Reset()
		}
		return fault.OK()
	}}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			require.NoError(t, s.Do(ctx, backoff.Policy{}, sent.Op(func(context.Context) error { return nil })))
		})
	}
	all.Wait()
}

func TestARetryAfterIsWaitedForInNoTimeOnARealServer(t *testing.T) {
	quick(t)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	sent := &fault.Injector{Plan: fault.Script(fault.Status(429).RetryAfter(2*time.Minute), fault.Status(503).RetryAfter(2*time.Minute))}
	client := http.Client{Transport: &backoffhttp.Transport{Base: sent.Transport(nil)}, Timeout: time.Hour}
	resp, err := client.Get(server.URL)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode)
	sent.Check(t, 3, fault.Closed)
}

// A service that is down for ever ends a call as it does with the waits.
func TestACallToADeadServiceStillEnds(t *testing.T) {
	quick(t)
	var s guard.Service
	sent := &fault.Injector{Plan: always(fault.Reset())}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.Error(t, s.Do(ctx, backoff.Policy{}, sent.Op(func(context.Context) error { return nil })))
	require.Less(t, len(sent.Attempts()), 1000)
}

func TestAttemptTimeoutsKeepTheirTime(t *testing.T) {
	quick(t)
	p := backoff.Policy{MaxAttempts: 2, AttemptTimeout: 20 * time.Millisecond, Schedule: backoff.Constant(time.Hour)}
	sent := &fault.Injector{Plan: fault.Script(fault.Hang())}
	began := time.Now()
	require.NoError(t, p.Do(t.Context(), sent.Op(func(context.Context) error { return nil })))
	require.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)
	sent.Check(t, 2)
}

// What comes after the test waits again.
func TestWaitsTakeTheirTimeAgainAfterTheTest(t *testing.T) {
	t.Run("quick", func(t *testing.T) { fault.NoWaits(t) })
	p := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(20 * time.Millisecond), Jitter: backoff.NoJitter}
	began := time.Now()
	require.Error(t, p.Do(t.Context(), func(context.Context) error { return errors.New("down") }))
	require.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)
}
