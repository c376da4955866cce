package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	eapache "github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/gobackoff/backoff"
	"github.com/googleapis/gax-go/v2"
	sethvargo "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"
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
	for _, name := range []string{"minimal", "backoff", "backoff-range", "cenkalti", "avast", "avast-ctx", "sethvargo", "failsafe", "eapache", "gax", "k8s", "aws"} {
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
	call, ok := waiting(ctx, func() error { called.Add(1); return errDown })[name]
	if !ok {
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

// waiting returns the candidates, each as a function that waits an hour after
// op has failed, or until ctx ends.
func waiting(ctx context.Context, op func() error) map[string]func() error {
	opCtx := func(context.Context) error { return op() }
	policy := backoff.Policy{Schedule: backoff.Constant(time.Hour), Jitter: backoff.NoJitter}
	bare := minimal{attempts: attempts, initial: time.Hour, flat: true}
	avastOptions := []avast.Option{avast.Context(ctx), avast.Attempts(attempts), avast.Delay(time.Hour),
		avast.DelayType(avast.FixedDelay), avast.LastErrorOnly(true)}
	avastShared := avast.New(avastOptions...)
	eapacheShared := eapache.New(eapache.ConstantBackoff(attempts-1, time.Hour), nil)
	down := sethvargo.RetryableError(errDown)

	all := waitingKits(ctx, op)
	maps.Copy(all, map[string]func() error{
		"minimal": func() error { return bare.do(ctx, opCtx) },
		"backoff": func() error { return policy.Do(ctx, opCtx) },
		"backoff-range": func() error {
			r := policy.Start(ctx)
			for range r.Attempts() {
				if err := op(); err != nil {
					r.Fail(err)
					continue
				}
				break
			}
			return r.Err()
		},
		"cenkalti": func() error {
			_, err := cenkalti.Retry(ctx, func() (struct{}, error) { return struct{}{}, op() },
				cenkalti.WithBackOff(cenkalti.NewConstantBackOff(time.Hour)), cenkalti.WithMaxElapsedTime(0))
			return err
		},
		"avast":     func() error { return avastShared.Do(op) },
		"avast-ctx": func() error { return avast.New(avastOptions...).Do(op) },
		"sethvargo": func() error {
			constant := sethvargo.NewConstant(time.Hour)
			return sethvargo.Do(ctx, sethvargo.WithMaxRetries(attempts-1, constant), func(context.Context) error {
				if op() != nil {
					return down
				}
				return nil
			})
		},
		"eapache": func() error { return eapacheShared.RunCtx(ctx, opCtx) },
	})
	return all
}

func waitingKits(ctx context.Context, op func() error) map[string]func() error {
	failsafePolicy := retrypolicy.NewBuilder[any]().WithMaxAttempts(attempts).WithDelay(time.Hour).Build()
	failsafeShared := failsafe.With(failsafePolicy).WithContext(ctx)
	gaxOption := gax.WithRetry(func() gax.Retryer { return pauseless(time.Hour) })
	awsShared := awsRetry(func(o *awsretry.StandardOptions) { o.Backoff = awsPause(time.Hour) })

	return map[string]func() error{
		"failsafe": func() error { return failsafeShared.Run(op) },
		"gax": func() error {
			return gax.Invoke(ctx, func(context.Context, gax.CallSettings) error { return op() }, gaxOption)
		},
		"k8s": func() error {
			return wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: time.Hour, Steps: attempts}, func(context.Context) (bool, error) {
				return op() == nil, nil
			})
		},
		"aws": func() error {
			_, _, err := awsShared.HandleFinalize(ctx, awsInput{}, awsOperation(func(context.Context, awsInput) (out awsOutput, data awsMetadata, err error) {
				return out, data, op()
			}))
			return err
		},
	}
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
