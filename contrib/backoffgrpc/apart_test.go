package backoffgrpc_test

import (
	"context"
	"sync/atomic"
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
	"github.com/gobackoff/backoff/guard"
)

// apart are credentials that do not pass on the context of the call, as an
// oauth2.TokenSource does not.
type apart struct{ tokens }

func (t apart) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	if md, _ := metadata.FromOutgoingContext(ctx); len(md.Get("x-token")) > 0 {
		return nil, nil // this is the call for a token
	}
	return t.tokens.GetRequestMetadata(context.Background(), uri...)
}

// A probe that waits for another call to the same service, which the circuit refuses, says
// nothing, and so does the next one, for ever.
func TestACallWhoseTokenIsAskedForApartOutlivesAnOutageOfMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := &service{unary: func(context.Context, int) error {
			if down.Load() {
				return status.Error(codes.Unavailable, "not now")
			}
			return nil
		}}
		n := newNetwork(t, s)
		var client pb.TestServiceClient
		client = n.dial(t, guarded(backoff.Policy{}, new(guard.Services)), grpc.WithPerRPCCredentials(apart{tokens{&client}}))
		require.NoError(t, call(t, client))
		down.Store(true)
		for began := time.Now(); time.Since(began) < 5*time.Minute; {
			require.Error(t, call(t, client))
		}
		down.Store(false)
		failed := 0
		for failed < 100 && call(t, client) != nil {
			failed++
		}
		require.LessOrEqual(t, failed, 20)
	})
}
