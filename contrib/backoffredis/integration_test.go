//go:build integration

package backoffredis

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/fleet"
)

const server = "127.0.0.1:6379"

// open returns a store on a server, which must be running.
func open(t testing.TB, client redis.UniversalClient) fleet.Store {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	require.NoError(t, client.Ping(t.Context()).Err(), "compose.yaml starts the server")
	s, err := New(client, "test")
	require.NoError(t, err)
	return s
}

func TestASingleServerIsAStore(t *testing.T) {
	t.Parallel()
	backofftest.Store(t, func(t testing.TB) fleet.Store {
		return open(t, redis.NewClient(&redis.Options{Addr: server, ContextTimeoutEnabled: true}))
	})
}
