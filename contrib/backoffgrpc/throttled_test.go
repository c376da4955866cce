package backoffgrpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/plug"
)

// paces reports whether a pacer makes calls wait for their turn.
func paces(p *pace.Pacer) bool {
	perSecond, _ := p.Limit()
	return perSecond < 1e9
}

// pushedBack is an error with which a server says "do not retry".
type pushedBack struct{ error }

// forbidding returns the error of a handler, after what it says to the client.
func forbidding(ctx context.Context, err error) error {
	if e, ok := err.(pushedBack); ok {
		backoffgrpc.DoNotRetry(ctx)
		return e.error
	}
	return err
}

// The pacer always counts RESOURCE_EXHAUSTED, whatever the
// classifier lists. Whether it is sent again is another matter.
func TestAPacerHearsOfEveryResourceExhausted(t *testing.T) {
	only := func(codes ...codes.Code) backoff.Classifier { return plug.OnCode(status.Code, codes...) }
	for name, c := range map[string]struct {
		err      error
		classify backoff.Classifier
		calls    int
		slows    bool
	}{
		"bare":                        {status.Error(codes.ResourceExhausted, "quota"), nil, 1, true},
		"RetryInfo":                   {retryInfo(codes.ResourceExhausted, time.Millisecond), nil, 2, true},
		"bare, listed":                {status.Error(codes.ResourceExhausted, "quota"), only(codes.ResourceExhausted), 2, true},
		"bare, not listed":            {status.Error(codes.ResourceExhausted, "quota"), only(codes.Unavailable), 1, true},
		"RetryInfo, not so":           {retryInfo(codes.ResourceExhausted, time.Millisecond), only(codes.Unavailable), 1, true},
		"do not retry":                {pushedBack{status.Error(codes.ResourceExhausted, "quota")}, nil, 1, true},
		"no opinion":                  {status.Error(codes.ResourceExhausted, "quota"), func(error) backoff.Class { return backoff.ClassUnknown }, 1, true},
		"for hours, which is no rate": {retryInfo(codes.ResourceExhausted, time.Hour), nil, 1, false},
	} {
		answer := func(ctx context.Context, n int) error { return forbidding(ctx, failsOnce(c.err)(ctx, n)) }
		s := &service{unary: answer, duplex: streams(answer)}
		addr := s.serve(t)
		for kind, make := range map[string]func(pb.TestServiceClient) error{
			"unary":  func(client pb.TestServiceClient) error { return call(t, client) },
			"stream": func(client pb.TestServiceClient) error { return receive(t.Context(), client) },
		} {
			s.reset()
			budget, pacer := new(places), new(pace.Pacer)
			client := dial(t, addr, retrying(func(p *backoff.Policy) {
				p.Budget, p.Classify = backoff.JoinBudgets(budget, pacer), c.classify
			}))
			err := make(client)
			require.Equal(t, c.calls, s.calls(), "%s, %s: %v", name, kind, err)
			require.Equal(t, "throttled", budget.ended[0], "%s, %s", name, kind)
			require.Equal(t, backoff.ClassThrottled, budget.classes[0], "%s, %s", name, kind)
			require.Equal(t, c.slows, paces(pacer), "%s, %s", name, kind)
			require.Equal(t, !c.slows, errors.Is(err, backoff.ErrExhausted), "%s, %s: %v", name, kind, err)
			if c.calls == 1 {
				require.Equal(t, codes.ResourceExhausted, status.Code(err), name)
				require.False(t, backoff.Policy{}.Retryable(err), "%s: it is permanent to policies around", name)
				require.NotContains(t, err.Error(), "the server says")
			}
		}
	}
}

// The mark of an interceptor goes before what the code says.
func TestAResourceExhaustedThatIsMarkedPermanentSlowsNobody(t *testing.T) {
	pacer := new(pace.Pacer)
	client := dialLimited(t, new(service), backoffgrpc.Method{Policy: backoff.Policy{Budget: pacer}},
		failing(func() error { return backoff.Permanent(status.Error(codes.ResourceExhausted, "quota")) }))
	require.Equal(t, codes.ResourceExhausted, status.Code(call(t, client)))
	require.False(t, paces(pacer))
}

// To a breaker around the calls it is what HTTP 429 is: neutral while anything
// succeeds.
func TestABreakerStaysClosedWhileSomeCallsAreExhausted(t *testing.T) {
	s := &service{unary: func(_ context.Context, n int) error {
		if n%4 == 0 {
			return nil
		}
		return status.Error(codes.ResourceExhausted, "quota")
	}}
	client := dial(t, s.serve(t), retrying())
	breaker := &backoff.Breaker{Classify: backoffgrpc.Classify, ConsecutiveSpan: -1}
	for range 100 {
		breaker.Do(t.Context(), func(ctx context.Context) error { return call(t, client) })
	}
	require.Equal(t, 100, s.calls())
}

func TestAHoldOffHearsOfRetryInfoAndPushback(t *testing.T) {
	for name, refuse := range map[string]func(context.Context) error{
		"RetryInfo": func(context.Context) error {
			return backoffgrpc.RetryAfter(status.Error(codes.ResourceExhausted, ""), time.Minute)
		},
		"pushback": func(ctx context.Context) error {
			_ = backoffgrpc.Pushback(ctx, time.Minute)
			return status.Error(codes.Unavailable, "")
		},
	} {
		h := new(pace.HoldOff)
		config := &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {Policy: backoff.Policy{MaxAttempts: 1, Budget: h}}}}
		s := &service{unary: func(ctx context.Context, _ int) error { return refuse(ctx) }}
		require.Error(t, call(t, dial(t, s.serve(t), config)))
		require.False(t, h.GrantsFirst(), name)
	}
}

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
				conn := connect(t, "example.test", &backoffgrpc.Config{})
				var err error
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

func TestAPushbackOnAPermanentResponseIsNoFailure(t *testing.T) {
	for _, pushback := range []string{"-1", "soon", "3600000"} {
		answer := func(ctx context.Context, _ int) error {
			grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushback))
			return status.Error(codes.FailedPrecondition, "card declined")
		}
		s := &service{unary: answer, duplex: streams(answer)}
		addr := s.serve(t)
		for name, m := range map[string]backoffgrpc.Method{
			"retried": {Policy: backoff.Policy{Budget: new(places)}},
			"hedged":  {Hedge: &hedge.Hedge{Delay: time.Hour, MaxExtraLoad: -1, Budget: new(places)}},
		} {
			breaker := &backoff.Breaker{Classify: backoffgrpc.Classify, ConsecutiveFailures: 2, ConsecutiveSpan: -1}
			client := dial(t, addr, &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": m}})
			for range 5 {
				err := breaker.Do(t.Context(), func(context.Context) error { return call(t, client) })
				require.Equal(t, codes.FailedPrecondition, status.Code(err))
				require.Equal(t, "card declined", status.Convert(err).Message(), "%s: the answer comes as it was sent", name)
			}
			require.Equal(t, backoff.BreakerClosed, breaker.State(), name)
			if m.Hedge != nil {
				continue
			}
			require.Equal(t, codes.FailedPrecondition, status.Code(receive(t.Context(), client)))
			ended := m.Policy.Budget.(*places).ended
			require.Len(t, ended, 6)
			for _, outcome := range ended {
				require.Equal(t, "permanent", outcome)
			}
		}
	}
}
