package backoffslog_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/guard/endpoint"
)

func TestARecordSaysWhatTheCallIsSentTo(t *testing.T) {
	var j journal
	for _, name := range []string{"checkout", ""} {
		policy := backoff.Policy{Name: name, MaxAttempts: 1, Observer: backoffslog.New(j.logger(), nil)}
		ctx := endpoint.With(t.Context(), &endpoint.Endpoint{Name: "GET api.test/?token=hunter2"})
		require.Error(t, policy.Do(ctx, failing(errBoom)))
	}
	named, nameless := j.records(t)[0], j.records(t)[1]
	require.Equal(t, "checkout", named["operation"])
	require.Equal(t, "GET api.test/?token=xxxxx", named["endpoint"], "without secrets")
	require.Equal(t, named["endpoint"], nameless["operation"], "rather than nothing")
}

// An Endpoint may be made anew for each request.
func TestRecordsAreSampledByTheNameOfTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		policy := backoff.Policy{MaxAttempts: 1, Observer: backoffslog.New(j.logger(), &backoffslog.Options{PerSecond: 1})}
		for _, name := range []string{"GET a", "GET b"} {
			for range 5 {
				ctx := endpoint.With(t.Context(), &endpoint.Endpoint{Name: name})
				require.Error(t, policy.Do(ctx, failing(errBoom)))
			}
		}
		records := j.records(t)
		require.Len(t, records, 2)
		require.Equal(t, "GET b", records[1]["endpoint"])
	})
}

func TestEveryReasonIsInTheRecordAndEachLimitNamesItsSetting(t *testing.T) {
	settings := map[backoff.Reason]any{
		backoff.ReasonAttempts: "MaxAttempts", backoff.ReasonElapsed: "MaxElapsed", backoff.ReasonRetryAfter: "MaxRetryAfter",
		backoff.ReasonNotIdempotent: "Idempotency", backoff.ReasonBudget: "Budget", backoff.ReasonOpen: "OpenFor",
	}
	for why := backoff.ReasonPermanent; why.String() != "unknown"; why++ {
		r := recordOf(t, nil, backoff.Event{Kind: backoff.EventGiveUp, Reason: why, Attempt: 1, Err: errBoom})
		require.Equal(t, "give up", r["msg"])
		require.Equal(t, why.String(), r["reason"])
		require.Equal(t, settings[why], r["setting"], why)
	}
}

func TestARefusalHasTheClassOfTheFailureThatOpenedTheCircuit(t *testing.T) {
	var j journal
	breaker := backoff.Breaker{
		Name: "search", ConsecutiveFailures: 1, ConsecutiveSpan: -1,
		Observer: backoffslog.New(j.logger(), nil),
	}
	down := backoff.OfClass(errors.New("down"), backoff.ClassNotSent)
	policy := backoff.Policy{Schedule: backoff.Constant(0)}
	require.Error(t, breaker.Do(t.Context(), func(ctx context.Context) error { return policy.Do(ctx, failing(down)) }))
	require.ErrorIs(t, breaker.Do(t.Context(), failing(errBoom)), backoff.ErrOpen)
	records := j.records(t)
	refused := records[len(records)-1]
	require.Equal(t, "refused", refused["msg"])
	require.Equal(t, "OpenFor", refused["setting"])
	require.Equal(t, "not sent", refused["class"])

	var never journal
	breaker = backoff.Breaker{Observer: backoffslog.New(never.logger(), nil)}
	breaker.Force(backoff.ModeForcedOpen)
	require.ErrorIs(t, breaker.Do(t.Context(), failing(errBoom)), backoff.ErrOpen)
	records = never.records(t)
	require.Equal(t, "unknown", records[len(records)-1]["class"], "there was no failure")
}
