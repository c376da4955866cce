package backoffhttp_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// A client's default, a part's, a call's; each overrides what it wants
// to.
func TestOverridesInherit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(503))
		tr.Policy.MaxAttempts = 2
		part := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) {
			require.Equal(t, 2, p.MaxAttempts)
			p.MaxAttempts = 5
			p.Schedule = backoff.Constant(time.Second)
		})
		one := backoffhttp.WithRetry(part, func(p *backoff.Policy) {
			require.Equal(t, 5, p.MaxAttempts, "the outer one comes first")
			p.MaxAttempts = 3
		})
		roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(one))
		require.Equal(t, []time.Duration{time.Second, time.Second}, w.waits())
		roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(part))
		require.Equal(t, 3+5, w.requests())
		getRoot(t, tr)
		require.Equal(t, 3+5+2, w.requests(), "the transport's policy is as it was")
		require.Equal(t, 2, tr.Policy.MaxAttempts)
	})
}

func TestASingleRequestIsStatedToBeRepeatableOrNot(t *testing.T) {
	for _, c := range []struct {
		method string
		said   backoff.Idempotency
		want   int
	}{
		{"POST", backoff.Idempotent, 4},
		{"POST", backoff.Keyed, 4},
		{"POST", nil, 1},
		{"GET", backoff.NonIdempotent, 1},
		{"GET", nil, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, w := scripted(answer(503))
			tr.Policy.Idempotency = backoff.NonIdempotent
			ctx := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) { p.Idempotency = c.said })
			roundTrip(t, tr, newRequest(t, c.method, "http://a.test/", nil).WithContext(ctx))
			require.Equal(t, c.want, w.requests(), "%s %v", c.method, c.said)
			require.Equal(t, c.said == backoff.Keyed, key(w.request(0)) != "")
		})
	}
}

func TestAnOverrideMayChangeClassifierAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(404), hang, answer(200))
		ctx := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) {
			p.AttemptTimeout = time.Second
			p.Classify = func(err error) backoff.Class {
				var e *backoffhttp.StatusError
				if errors.As(err, &e) && e.Code == 404 {
					return backoff.ClassRetryable
				}
				return backoff.ClassUnknown
			}
		})
		require.Equal(t, 200, roundTrip(t, over(w), newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx)).StatusCode)
	})
	ctx := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) { p.AttemptTimeoutSchedule = backoff.Constant(-1) })
	_, err := over(newWire(answer(200))).RoundTrip(newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
	require.ErrorContains(t, err, "AttemptTimeout")
}

func TestNoChangeOfAPolicyTakesTheBudgetAway(t *testing.T) {
	ctx := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) { *p = backoff.Policy{} })
	tr := &backoffhttp.Transport{Base: newWire(answer(503)), Policy: backoff.Policy{Budget: refusing{}}}
	resp := roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
	require.Equal(t, backoff.ReasonBudget, gaveUp(t, resp).Reason)
}
