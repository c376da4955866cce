package bench

import (
	"sync/atomic"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/gobackoff/backoff"
	"github.com/googleapis/gax-go/v2"
	sethvargo "github.com/sethvargo/go-retry"
)

// BenchmarkDelay computes the eight waits before retries 1 to 8: 100 ms, doubled up to
// 30 s, under full jitter. An iteration is all eight, lest the calls around a draw
// hide what it costs. cenkalti, gax, sethvargo and k8s keep a state, and begin it anew
// each time; the jitter of cenkalti and k8s is another. eapache and failsafe export
// nothing of the kind.
func BenchmarkDelay(b *testing.B) { benchmarkDelay(b, serial) }

// BenchmarkDelayParallel is BenchmarkDelay on all processors at once. All goroutines
// share one policy; what has a state is one per goroutine.
func BenchmarkDelayParallel(b *testing.B) { benchmarkDelay(b, parallel) }

func benchmarkDelay(b *testing.B, run func(*testing.B, func() round)) {
	b.Run("minimal", func(b *testing.B) {
		run(b, func() round {
			return func() (sum time.Duration) {
				for i := 1; i <= waits; i++ {
					sum += standard.delay(i)
				}
				return sum
			}
		})
	})
	for _, c := range []struct {
		name   string
		policy backoff.Policy
	}{
		{"backoff", backoff.Policy{}},
		{"backoff-explicit", backoff.Policy{Schedule: backoff.Exponential{Initial: initial, Max: limit}, Jitter: backoff.FullJitter, MaxDelay: limit}},
		{"backoff-pow", backoff.Policy{Schedule: backoff.Exponential{Multiplier: 1.9}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := &c.policy
			run(b, func() round {
				return func() (sum time.Duration) {
					for i := 1; i <= waits; i++ {
						sum += p.Delay(i)
					}
					return sum
				}
			})
		})
	}
	b.Run("cenkalti", func(b *testing.B) {
		run(b, func() round {
			e := &cenkalti.ExponentialBackOff{InitialInterval: initial, MaxInterval: limit, Multiplier: 2, RandomizationFactor: 0.5}
			return func() (sum time.Duration) {
				e.Reset()
				for range waits {
					sum += e.NextBackOff()
				}
				return sum
			}
		})
	})
	b.Run("avast", func(b *testing.B) {
		r := avast.New(avastOptions(b.Context())...)
		run(b, func() round {
			return func() (sum time.Duration) {
				for i := range uint(waits) {
					sum += avast.FullJitterBackoffDelay(i, errDown, r)
				}
				return sum
			}
		})
	})
	b.Run("sethvargo", func(b *testing.B) {
		run(b, func() round {
			return func() (sum time.Duration) {
				s := sethvargo.WithFullJitter(sethvargo.WithCappedDuration(limit, sethvargo.NewExponential(initial)))
				for range waits {
					d, _ := s.Next()
					sum += d
				}
				return sum
			}
		})
	})
	b.Run("gax", func(b *testing.B) {
		run(b, func() round {
			return func() (sum time.Duration) {
				g := gax.Backoff{Initial: initial, Max: limit}
				for range waits {
					sum += g.Pause()
				}
				return sum
			}
		})
	})
	b.Run("k8s", func(b *testing.B) {
		run(b, func() round {
			return func() (sum time.Duration) {
				k := k8sBackoff
				k.Steps = waits
				for range waits {
					sum += k.Step()
				}
				return sum
			}
		})
	})
}

const waits = 8

// A round computes the waits and returns their sum.
type round func() time.Duration

func serial(b *testing.B, prepare func() round) {
	b.ReportAllocs()
	next := prepare()
	var sum time.Duration
	for b.Loop() {
		sum += next()
	}
	plausible(b, sum)
}

func parallel(b *testing.B, prepare func() round) {
	b.ReportAllocs()
	var sum atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		next := prepare()
		var own time.Duration
		for pb.Next() {
			own += next()
		}
		sum.Add(int64(own))
	})
	plausible(b, time.Duration(sum.Load()))
}

// plausible fails the benchmark unless a round of waits takes as long as it should on
// average: half of 25.5 s under full jitter, 25.5 s under cenkalti's and 38.25 s
// under that of k8s. A few rounds prove nothing.
func plausible(b *testing.B, sum time.Duration) {
	b.Helper()
	if mean := sum / time.Duration(b.N); b.N >= 10_000 && (mean < 5*time.Second || mean > 40*time.Second) {
		b.Fatalf("the waits of a round are %v on average", mean)
	}
}
