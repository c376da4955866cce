package bench

import (
	"context"
	"errors"
	"flag"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var errDown = errors.New("down")

const (
	attempts = 4
	initial  = 100 * time.Millisecond
	limit    = 30 * time.Second
)

// calls counts the calls of operations without variables of their own. One goroutine writes it.
var calls int

// succeed is a plain function: it captures nothing.
func succeed(context.Context) error { calls++; return nil }

// start returns a context that can end, as those of real calls can, and begins to count.
func start(b *testing.B) context.Context {
	b.ReportAllocs()
	calls = 0
	return b.Context()
}

// expect fails the benchmark unless its operation was called so often in each iteration.
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

// mustNot fails the benchmark unless err is a failure.
func mustNot(b *testing.B, err error) {
	if err == nil {
		b.Helper()
		b.Fatal("no error")
	}
}

// minimal is the loop one writes by hand: capped doubling under full jitter,
// and pooled timers. It has no options, no reasons, and no errors of its own.
type minimal struct {
	attempts       int
	initial, limit time.Duration
	flat           bool // the delay is always initial, without jitter
}

var standard = minimal{attempts: attempts, initial: initial, limit: limit}

// do is kept out of line, as a function that is too long to be inlined: so the
// floor includes one call, and what the compiler does to op is the same
// everywhere.
//
//go:noinline
func (m *minimal) do(ctx context.Context, op func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(ctx)
	if err == nil {
		return nil
	}
	return m.redo(ctx, op, err)
}

func (m *minimal) redo(ctx context.Context, op func(context.Context) error, err error) error {
	for n := 1; n < m.attempts; n++ {
		if d := m.delay(n); d > 0 && !sleep(ctx, d) {
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err = op(ctx); err == nil {
			return nil
		}
	}
	return err
}

// doMarked is do for operations that may mark an error as permanent.
//
//go:noinline
func (m *minimal) doMarked(ctx context.Context, op func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(ctx)
	if err == nil {
		return nil
	}
	return m.redoMarked(ctx, op, err)
}

func (m *minimal) redoMarked(ctx context.Context, op func(context.Context) error, err error) error {
	for n := 1; n < m.attempts; n++ {
		if _, final := errors.AsType[*mark](err); final {
			return err
		}
		if d := m.delay(n); d > 0 && !sleep(ctx, d) {
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err = op(ctx); err == nil {
			return nil
		}
	}
	return err
}

//go:noinline
func minimalValue[T any](ctx context.Context, m *minimal, op func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	v, err := op(ctx)
	if err == nil {
		return v, nil
	}
	err = m.redo(ctx, func(ctx context.Context) (err error) {
		v, err = op(ctx)
		return err
	}, err)
	return v, err
}

// doExhausted is do with an error that says how it ended.
//
//go:noinline
func (m *minimal) doExhausted(ctx context.Context, op func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(ctx)
	if err == nil {
		return nil
	}
	if err = m.redo(ctx, op, err); err == nil {
		return nil
	}
	return &exhausted{m.attempts, err}
}

func (m *minimal) delay(retry int) time.Duration {
	if m.flat {
		return m.initial
	}
	d := m.limit
	if retry <= bits.LeadingZeros64(uint64(m.initial)) {
		d = min(d, m.initial<<(retry-1))
	}
	wait, _ := bits.Mul64(rand.Uint64(), uint64(d))
	return time.Duration(wait)
}

var timers = sync.Pool{New: func() any { return time.NewTimer(0) }}

func sleep(ctx context.Context, d time.Duration) bool {
	t := timers.Get().(*time.Timer)
	t.Reset(d)
	select {
	case <-t.C:
		timers.Put(t)
		return true
	case <-ctx.Done():
		t.Stop()
		return false
	}
}

// mark is an error that ends the loop.
type mark struct{ err error }

func (m *mark) Error() string { return m.err.Error() }
func (m *mark) Unwrap() error { return m.err }

// exhausted is an error that tells the number of attempts.
type exhausted struct {
	attempts int
	last     error
}

func (e *exhausted) Error() string { return "gave up: " + e.last.Error() }
func (e *exhausted) Unwrap() error { return e.last }

// local is a counter of its processor: the least that a success can write where many processors
// count.
type local struct {
	cells []paddedCount
	pool  sync.Pool
}

type paddedCount struct {
	n atomic.Int64
	_ [56]byte
}

func newLocal() *local {
	l := &local{cells: make([]paddedCount, runtime.GOMAXPROCS(0))}
	var next atomic.Int64
	l.pool.New = func() any { return &l.cells[int(next.Add(1))%len(l.cells)] }
	return l
}

func (l *local) add() {
	c := l.pool.Get().(*paddedCount)
	c.n.Add(1)
	l.pool.Put(c)
}

// together runs calls on all processors at once, each with the context of the benchmark. Each
// goroutine counts the calls of its own operation, and the counts must add up.
func together(b *testing.B, shared prepared) {
	b.Helper()
	b.ReportAllocs()
	var sum atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		own := new(struct { // on a cache line that no other goroutine writes
			_ [64]byte
			n int
			_ [64]byte
		})
		call := shared(func(context.Context) error { own.n++; return nil })
		for pb.Next() {
			if err := call(); err != nil {
				b.Error(err)
			}
		}
		sum.Add(int64(own.n))
	})
	expect(b, int(sum.Load()), 1)
}

var speed = flag.Bool("speed", false, "compare what calls cost with code written by hand, on a machine that does nothing else")

// TestSpeed prints what calls cost, as a multiple of code written by hand for the same work, and
// fails where a bar is missed. Both run in turn, in one process, and the least of five rounds
// counts: noise only adds. Package size holds what Do adds to a program.
func TestSpeed(t *testing.T) {
	if !*speed {
		t.Skip("it needs a quiet machine: make speed")
	}
	if err := flag.Set("test.benchtime", "100ms"); err != nil {
		t.Fatal(err)
	}
	get := func(i int) func(*testing.B) { return httpCalls(clients[i].make, http.MethodGet, nil, 0) }
	t.Logf("%-34s %10s %10s %8s %8s", "", "ours, ns", "theirs, ns", "ratio", "at most")
	for _, c := range []struct {
		what         string
		theirs, ours func(*testing.B)
		most         float64
		allocations  int64
	}{
		{"success", minimalSuccess, backoffSuccess, 1.8, 0},
		{"breaker", minimalBreaker, backoffBreaker, 1.8, 0},
		{"loop", minimalLoop, backoffLoop, 3, 0},
		{"three failures at once", minimalFailures(0), backoffFailures(0), 6, 0},
		{"breaker and policy", minimalGuards, breakerAndPolicy, 3, 0},
		{"guards around a function", guardsOfTwoWords, ownService, 3, 0},
		{"a retry that a budget grants", grantByHand, grant, 3, 0},
		{"a value", minimalOfValue, backoffOfValue, 4, 0},
		{"HTTP GET, beside go-retryablehttp", get(3), get(1), 1.05, math.MaxInt64},
	} {
		ours, theirs := math.Inf(1), math.Inf(1)
		for range 5 {
			theirs = min(theirs, nanoseconds(testing.Benchmark(c.theirs)))
			r := testing.Benchmark(c.ours)
			ours = min(ours, nanoseconds(r))
			assert.LessOrEqual(t, r.AllocsPerOp(), c.allocations, c.what)
		}
		t.Logf("%-34s %10.1f %10.1f %8.2f %8.2f", c.what, ours, theirs, ours/theirs, c.most)
		assert.LessOrEqual(t, ours/theirs, c.most, c.what)
	}
}

func nanoseconds(r testing.BenchmarkResult) float64 { return float64(r.T) / float64(r.N) }
