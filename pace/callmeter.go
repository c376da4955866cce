package pace

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A callMeter measures at which rate calls come. It takes no lock, and reads the
// clock for every eighth call. Of these it remembers the last one whose number is
// 8, the last one whose number is 16, and so on to half a billion, each times any
// odd number: so it knows when about 8, 16, 32 ... calls ago was.
type callMeter struct {
	count atomic.Uint64
	start atomic.Pointer[time.Time] // of the first call
	marks [27]atomic.Int64          // when the marked calls came, after start
}

const markEvery = 8

func (m *callMeter) add() {
	n := m.count.Add(1)
	if n == 1 {
		now := clock.Now()
		m.start.Store(&now)
	}
	if start := m.start.Load(); n%markEvery == 0 && start != nil {
		level := min(bits.TrailingZeros64(n/markEvery), len(m.marks)-1)
		m.marks[level].Store(int64(clock.Since(*start)))
	}
}

// rate returns the calls per second of late: in the shortest known time of a
// second or more with 8 calls in it, or in the last second, if there were more.
// Before the first call it is 1.
func (m *callMeter) rate() float64 {
	start, count := m.start.Load(), m.count.Load()
	if start == nil {
		return 1
	}
	now := clock.Since(*start)
	shortest := max(now, time.Second)
	steady, burst := float64(count)/shortest.Seconds(), 0.
	for level := range m.marks {
		every := uint64(markEvery) << level
		number := count / every * every
		if count/every%2 == 0 { // an even multiple is the mark of a higher level
			number -= every
		}
		if count < every {
			break
		}
		calls, age := float64(count-number), now-time.Duration(m.marks[level].Load())
		switch {
		case calls < markEvery:
		case age < time.Second:
			burst = max(burst, calls)
		case age < shortest:
			shortest, steady = age, calls/age.Seconds()
		}
	}
	return max(steady, burst)
}
