package bench

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// local is a counter of the processor's own: the least that a success can write
// where many processors count.
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

// total is what all have added.
func (l *local) total() int {
	sum := int64(0)
	for i := range l.cells {
		sum += l.cells[i].n.Load()
	}
	return int(sum)
}

// own counts the calls of one goroutine, on a cache line that no other one
// writes.
type own struct {
	_ [64]byte
	n int
	_ [64]byte
}

// together runs calls on all processors at once. Each goroutine has a counter
// of its own, and they must add up.
func together(b *testing.B, goroutine func(pb *testing.PB, calls *own)) {
	b.Helper()
	b.ReportAllocs()
	reportCPU(b)
	var sum atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		var calls own
		goroutine(pb, &calls)
		sum.Add(int64(calls.n))
	})
	expect(b, int(sum.Load()), 1)
}

// succeed is the operation.
func (c *own) succeed() error { c.n++; return nil }
