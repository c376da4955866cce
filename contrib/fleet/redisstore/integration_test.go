//go:build integration

package redisstore

import (
	"context"
	"crypto/rand"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

// open returns a store on a server, which must be running, and a client of it.
func open(t testing.TB) (fleet.Store, *redis.Client) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	require.NoError(t, client.Ping(t.Context()).Err(), "compose.yaml starts the server")
	s, err := New(client, "test")
	require.NoError(t, err)
	return s, client
}

// Processes of several releases use one server: a new release reads what the
// first one stored, in the keys and fields that circuit.lua lists.
func TestWhatTheFirstReleaseStoredIsRead(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, client := open(t)
	name := rand.Text()
	later := time.Now().Add(time.Hour).UnixMilli()
	circuit, blocks, tokens := "test:{"+name+"}:circuit", "test:{"+name+"}:blocks", "test:{"+name+"}:tokens"
	t.Cleanup(func() { client.Del(context.Background(), circuit, blocks, tokens) })

	require.NoError(t, client.HSet(ctx, circuit, "g", 7, "o", later, "n", 3, "e", later).Err())
	c, err := store.Load(ctx, name)
	require.NoError(t, err)
	require.InDelta(t, time.Hour, c.Open, float64(time.Minute))
	require.Equal(t, fleet.Circuit{Generation: 7, Tripped: true, Open: c.Open, Openings: 3}, c)

	require.NoError(t, client.HSet(ctx, circuit, "o", 1, "h", "old", "l", later, "e", later).Err())
	c, err = store.Lease(ctx, name, "new", time.Minute)
	require.NoError(t, err)
	require.False(t, c.Mine, "the old lease counts")
	require.InDelta(t, time.Hour, c.Leased, float64(time.Minute))

	require.NoError(t, client.Del(ctx, circuit).Err())
	require.NoError(t, client.HSet(ctx, circuit, "v:old", later, "e", later).Err())
	c, err = store.Trip(ctx, name, fleet.Trip{By: "new", Voter: "new", Open: time.Minute, Quorum: 2})
	require.NoError(t, err)
	require.Equal(t, backoff.BreakerOpen, c.State(), "the old vote counts")

	require.NoError(t, client.ZAdd(ctx, blocks, redis.Z{Score: float64(later), Member: "b:old"}).Err())
	require.NoError(t, client.HSet(ctx, tokens, "b:old", 4, "t", 4).Err())
	for block, want := range map[string]int{"old": 4, "new": 6} {
		granted, err := store.Take(ctx, name, fleet.Claim{Block: block, Tokens: 9, Allowance: 10, Window: time.Minute})
		require.NoError(t, err)
		require.Equal(t, want, granted, block)
	}
}

// Redis evicts the set and the hash of an account apart.
func TestAnAccountOutlivesTheEvictionOfEitherHalf(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, client := open(t)
	for _, half := range []string{"blocks", "tokens"} {
		name := rand.Text()
		take := func(block string, window time.Duration) int {
			n, err := store.Take(ctx, name, fleet.Claim{Block: block, Tokens: 10, Allowance: 10, Window: window})
			require.NoError(t, err, half)
			return n
		}
		require.Equal(t, 10, take("a", 20*time.Millisecond))
		require.NoError(t, client.Del(ctx, "test:{"+name+"}:"+half).Err())
		require.Equal(t, 10, take("b", 100*time.Millisecond), "the server has lost the first block: %s", half)
		require.Zero(t, take("c", time.Minute))
		require.Eventually(t, func() bool { return take("c", time.Minute) == 10 }, 10*time.Second, 10*time.Millisecond)
		require.Zero(t, take("d", time.Minute), "no more than the allowance")
		client.Del(ctx, "test:{"+name+"}:blocks", "test:{"+name+"}:tokens")
	}
}

// What was stored before the server's clock was set back by an hour ends an hour
// too late by that clock.
func TestAClockThatWasSetBackHoldsNothingForLongerThanItWasMeantTo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, client := open(t)
	name := rand.Text()
	circuit, blocks, tokens := "test:{"+name+"}:circuit", "test:{"+name+"}:blocks", "test:{"+name+"}:tokens"
	t.Cleanup(func() { client.Del(context.Background(), circuit, blocks, tokens) })
	const window, hour = 300 * time.Millisecond, time.Hour
	take := func(block string) int {
		n, err := store.Take(ctx, name, fleet.Claim{Block: block, Tokens: 1, Allowance: 20, Window: window})
		require.NoError(t, err)
		return n
	}
	for i := range 20 {
		require.Equal(t, 1, take(strconv.Itoa(i)))
	}
	require.LessOrEqual(t, client.PTTL(ctx, blocks).Val(), window+time.Second, "what nobody uses is dropped")
	for i := range 20 {
		client.ZIncrBy(ctx, blocks, float64(hour.Milliseconds()), "b:"+strconv.Itoa(i))
	}
	require.Eventually(t, func() bool { return take("new") == 1 }, 10*time.Second, window/10)

	later := func(field string) { client.HIncrBy(ctx, circuit, field, hour.Milliseconds()) }
	trip := func(voter string) backoff.BreakerState {
		c, err := store.Trip(ctx, name, fleet.Trip{By: voter, Voter: voter, Open: time.Second, Quorum: 2})
		require.NoError(t, err)
		return c.State()
	}
	require.Equal(t, backoff.BreakerClosed, trip("a"))
	later("v:a")
	require.Equal(t, backoff.BreakerClosed, trip("b"), "the vote of a is over")
	require.Equal(t, backoff.BreakerOpen, trip("c"))
	for _, field := range []string{"o", "l"} { // then it is half-open, and the lease is over
		later(field)
		later("e")
		c, err := store.Lease(ctx, name, "holder of "+field, time.Second)
		require.NoError(t, err)
		require.True(t, c.Mine, field)
	}
	require.LessOrEqual(t, client.PTTL(ctx, circuit).Val(), time.Second+fleet.Linger)
}

// BenchmarkRoundTrip loads a circuit again and again.
func BenchmarkRoundTrip(b *testing.B) {
	s, _ := open(b)
	for b.Loop() {
		if _, err := s.Load(b.Context(), "0"); err != nil {
			b.Fatal(err)
		}
	}
}
