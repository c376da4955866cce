package bench

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/googleapis/gax-go/v2"
	jpillora "github.com/jpillora/backoff"
	lestrrat "github.com/lestrrat-go/backoff/v2"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/gobackoff/backoff"
)

// BenchmarkDelay computes the eight waits before retries 1 to 8: 100 ms,
// doubled up to 30 s, under full jitter. An iteration is all eight, lest the
// calls around a draw hide what it costs. cenkalti, gax, sethvargo and k8s keep
// a state, and begin it anew each time, and so does lestrrat, with a generator
// for each goroutine; their jitters, and jpillora's, are others than ours. aws
// begins with 1 s, and draws nothing once it is at 30 s. eapache and failsafe
// export nothing of the kind.
func BenchmarkDelay(b *testing.B) { benchmarkDelay(b, serial) }

// BenchmarkDelayParallel is BenchmarkDelay on all processors at once. All
// goroutines share one policy; what has a state is one per goroutine.
func BenchmarkDelayParallel(b *testing.B) { benchmarkDelay(b, parallel) }

func benchmarkDelay(b *testing.B, run func(*testing.B, func() round, time.Duration)) {
	const full = 12750 * time.Millisecond // half of 25.5 s
	for _, c := range []struct {
		name    string
		prepare func() round
		mean    time.Duration // of the sum of all eight
	}{
		{"minimal", minimalDelays, full},
		{"backoff", ownDelays(backoff.Policy{}), full},
		{"backoff-explicit", ownDelays(backoff.Policy{Schedule: backoff.Exponential{Initial: initial, Max: limit}, Jitter: backoff.FullJitter, MaxDelay: limit}), full},
		{"backoff-pow", ownDelays(backoff.Policy{Schedule: backoff.Exponential{Multiplier: 1.9}}), 9380 * time.Millisecond},
		{"cenkalti", cenkaltiDelays, 2 * full},
		{"avast", avastDelays, full},
		{"sethvargo", sethvargoDelays, full},
		{"gax", gaxDelays, full},
		{"k8s", k8sDelays, 3 * full},
		{"aws", awsDelays, 105500 * time.Millisecond},
		{"lestrrat", lestrratDelays, 2 * full},
		{"jpillora", jpilloraDelays, 13150 * time.Millisecond},
	} {
		b.Run(c.name, func(b *testing.B) { run(b, c.prepare, c.mean) })
	}
}

func minimalDelays() round {
	return func() (sum time.Duration) {
		for i := 1; i <= waits; i++ {
			sum += standard.delay(i)
		}
		return sum
	}
}

func ownDelays(policy backoff.Policy) func() round {
	return func() round {
		return func() (sum time.Duration) {
			for i := 1; i <= waits; i++ {
				sum += policy.Delay(i)
			}
			return sum
		}
	}
}

func cenkaltiDelays() round {
	e := &cenkalti.ExponentialBackOff{InitialInterval: initial, MaxInterval: limit, Multiplier: 2, RandomizationFactor: 0.5}
	return func() (sum time.Duration) {
		e.Reset()
		for range waits {
			sum += e.NextBackOff()
		}
		return sum
	}
}

var avastRetrier = avast.New(avastOptions(context.Background(), usual)...)

func avastDelays() round {
	return func() (sum time.Duration) {
		for i := range uint(waits) {
			sum += avast.FullJitterBackoffDelay(i, errDown, avastRetrier)
		}
		return sum
	}
}

func sethvargoDelays() round {
	return func() (sum time.Duration) {
		s := sethvargo.WithFullJitter(sethvargo.WithCappedDuration(limit, sethvargo.NewExponential(initial)))
		for range waits {
			d, _ := s.Next()
			sum += d
		}
		return sum
	}
}

func gaxDelays() round {
	return func() (sum time.Duration) {
		g := gax.Backoff{Initial: initial, Max: limit}
		for range waits {
			sum += g.Pause()
		}
		return sum
	}
}

func k8sDelays() round {
	return func() (sum time.Duration) {
		k := k8sBackoff
		k.Steps = waits
		for range waits {
			sum += k.Step()
		}
		return sum
	}
}

var awsJitter = awsretry.NewExponentialJitterBackoff(limit)

func awsDelays() round {
	return func() (sum time.Duration) {
		for i := range waits {
			d, _ := awsJitter.BackoffDelay(i, errDown)
			sum += d
		}
		return sum
	}
}

func lestrratDelays() round {
	options := []lestrrat.ExponentialOption{lestrrat.WithMinInterval(initial), lestrrat.WithMaxInterval(limit),
		lestrrat.WithMultiplier(2), lestrrat.WithJitterFactor(0.5), lestrrat.WithRNG(rand.New(rand.NewPCG(1, 2)))}
	return func() (sum time.Duration) {
		interval := lestrrat.NewExponentialInterval(options...)
		for range waits {
			sum += interval.Next()
		}
		return sum
	}
}

func jpilloraDelays() round {
	j := &jpillora.Backoff{Min: initial, Max: limit, Jitter: true}
	return func() (sum time.Duration) {
		for i := range waits {
			sum += j.ForAttempt(float64(i))
		}
		return sum
	}
}

const waits = 8

// A round computes the waits and returns their sum.
type round func() time.Duration

func serial(b *testing.B, prepare func() round, mean time.Duration) {
	b.ReportAllocs()
	next := prepare()
	var sum time.Duration
	for b.Loop() {
		sum += next()
	}
	plausible(b, sum, mean)
}

func parallel(b *testing.B, prepare func() round, mean time.Duration) {
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
	plausible(b, time.Duration(sum.Load()), mean)
}

// plausible fails the benchmark unless the waits of a round are as long as they
// should be, on average. A few rounds prove nothing.
func plausible(b *testing.B, sum, mean time.Duration) {
	b.Helper()
	got := sum / time.Duration(b.N)
	if b.N >= 10_000 && (got < mean*95/100 || got > mean*105/100) {
		b.Fatalf("the waits of a round are %v on average, want %v", got, mean)
	}
}
