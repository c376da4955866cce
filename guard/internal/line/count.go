package line

import "sync/atomic"

// counter counts attempts: below, those in flight; above, those that have begun.
type counter struct{ both atomic.Int64 }

const begun = 1 << 32

func (c *counter) begin() { c.both.Add(begun + 1) }

// end returns how many attempts were in flight until now, and whether this is
// one of the few that are measured.
func (c *counter) end() (n int64, sampled bool) {
	both := c.both.Add(-1)
	return int64(int32(both)) + 1, uint64(both)/begun%16 == 1
}

func (c *counter) now() int64 { return int64(int32(c.both.Load())) }

// mean is a mean of the last samples, in parts. Of two samples at the same time
// one may be lost.
type mean struct{ value atomic.Int64 }

const parts = 256

func (m *mean) add(n int64) {
	old := m.value.Load()
	if old == 0 {
		old = n * parts
	}
	m.value.Store(old + (n*parts-old)/16)
}

func (m *mean) known() bool { return m.value.Load() > 0 }

// twiceOthers is twice the mean without the attempt that was measured itself: a
// call finds as many others in flight as there are on average.
func (m *mean) twiceOthers() int64 { return (2*(m.value.Load()-parts) + parts - 1) / parts }
