package backoffslog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/guard/endpoint"
)

// Searches and alerts go by these names, so a new release adds to them and
// changes none.
func TestTheNamesInRecordsArePromised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		observe := backoffslog.New(j.logger(), &backoffslog.Options{PerSecond: 1})
		full := backoff.Event{
			Name: "fetch", Reason: backoff.ReasonBudget, Waiting: true, Attempt: 2, MaxAttempts: 4, Err: errors.New("down"),
			Delay: 1, Wait: 1, Slept: 1, RetryAfter: 1, Elapsed: 1, Header: map[string][]string{"Retry-After": {"1"}},
			Transition: &backoff.BreakerTransition{RetryAfter: time.Second, Err: errors.New("down")},
		}
		ctx := endpoint.With(t.Context(), &endpoint.Endpoint{Name: "GET api"})
		for range 3 { // the second one is suppressed, the third one says so
			for kind := backoff.EventRetry; kind.String() != "unknown"; kind++ {
				full.Kind = kind
				observe(ctx, full)
			}
			time.Sleep(600 * time.Millisecond)
		}
		observe(ctx, backoff.Event{Kind: backoff.EventRetry, Name: "fetch"})
		observe(ctx, backoff.Event{Kind: backoff.EventRetry, Name: "fetch"})
		time.Sleep(4 * time.Second)
		synctest.Wait()
		var messages, attributes []string
		for _, r := range j.records(t) {
			messages = append(messages, r["msg"].(string))
			for name := range r {
				attributes = append(attributes, name)
			}
		}
		require.Equal(t, "give up, hedge lost, hedge won, reconnect, refused, retry, success, suppressed, transition", list(messages))
		require.Equal(t, "attempt, class, delay, elapsed, endpoint, error, error_type, event, from, generation, header, hedge, level, max_attempts, msg, "+
			"operation, reason, retry_after, setting, slept, suppressed, to, trigger, wait, waiting", list(attributes))
	})
}

// list returns each of the names once, in order.
func list(names []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ", ")
}

// They are the values of class, reason, from and to, and the labels of
// the metrics.
func TestTheNamesOfValuesArePromised(t *testing.T) {
	require.Equal(t, "unknown, not sent, retryable, throttled, overloaded, permanent", values[backoff.Class]("invalid"))
	require.Equal(t, "success, permanent, attempts, elapsed, retry after, deadline, canceled, not idempotent, overloaded, abandoned, "+
		"budget, open, invalid", values[backoff.Reason]("unknown"))
	require.Equal(t, "closed, open, half-open", values[backoff.BreakerState]("invalid"))
}

// values returns the names of the values of a type, up to the one that stands
// for all that are not known.
func values[T interface {
	~uint8
	String() string
}](end string) string {
	var all []string
	for v := T(0); v.String() != end; v++ {
		all = append(all, v.String())
	}
	return strings.Join(all, ", ")
}
