package hedge_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// observed lets h tell of its calls, and returns the events.
func observed(h *hedge.Hedge) *[]backoff.Event {
	events := new([]backoff.Event)
	h.Observer = func(_ context.Context, e backoff.Event) { *events = append(*events, e) }
	return events
}

func TestAHedgedCallTellsWhatBecameOfItsHedgesAndThenItsEnd(t *testing.T) {
	slow, quick, failing := inTime(time.Minute, 1, nil), inTime(time.Second, 2, nil), inTime(time.Second, 0, errHedgeUnavailable)
	for name, c := range map[string]struct {
		steps []hedgeStep
		want  []backoff.Event
	}{
		"not needed": {[]hedgeStep{inTime(milli, 1, nil)}, []backoff.Event{{Kind: backoff.EventSuccess, Attempt: 1, Elapsed: milli}}},
		"won": {[]hedgeStep{slow, slow, quick}, []backoff.Event{
			{Kind: backoff.EventHedgeLost, Attempt: 2, Delay: 500 * milli}, {Kind: backoff.EventHedgeWon, Attempt: 3, Delay: 500 * milli},
			{Kind: backoff.EventSuccess, Attempt: 3, Elapsed: 2 * second}}},
		"lost": {[]hedgeStep{inTime(900*milli, 1, nil), slow}, []backoff.Event{
			{Kind: backoff.EventHedgeLost, Attempt: 2, Delay: 500 * milli}, {Kind: backoff.EventSuccess, Attempt: 2, Elapsed: 900 * milli}}},
		"failed": {[]hedgeStep{failing, failing, failing}, []backoff.Event{
			{Kind: backoff.EventHedgeLost, Attempt: 2, Delay: 500 * milli}, {Kind: backoff.EventHedgeLost, Attempt: 3, Delay: 500 * milli},
			{Kind: backoff.EventGiveUp, Attempt: 3, Reason: backoff.ReasonAttempts, Err: errHedgeUnavailable, Class: backoff.ClassRetryable, Elapsed: 2 * second}}},
		"refused by the server": {[]hedgeStep{inTime(milli, 0, answered{"7"})}, []backoff.Event{
			{Kind: backoff.EventGiveUp, Attempt: 1, Reason: backoff.ReasonPermanent, Err: answered{"7"}, Class: backoff.ClassPermanent, Elapsed: milli,
				Header: answered{"7"}.ResponseHeader()}}},
		"permanent": {[]hedgeStep{inTime(milli, 0, errHedgeInvalid)}, []backoff.Event{
			{Kind: backoff.EventGiveUp, Attempt: 1, Reason: backoff.ReasonPermanent, Err: errHedgeInvalid, Class: backoff.ClassPermanent, Elapsed: milli}}},
	} {
		hedgeTest(t, name, func(t *testing.T) {
			h := hedgeGRPC()
			h.Detach = true
			got := observed(h)
			_, _ = hedge.Value(t.Context(), h, script(c.steps...).op, nil)
			for i := range c.want {
				c.want[i].Name, c.want[i].MaxAttempts = "grpc", 3
			}
			require.Equal(t, c.want, *got)
			time.Sleep(time.Hour) // the losers return
		})
	}
}

func TestARefusedHedgeIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedge.Hedge{Delay: second, Budget: refusesHedges()}
		got := observed(h)
		succeed(t, h, 1, inTime(time.Minute, 1, nil))
		require.Equal(t, []backoff.Event{
			{Kind: backoff.EventRefused, Reason: backoff.ReasonBudget, MaxAttempts: 2},
			{Kind: backoff.EventSuccess, Attempt: 1, MaxAttempts: 2, Elapsed: time.Minute},
		}, *got)
	})
}

func TestAHedgeThatWaitsForNothingHasNoDelay(t *testing.T) {
	for name, h := range map[string]*hedge.Hedge{"at once": {Delay: -1}, "after a failure": {}} {
		got := observed(h)
		_, err := hedge.Value(t.Context(), h, inTime(0, 0, errHedgeUnavailable), nil)
		require.Error(t, err)
		require.Equal(t, backoff.Event{Kind: backoff.EventHedgeLost, Attempt: 2, MaxAttempts: 2}, (*got)[0], name)
	}
}

func TestAHedgeThatCannotBeObeyedIsAnEventToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedge.Hedge{MaxExtraLoad: 2}
		got := observed(h)
		_, err := hedge.Value(t.Context(), h, inTime(0, 1, nil), nil)
		require.Error(t, err)
		require.Equal(t, []backoff.Event{
			{Kind: backoff.EventGiveUp, Reason: backoff.ReasonInvalid, Err: err, Class: backoff.ClassPermanent, MaxAttempts: 2},
		}, *got)
	})
}

// A call that never returned has no end to tell of.
func TestAPanickingHedgedCallTellsOfNoEnd(t *testing.T) {
	h := new(hedge.Hedge)
	got := observed(h)
	require.Panics(t, func() { _, _ = hedge.Value(t.Context(), h, bang(0, "op"), nil) })
	require.Empty(t, *got)
}

// What a breaker refused was no attempt.
func TestAHedgedCallThatABreakerRefusedTellsOfNoAttempt(t *testing.T) {
	breaker := new(backoff.Breaker)
	breaker.Trip()
	h := new(hedge.Hedge)
	got := observed(h)
	_, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
		return backoff.DoValue(ctx, breaker, inTime(0, 1, nil))
	}, nil)
	require.ErrorIs(t, err, backoff.ErrOpen)
	require.Len(t, *got, 1)
	require.Equal(t, backoff.ReasonOpen, (*got)[0].Reason)
	require.Zero(t, (*got)[0].Attempt)
}
