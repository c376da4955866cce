package backoffgrpc_test

import (
	"context"
	"testing"
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
)

func TestAPushbackOnADefinitiveAnswerIsNoFailure(t *testing.T) {
	for _, pushback := range []string{"-1", "soon", "3600000"} {
		s := &service{
			unary: func(ctx context.Context, _ int) error {
				grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushback))
				return status.Error(codes.FailedPrecondition, "card declined")
			},
			duplex: func(stream pb.TestService_FullDuplexCallServer, _ int) error {
				stream.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", pushback))
				return status.Error(codes.FailedPrecondition, "card declined")
			},
		}
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
				require.Equal(t, backoff.OutcomeDefinitive, outcome)
			}
		}
	}
}
