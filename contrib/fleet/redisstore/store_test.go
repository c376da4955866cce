package redisstore

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestAClientThatDoesNotHeedItsContextIsRefused(t *testing.T) {
	for _, client := range []redis.UniversalClient{
		redis.NewClient(&redis.Options{}),
		redis.NewClusterClient(&redis.ClusterOptions{}),
		redis.NewRing(&redis.RingOptions{}),
		redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m"}),
	} {
		_, err := New(client, "")
		require.ErrorContains(t, err, "ContextTimeoutEnabled is false")
		require.NoError(t, client.Close())
	}
	_, err := New(nil, "")
	require.ErrorContains(t, err, "client is nil")
}

func TestAPrefixWithBracesIsRefused(t *testing.T) {
	client := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	defer client.Close()
	for _, prefix := range []string{"{", "a}", "{app}"} {
		_, err := New(client, prefix)
		require.ErrorContains(t, err, "without braces")
	}
}

// Any name gives one pair of braces with something in it.
func TestAllKeysOfANameHaveTheSameSlot(t *testing.T) {
	client := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	defer client.Close()
	s, err := New(client, "app")
	require.NoError(t, err)
	require.Equal(t, "app:{db}:circuit", s.key("db", "circuit"))
	require.Equal(t, "app:{%7D%7Bx%00}:circuit", s.key("}{x\x00", "circuit"))
	require.Equal(t, []string{"app:{db}:blocks", "app:{db}:tokens"}, s.account("db"))
}

func TestDurationsAreRoundedUpToMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		-1: 0, 0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Hour: 3600_000, math.MaxInt64: math.MaxInt64/1000_000 + 1,
	} {
		require.Equal(t, want, millis(d), "%d", d)
	}
}
