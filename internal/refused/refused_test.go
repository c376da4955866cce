package refused_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/refused"
)

func TestTheReasonFollowsFromTheError(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	boom := errors.New("boom")
	for _, row := range []struct {
		ctx  context.Context
		err  error
		want backoff.Reason
	}{
		{t.Context(), &backoff.OpenError{}, backoff.ReasonOpen},
		{t.Context(), fmt.Errorf("bulkhead: %w", backoff.ErrBudget), backoff.ReasonBudget},
		{t.Context(), &backoff.Error{Reason: backoff.ReasonElapsed, Last: backoff.RetryAfter(boom, time.Minute)}, backoff.ReasonElapsed},
		{t.Context(), (&backoff.Breaker{WindowCalls: 1e6}).Validate(), backoff.ReasonInvalid},
		{ended, context.Canceled, backoff.ReasonCanceled},
		{late, context.DeadlineExceeded, backoff.ReasonDeadline},
		{t.Context(), boom, backoff.ReasonPermanent},
	} {
		policy, told := backoff.Policy{Name: "search", MaxAttempts: 7}, 0
		refused.Tell(row.ctx, &policy, row.err) // nobody listens
		policy.Observer = func(_ context.Context, e backoff.Event) {
			told++
			require.Equal(t, []any{backoff.EventGiveUp, "search", row.err, row.want, 0, 7}, []any{e.Kind, e.Name, e.Err, e.Reason, e.Attempt, e.MaxAttempts})
			require.Equal(t, row.want == backoff.ReasonElapsed, e.RetryAfter == time.Minute)
			require.Equal(t, row.want == backoff.ReasonPermanent, e.Class == backoff.ClassPermanent)
		}
		refused.Tell(row.ctx, &policy, row.err)
		require.Equal(t, 1, told)
	}
}
