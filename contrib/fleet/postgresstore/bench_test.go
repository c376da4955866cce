//go:build integration

package postgresstore

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobackoff/backoff/contrib/fleet"
)

// BenchmarkStore measures what a server can bear, on as many connections as a
// pool opens.
func BenchmarkStore(b *testing.B) {
	pool := connect(b)
	if err := Migrate(b.Context(), pool); err != nil {
		b.Fatal(err)
	}
	s, err := New(pool)
	if err != nil {
		b.Fatal(err)
	}
	run := time.Now().String()
	var n atomic.Int64
	for name, call := range map[string]func(key string) error{
		"load": func(string) error { _, err := s.Load(b.Context(), "0"); return err },
		"trip": func(key string) error {
			_, err := s.Trip(b.Context(), key, fleet.Trip{By: key, Voter: key, Open: time.Second})
			return err
		},
		"take": func(key string) error {
			_, err := s.Take(b.Context(), run, fleet.Claim{Block: key, Tokens: 10, Allowance: 10_000, Window: 10 * time.Second})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := call(strconv.Itoa(int(n.Add(1)))); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
