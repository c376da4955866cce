//go:build integration

package redisstore

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gobackoff/backoff/contrib/fleet"
)

// BenchmarkStore measures what a server can bear: as many calls at a time as 64
// connections carry. B/key is the memory of the server for a circuit and a
// budget.
func BenchmarkStore(b *testing.B) {
	addr, _ := start(b)
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, PoolSize: 64})
	s := open(b, client)
	memory := func(key string) float64 {
		return float64(client.MemoryUsage(b.Context(), "test:{"+key+"}:"+"circuit").Val())
	}
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
				b.ReportMetric(memory(strconv.Itoa(int(n.Load()))), "B/key")
			}
		})
	}
}

// BenchmarkRoundTrip loads a circuit again and again.
func BenchmarkRoundTrip(b *testing.B) {
	s := open(b, redis.NewClient(&redis.Options{Addr: server, ContextTimeoutEnabled: true}))
	for b.Loop() {
		if _, err := s.Load(b.Context(), "0"); err != nil {
			b.Fatal(err)
		}
	}
}
