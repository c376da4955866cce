package bench

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(waitEnv); name != "" {
		os.Exit(waitProcess(name))
	}
	os.Exit(m.Run())
}

var errDown = errors.New("down")

const (
	attempts = 4
	initial  = 100 * time.Millisecond
	limit    = 30 * time.Second
)

// calls counts what operations without variables of their own are called. It is
// written by one goroutine.
var calls int

// succeed is a plain function: there is nothing to capture.
func succeed(context.Context) error { calls++; return nil }

// start returns a context that can end, as those of real calls can, and begins
// to count.
func start(b *testing.B) context.Context {
	b.ReportAllocs()
	reportCPU(b)
	calls = 0
	return b.Context()
}

// cpuEnv has the benchmarks report their processor time.
const cpuEnv = "BACKOFF_BENCH_CPU"

func reportCPU(b *testing.B) {
	if os.Getenv(cpuEnv) == "" {
		return
	}
	begun := spent()
	b.Cleanup(func() { b.ReportMetric(float64(spent()-begun)/float64(b.N), "cpu-ns/op") })
}

// spent is the processor time of the process so far.
func spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// expect fails the benchmark unless its operation was called so often per
// iteration.
func expect(b *testing.B, got, each int) {
	b.Helper()
	if want := b.N * each; got != want {
		b.Fatalf("the operation was called %d times in %d iterations, want %d", got, b.N, want)
	}
}

// must fails the benchmark for an error.
func must(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// mustNot fails the benchmark unless err is a failure of the operation.
func mustNot(b *testing.B, err error) {
	if err == nil {
		b.Helper()
		b.Fatal("no error")
	}
}
