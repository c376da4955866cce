package backoffgrpc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

// google.rpc.RetryInfo: "If retrying requests also fail, clients should use an
// exponential backoff scheme to gradually increase the delay".
func TestWaitsGrowWhereAServerAsksForTheSameWaitAgainAndAgain(t *testing.T) {
	const d, none = 300 * time.Millisecond, -1
	byClass := map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {Schedule: backoff.Constant(0)}}
	for name, c := range map[string]struct {
		asked, least []time.Duration
		policy       backoff.Policy
	}{
		"the same":         {[]time.Duration{d, d, d}, []time.Duration{d, 2 * d, 4 * d}, backoff.Policy{ByClass: byClass}},
		"the server's own": {[]time.Duration{d, 2 * d, 4 * d}, []time.Duration{d, 2 * d, 4 * d}, backoff.Policy{}},
		"with a pause":     {[]time.Duration{d, none, d, d}, []time.Duration{d, 0, d, 2 * d}, backoff.Policy{}},
		"bounded":          {[]time.Duration{d, d, d}, []time.Duration{d, d + d/2, d + d/2}, backoff.Policy{MaxRetryAfter: d + d/2}},
		"in the time left": {[]time.Duration{d, d}, []time.Duration{d, d}, backoff.Policy{MaxElapsed: 3 * d}},
	} {
		for _, streams := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				conn, err := grpc.NewClient("passthrough:///example.test", grpc.WithTransportCredentials(insecure.NewCredentials()))
				require.NoError(t, err)
				defer conn.Close()
				var times []time.Time
				attempt := func() error {
					times = append(times, time.Now())
					switch n := len(times); {
					case n > len(c.asked):
						return nil
					case c.asked[n-1] == none:
						return status.Error(codes.Unavailable, "")
					default:
						return retryInfo(codes.ResourceExhausted, c.asked[n-1])
					}
				}
				c.policy.Schedule, c.policy.MaxAttempts = backoff.Constant(0), 9
				config := &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {Policy: c.policy}}}
				if streams {
					_, err = config.Stream()(t.Context(), nil, conn, "/s/m", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
						return struct{ grpc.ClientStream }{}, attempt()
					})
				} else {
					err = config.Unary()(t.Context(), "/s/m", nil, nil, conn, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return attempt() })
				}
				require.NoError(t, err, name)
				for i, least := range c.least {
					wait := times[i+1].Sub(times[i])
					require.GreaterOrEqual(t, wait, least, "%s: wait %d", name, i+1)
					require.LessOrEqual(t, wait, 2*least, "%s: wait %d", name, i+1)
				}
			})
		}
	}
}
