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

	"github.com/gobackoff/backoff"
)

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
