package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/googleapis/gax-go/v2"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/gobackoff/backoff"
)

// BenchmarkDelay computes the eight waits before retries 1 to 8: 100 ms,
// doubled up to 30 s, under full jitter. An iteration is all eight, lest the
// calls around a draw hide what it costs. cenkalti, gax, sethvargo and k8s keep
// a state, and begin it anew each time. aws begins with 1 s, and draws nothing
// once it is at 30 s. eapache and failsafe export nothing of the kind.
func BenchmarkDelay(b *testing.B) {
	const full = 12750 * time.Millisecond // half of 25.5 s
	for _, c := range []struct {
		name string
		next delay
		mean time.Duration // of the sum of all eight
	}{
		{"minimal", standard.delay, full},
		{"backoff", backoff.Policy{}.WaitBefore, full},
		{"backoff-explicit", backoff.Policy{Schedule: backoff.Exponential{Initial: initial, Max: limit}, Jitter: backoff.FullJitter, MaxDelay: limit}.WaitBefore, full},
		{"backoff-pow", backoff.Policy{Schedule: backoff.Exponential{Multiplier: 1.9}}.WaitBefore, 9380 * time.Millisecond},
		{"cenkalti", cenkaltiDelay(), 2 * full},
		{"avast", avastDelay(), full},
		{"sethvargo", sethvargoDelay(), full},
		{"gax", gaxDelay(), full},
		{"k8s", k8sDelay(), 3 * full},
		{"aws", awsDelay(), 105500 * time.Millisecond},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var sum time.Duration
			for b.Loop() {
				sum += round(c.next)
			}
			plausible(b, sum, c.mean)
		})
	}
}

// A delay computes the wait before a retry, from 1.
type delay = func(retry int) time.Duration

func cenkaltiDelay() delay {
	e := &cenkalti.ExponentialBackOff{InitialInterval: initial, MaxInterval: limit, Multiplier: 2, RandomizationFactor: 0.5}
	return func(retry int) time.Duration {
		if retry == 1 {
			e.Reset()
		}
		return e.NextBackOff()
	}
}

func avastDelay() delay {
	r := avast.New(avastOptions(context.Background(), usual)...)
	return func(retry int) time.Duration { return avast.FullJitterBackoffDelay(uint(retry-1), errDown, r) }
}

func sethvargoDelay() delay {
	var s sethvargo.Backoff
	return func(retry int) time.Duration {
		if retry == 1 {
			s = sethvargo.WithFullJitter(sethvargo.WithCappedDuration(limit, sethvargo.NewExponential(initial)))
		}
		d, _ := s.Next()
		return d
	}
}

func gaxDelay() delay {
	var g gax.Backoff
	return func(retry int) time.Duration {
		if retry == 1 {
			g = gax.Backoff{Initial: initial, Max: limit}
		}
		return g.Pause()
	}
}

func k8sDelay() delay {
	k := k8sBackoff
	return func(retry int) time.Duration {
		if retry == 1 {
			k = k8sBackoff
			k.Steps = waits
		}
		return k.Step()
	}
}

func awsDelay() delay {
	jitter := awsretry.NewExponentialJitterBackoff(limit)
	return func(retry int) time.Duration {
		d, _ := jitter.BackoffDelay(retry-1, errDown)
		return d
	}
}

const waits = 8

// round adds the eight waits.
func round(next delay) (sum time.Duration) {
	for retry := 1; retry <= waits; retry++ {
		sum += next(retry)
	}
	return sum
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

const (
	waiters = 100_000
	waitEnv = "BACKOFF_BENCH_WAIT" // names the call, in the process that measures it
)

// waitingCalls wait an hour after op has failed, or until ctx ends.
var waitingCalls = map[string]func(ctx context.Context, op operation) error{
	"minimal": (&minimal{attempts: attempts, initial: time.Hour, flat: true}).do,
	"backoff": hourly.Do,
	"backoff-range": func(ctx context.Context, op operation) error {
		r := hourly.Start(ctx)
		for ctx := range r.Attempts() {
			r.Fail(op(ctx))
		}
		return r.Err()
	},
}

var hourly = backoff.Policy{Schedule: backoff.Constant(time.Hour), Jitter: backoff.NoJitter}

// BenchmarkWait100k is an outage: the first attempt of 100,000 calls has
// failed, all of them wait an hour, and then one context is cancelled. It
// reports the memory per waiting goroutine, all in all and in stacks, and the
// time until the last one has returned. It fails if a stack has more than
// 4 KiB. The floor is a goroutine that waits on a timer and its context.
//
// Each measurement is a process of its own, as the runtime reuses what dead
// goroutines leave behind.
func BenchmarkWait100k(b *testing.B) {
	for name := range waitingCalls {
		b.Run(name, func(b *testing.B) {
			var bytes, stack, release float64
			for b.Loop() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), waitEnv+"="+name)
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				must(b, err)
				_, err = fmt.Sscan(string(out), &bytes, &stack, &release)
				must(b, err)
			}
			b.ReportMetric(0, "ns/op") // of starting a process
			b.ReportMetric(bytes, "bytes/waiter")
			b.ReportMetric(stack, "stack-bytes/waiter")
			b.ReportMetric(release, "ms-to-release")
			if stack > 4<<10+100 {
				b.Errorf("a waiting call has %.0f bytes of stack, want about 4 KiB", stack)
			}
		})
	}
}

func TestMain(m *testing.M) {
	if name := os.Getenv(waitEnv); name != "" {
		measureWait(waitingCalls[name])
		return
	}
	os.Exit(m.Run())
}

// measureWait prints the bytes and the bytes of stack per waiting call, and the
// milliseconds until all have returned.
func measureWait(call func(context.Context, operation) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var called, failed atomic.Int64
	op := func(context.Context) error { called.Add(1); return errDown }
	idle, before := parked(), memory()
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			if call(ctx, op) != nil {
				failed.Add(1)
			}
		})
	}
	for parked() < idle+waiters {
		time.Sleep(time.Millisecond)
	}
	after, began := memory(), time.Now()
	cancel()
	all.Wait()
	release := time.Since(began)
	if called.Load() != waiters || failed.Load() != waiters {
		panic(fmt.Sprint(called.Load(), " attempts and ", failed.Load(), " errors"))
	}
	stack := after.StackInuse - before.StackInuse
	bytes := after.HeapAlloc - before.HeapAlloc + stack
	fmt.Println(float64(bytes)/waiters, float64(stack)/waiters, release.Milliseconds())
}

// memory returns what is in use, garbage collected.
func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// parked returns the number of goroutines that wait.
func parked() int {
	sample := []metrics.Sample{{Name: "/sched/goroutines/waiting:goroutines"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}
