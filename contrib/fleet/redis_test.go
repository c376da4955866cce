//go:build integration

package fleet_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
	"github.com/gobackoff/backoff/contrib/fleet/redisstore"
)

// openRedis returns a store on a server, which must be running.
func openRedis(t testing.TB, client redis.UniversalClient) fleet.Store {
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(client, "test")
	require.NoError(t, err)
	return s
}

func TestASingleServerIsAStore(t *testing.T) {
	t.Parallel()
	testStore(t, func(t testing.TB) fleet.Store {
		return openRedis(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true}))
	})
}

// freePort returns a port that nobody listens on.
func freePort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// start starts a redis-server for this test. It returns the server's address
// and a function that kills it. If another program takes the port at the last
// moment, it tries another port.
func start(t testing.TB, args ...string) (addr string, kill func()) {
	for range 5 {
		port := freePort(t)
		own := append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, args...)
		ended, kill := launchServer(t, own...)
		addr = "127.0.0.1:" + port
		if answers(addr, ended) {
			return addr, kill
		}
	}
	require.Fail(t, "redis-server does not start")
	return "", nil
}

// launchServer starts a redis-server. ended is closed when the server ends.
func launchServer(t testing.TB, args ...string) (ended chan struct{}, kill func()) {
	cmd := exec.Command("redis-server", args...)
	require.NoError(t, cmd.Start(), "the test needs redis-server in PATH")
	ended = make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	kill = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	t.Cleanup(kill)
	return ended, kill
}

// answers waits until a server answers or has ended.
func answers(addr string, ended chan struct{}) bool {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
			if c.Ping(context.Background()).Err() == nil {
				return true
			}
		}
	}
	return false
}

// cluster starts a cluster of three servers.
func cluster(t testing.TB) (addrs []string) {
	var nodes []*redis.Client
	for range 3 {
		addr, _ := start(t, "--cluster-enabled", "yes", "--cluster-port", freePort(t))
		addrs = append(addrs, addr)
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		nodes = append(nodes, c)
	}
	ctx := t.Context()
	for i, c := range nodes { // as long as none knows another
		require.NoError(t, c.ClusterAddSlotsRange(ctx, i*16384/3, (i+1)*16384/3-1).Err())
		require.NoError(t, c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
	}
	for _, c := range nodes {
		for _, other := range nodes {
			host, port, _ := net.SplitHostPort(other.Options().Addr)
			bus, err := other.ConfigGet(ctx, "cluster-port").Result()
			require.NoError(t, err)
			require.NoError(t, c.Do(ctx, "CLUSTER", "MEET", host, port, bus["cluster-port"]).Err())
		}
	}
	for _, c := range nodes {
		require.Eventually(t, func() bool {
			info, err := c.ClusterInfo(ctx).Result()
			return err == nil && len(info) > 16 && info[:16] == "cluster_state:ok"
		}, 30*time.Second, 50*time.Millisecond)
	}
	return addrs
}

func TestAClusterIsAStore(t *testing.T) {
	t.Parallel()
	addrs := cluster(t)
	t.Run("store", func(t *testing.T) {
		testStore(t, func(t testing.TB) fleet.Store {
			return openRedis(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true}))
		})
	})
	// Otherwise this would test a single server.
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		n, err := c.DBSize(t.Context()).Result()
		require.NoError(t, err)
		require.Positive(t, n, "no key on %s", addr)
		require.NoError(t, c.Close())
	}
}

// sentinel starts a master with a replica, and a sentinel that watches both.
func sentinel(t testing.TB) (addr string, killMaster func()) {
	master, kill := start(t)
	host, port, _ := net.SplitHostPort(master)
	start(t, "--replicaof", host+" "+port)
	c := redis.NewClient(&redis.Options{Addr: master})
	defer c.Close()
	require.Eventually(t, func() bool { // the replica has caught up
		return c.Wait(t.Context(), 1, time.Second).Val() == 1
	}, 30*time.Second, 50*time.Millisecond)

	sentinelPort := freePort(t)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil,
		"port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor main %s %s 1\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n",
		sentinelPort, t.TempDir(), host, port), 0o600))
	launchServer(t, config, "--sentinel")
	addr = "127.0.0.1:" + sentinelPort
	s := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer s.Close()
	require.Eventually(t, func() bool {
		replicas, err := s.Replicas(t.Context(), "main").Result()
		return err == nil && len(replicas) == 1
	}, 30*time.Second, 50*time.Millisecond)
	return addr, kill
}

func TestAServerBehindSentinelIsAStore(t *testing.T) {
	t.Parallel()
	addr, killMaster := sentinel(t)
	client := func() redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{addr}, ContextTimeoutEnabled: true})
	}
	t.Run("store", func(t *testing.T) {
		testStore(t, func(t testing.TB) fleet.Store { return openRedis(t, client()) })
	})
	t.Run("no call fails in a failover", func(t *testing.T) {
		store := openRedis(t, client())
		hub := &fleet.Client{Store: store, Every: 20 * time.Millisecond}
		defer hub.Close(context.Background())
		breaker := &backoff.Breaker{Name: "failover", Shared: hub}
		ok := func() bool {
			err := breaker.Do(t.Context(), func(context.Context) error { return nil })
			require.NoError(t, err)
			// This takes less time than a failover.
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err = store.Load(ctx, "failover")
			return err == nil
		}
		for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
			require.Less(t, time.Since(began), 10*time.Second, "no store")
		}
		killMaster()
		require.False(t, ok(), "the store is gone")
		for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
			require.Less(t, time.Since(began), time.Minute, "no failover")
		}
	})
}

// BenchmarkRedis measures what a server can bear: as many calls at a time as 64
// connections carry. B/key is the memory of the server for a circuit and a
// budget.
func BenchmarkRedis(b *testing.B) {
	addr, _ := start(b)
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, PoolSize: 64})
	s := openRedis(b, client)
	var n atomic.Int64
	for name, call := range map[string]func(key string) error{
		"load": func(string) error { _, err := s.Load(b.Context(), "0"); return err },
		"trip": func(key string) error {
			_, err := s.Trip(b.Context(), key, fleet.Trip{By: key, Voter: key, Open: time.Minute})
			return err
		},
		"vote": func(key string) error {
			_, err := s.Trip(b.Context(), "v"+strconv.Itoa(int(n.Load()%100)), fleet.Trip{By: key, Voter: key, Open: time.Second, Quorum: 5, Seen: 1 << 40})
			return err
		},
		"take": func(key string) error {
			_, err := s.Take(b.Context(), "budget", fleet.Claim{Block: key, Tokens: 10, Allowance: 10_000, Window: 10 * time.Second})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := call(strconv.Itoa(int(n.Add(1)))); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			if name == "trip" {
				key := "test:{" + strconv.Itoa(int(n.Load())) + "}:circuit"
				b.ReportMetric(float64(client.MemoryUsage(b.Context(), key).Val()), "B/key")
			}
		})
	}
}
