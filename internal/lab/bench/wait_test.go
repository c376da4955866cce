package bench

import (
	"bytes"
	"context"
	"encoding/json"
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
	waitEnv = "BACKOFF_BENCH_WAIT" // names the candidate, in the process that measures it
)

// BenchmarkWait100k is an outage: the first attempt of 100,000 calls has
// failed, all of them wait an hour, and then one context is cancelled. It
// reports the memory per waiting goroutine, all in all and in stacks, and the
// time until the last one has returned. The floor is a goroutine that waits on
// a timer and its context.
//
// Each measurement is a process of its own, as the runtime reuses what dead
// goroutines leave behind.
func BenchmarkWait100k(b *testing.B) {
	names := []string{"minimal", "backoff", "backoff-range"}
	for _, p := range peers {
		names = append(names, p.name)
	}
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			var total waited
			for b.Loop() {
				w := measureWait(b, name)
				total.Bytes += w.Bytes
				total.Stack += w.Stack
				total.Release += w.Release
			}
			n := float64(b.N)
			b.ReportMetric(0, "ns/op") // of starting a process
			b.ReportMetric(total.Bytes/n, "bytes/waiter")
			b.ReportMetric(total.Stack/n, "stack-bytes/waiter")
			b.ReportMetric(total.Release/n, "ms-to-release")
		})
	}
}

// waited is what the process reports.
type waited struct {
	Bytes, Stack float64 // per waiter
	Release      float64 // milliseconds
}

func measureWait(b *testing.B, name string) waited {
	b.Helper()
	self, err := os.Executable()
	must(b, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), waitEnv+"="+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(b, err)
	var w waited
	must(b, json.Unmarshal(bytes.TrimSpace(out), &w))
	return w
}

// waitProcess measures one candidate and returns the status of the process.
func waitProcess(name string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var called, failed atomic.Int64
	call := waiting(ctx, name, func(context.Context) error { called.Add(1); return errDown })
	if call == nil {
		fmt.Fprintln(os.Stderr, "no such candidate:", name)
		return 2
	}

	idle := parked()
	before := memory()
	var all sync.WaitGroup
	all.Add(waiters)
	for range waiters {
		go func() {
			if call() != nil {
				failed.Add(1)
			}
			all.Done()
		}()
	}
	for parked() < idle+waiters {
		time.Sleep(time.Millisecond)
	}
	after := memory()

	began := time.Now()
	cancel()
	all.Wait()
	release := time.Since(began)

	if called.Load() != waiters || failed.Load() != waiters {
		fmt.Fprintf(os.Stderr, "%d attempts and %d errors, want %d of each\n", called.Load(), failed.Load(), waiters)
		return 1
	}
	err := json.NewEncoder(os.Stdout).Encode(waited{
		Bytes:   float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse) / waiters,
		Stack:   float64(after.StackInuse-before.StackInuse) / waiters,
		Release: release.Seconds() * 1000,
	})
	if err != nil {
		return 1
	}
	return 0
}

// waiting returns a call that waits an hour after op has failed, or until ctx ends, or nil.
func waiting(ctx context.Context, name string, op operation) func() error {
	policy := backoff.Policy{Schedule: backoff.Constant(time.Hour), Jitter: backoff.NoJitter}
	switch name {
	case "minimal":
		bare := minimal{attempts: attempts, initial: time.Hour, flat: true}
		return func() error { return bare.do(ctx, op) }
	case "backoff":
		return func() error { return policy.Do(ctx, op) }
	case "backoff-range":
		return func() error {
			r := policy.Start(ctx)
			for ctx := range r.Attempts() {
				err := op(ctx)
				if err == nil {
					break
				}
				r.Fail(err)
			}
			return r.Err()
		}
	}
	for _, p := range peers {
		if p.name == name {
			return p.prepare(ctx, loop{attempts: attempts, pause: time.Hour}, op)
		}
	}
	return nil
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
