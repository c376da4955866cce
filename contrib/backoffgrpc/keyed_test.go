package backoffgrpc_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
)

// keysOf returns the idempotency keys that reach the server with the attempts of a unary
// call and of a stream, which all fail.
func keysOf(t *testing.T, ctx context.Context, config *backoffgrpc.Config) (sent [2][]string) {
	s := &service{unary: fails(math.MaxInt, codes.Unavailable), duplex: unavailable}
	client := dial(t, s.serve(t), config)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
	require.Error(t, err)
	require.NotZero(t, s.calls())
	sent[0] = s.keys
	s.reset()
	require.Error(t, receive(ctx, client))
	require.NotZero(t, s.calls())
	sent[1] = s.keys
	return sent
}

func TestAllAttemptsOfAKeyedCallSendTheSameKey(t *testing.T) {
	mine := func(ctx context.Context) context.Context { return backoff.WithIdempotencyKey(ctx, "mine") }
	sent := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(mine(ctx), "Idempotency-Key", "sent", "tenant", "7")
	}
	for name, c := range map[string]struct {
		said    backoff.Idempotency
		prepare func(context.Context) context.Context
		want    string // "*" for one that was made
	}{
		"made":                 {backoff.Keyed, nil, "*"},
		"of the context":       {backoff.Keyed, mine, "mine"},
		"of the metadata":      {backoff.Keyed, sent, "sent"},
		"idempotent":           {backoff.Idempotent, mine, ""},
		"unset":                {nil, mine, ""},
		"unset, with metadata": {nil, sent, "sent"},
	} {
		for _, services := range []*guard.Services{nil, {New: func(string) *guard.Service { return &guard.Service{NoBudget: true, FailFast: true} }}} {
			ctx := t.Context()
			if c.prepare != nil {
				ctx = c.prepare(ctx)
			}
			policy := backoff.Policy{Schedule: backoff.Constant(time.Millisecond), Idempotency: c.said}
			for _, keys := range keysOf(t, ctx, guarded(policy, services)) {
				want := c.want
				if want == "*" {
					want = keys[0]
					require.Len(t, want, 26)
				}
				require.Equal(t, []string{want, want, want, want}, keys, name)
			}
		}
	}
}

func TestACallThatMustNotBeRepeatedSendsNoKey(t *testing.T) {
	ctx := backoff.WithIdempotencyKey(t.Context(), "mine")
	for _, keys := range keysOf(t, ctx, guarded(backoff.Policy{Idempotency: backoff.NonIdempotent}, nil)) {
		require.Equal(t, []string{""}, keys)
	}
}

func TestEachKeyedCallHasAKeyOfItsOwn(t *testing.T) {
	sent := keysOf(t, t.Context(), guarded(backoff.Policy{MaxAttempts: 1, Idempotency: backoff.Keyed}, nil))
	require.NotEqual(t, sent[0], sent[1])
}

func TestAllAttemptsOfAKeyedHedgeSendTheSameKey(t *testing.T) {
	config := &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{
		"": {Hedge: &hedge.Hedge{MaxAttempts: 2, Delay: time.Millisecond, Idempotency: backoff.Keyed}},
	}}
	keys := keysOf(t, t.Context(), config)[0]
	require.Len(t, keys, 2)
	require.Len(t, keys[0], 26)
	require.Equal(t, keys[0], keys[1])
}
