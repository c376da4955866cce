package timeouts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/timeouts"
)

func TestTheTimeoutsOfAPolicyAreASchedule(t *testing.T) {
	growing := backoff.Linear{Initial: time.Second}
	for _, c := range []struct {
		policy backoff.Policy
		want   backoff.Schedule
	}{
		{backoff.Policy{}, nil},
		{backoff.Policy{AttemptTimeout: -1}, nil},
		{backoff.Policy{AttemptTimeout: time.Second}, backoff.Constant(time.Second)},
		{backoff.Policy{AttemptTimeoutSchedule: growing}, growing},
	} {
		require.Equal(t, c.want, timeouts.Of(&c.policy))
		timeouts.Remove(&c.policy)
		require.Equal(t, c.want != nil, timeouts.Of(&c.policy) != nil)
		if c.want != nil {
			require.Zero(t, timeouts.Of(&c.policy).Delay(1))
		}
	}
}
