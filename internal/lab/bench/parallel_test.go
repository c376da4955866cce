package bench

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

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
