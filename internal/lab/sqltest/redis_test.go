//go:build integration

package sqltest

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func startRedis(t *testing.T, args ...string) *daemon {
	p, port := newPlace(t), freePort(t)
	return newDaemon(t, "127.0.0.1:"+port, func() *exec.Cmd {
		return p.command(context.Background(), binary(t, "redis-server"), append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", p.dir,
			"--repl-diskless-sync-delay", "0"}, args...)...)
	})
}

// The master of Redis hands over to its replica, and is a replica itself from then
// on, which refuses writes with READONLY. Its name leads to the new master.
func TestAFailoverOfRedisIsSurvived(t *testing.T) {
	a := startRedis(t)
	host, port, err := net.SplitHostPort(a.addr)
	require.NoError(t, err)
	b := startRedis(t, "--replicaof", host+" "+port)
	name := newName(t, a.addr)
	client := redis.NewClient(&redis.Options{Addr: name.Addr().String(), MaxRetries: -1, DialerRetries: 1, PoolSize: 20})
	defer client.Close()
	direct := redis.NewClient(&redis.Options{Addr: a.addr})
	defer direct.Close()

	var refused, done atomic.Int64
	policy := backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: 5 * time.Millisecond, Max: 100 * time.Millisecond},
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind != backoff.EventRetry {
				return
			}
			if redis.IsReadOnlyError(e.Err) && e.Class == backoff.ClassRetryable {
				refused.Add(1)
			}
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop := make(chan struct{})
	var workers sync.WaitGroup
	errs := make([]error, 20)
	for w := range errs {
		workers.Go(func() {
			for errs[w] == nil {
				select {
				case <-stop:
					return
				default:
				}
				if errs[w] = policy.Do(ctx, func(ctx context.Context) error { return client.Incr(ctx, "n").Err() }); errs[w] == nil {
					done.Add(1)
				}
			}
		})
	}
	until := func(so func() bool) { require.Eventually(t, so, 30*time.Second, time.Millisecond) }
	until(func() bool { return done.Load() > 100 })
	until(func() bool { return direct.Do(ctx, "FAILOVER").Err() == nil }) // once the replica is there
	until(func() bool { return refused.Load() > 0 })
	before := done.Load()
	name.target.Store(&b.addr)
	until(func() bool { return done.Load() > before+100 })
	close(stop)
	workers.Wait()
	require.NoError(t, errors.Join(errs...))
	n, err := client.Get(ctx, "n").Int64()
	require.NoError(t, err)
	require.Equal(t, done.Load(), n, "each was counted once")
}
