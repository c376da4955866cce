package strain

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	perSecond = 40          // samples are enough
	batch     = 40          // samples may come before the share is set anew
	interval  = time.Second // or so much time pass
)

// A Sampler chooses the attempts to measure: all of them where there are few,
// and about 40 a second of many. The zero value chooses all. Chosen takes no
// lock; the owner's lock guards Sampled.
type Sampler struct {
	above atomic.Uint32 // hashes below are not chosen

	every   float64 // one of so many is chosen; 0 counts as 1
	samples int     // since
	since   time.Duration
	total   uint64 // at that time
}

// Chosen reports whether to measure the attempt that begins after so many
// others. It gives the same answer as long as that number stays.
func (s *Sampler) Chosen(count uint64) bool {
	above := s.above.Load()
	return above == 0 || uint32(count)*golden >= above
}

// golden is 2^32 divided by the golden ratio. Its multiples are spread evenly.
const golden = 0x9e3779b1

// Sampled notes at a time that an attempt was measured. total returns how many
// attempts there have been. The share of the attempts that are chosen falls by
// half at most, so that a burst does not hide what comes after it.
func (s *Sampler) Sampled(now time.Duration, total func() uint64) {
	s.samples++
	passed := now - s.since
	if s.samples < batch && passed < interval {
		return
	}
	all := total()
	rate := float64(all-s.total) / max(passed, 1).Seconds()
	s.every = max(1, min(rate/perSecond, 2*max(1, s.every)))
	s.above.Store(uint32((1 - 1/s.every) * math.MaxUint32))
	s.samples, s.since, s.total = 0, now, all
}
