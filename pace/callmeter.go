package pace

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A callMeter measures the rate of calls. It takes no lock, and reads the clock for
// every eighth call. marks[k] is the time of the last call whose number is an odd
// multiple of 8<<k. So the marks are the times of about 8, 16, 32 ... calls ago.
type callMeter struct {
	count atomic.Uint64
	start atomic.Pointer[time.Time] // of the first call
	marks [27]atomic.Int64          // as times after start
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

// rate returns the recent calls per second, over the shortest known time of at
// least a second with 8 calls in it, or over the last second if that is more.
// Before the first call it is 1.
func (m *callMeter) rate() float64 {
	count, now := m.read()
	if count == 0 {
		return 1
	}
	shortest := max(now, time.Second)
	steady, burst := float64(count)/shortest.Seconds(), 0.
	m.marked(count, now, func(calls float64, age time.Duration) {
		switch {
		case calls < markEvery:
		case age < time.Second:
			burst = max(burst, calls)
		case age < shortest:
			shortest, steady = age, calls/age.Seconds()
		}
	})
	return max(steady, burst)
}

// read returns how many calls there were, and how long ago the first one was.
func (m *callMeter) read() (count uint64, age time.Duration) {
	if start := m.start.Load(); start != nil {
		return m.count.Load(), clock.Since(*start)
	}
	return 0, 0
}

// marked calls f for each mark in use, with the number of calls since the mark and
// its age.
func (m *callMeter) marked(count uint64, now time.Duration, f func(calls float64, age time.Duration)) {
	for level := range m.marks {
		every := uint64(markEvery) << level
		if count < every {
			return
		}
		number := count / every * every
		if count/every%2 == 0 { // an even multiple is the mark of a higher level
			number -= every
		}
		f(float64(count-number), now-time.Duration(m.marks[level].Load()))
	}
}

// within returns how many calls came in the last d. It may miss half of them and 8
// more.
func (m *callMeter) within(d time.Duration) (most float64) {
	count, now := m.read()
	if now < d {
		return float64(count)
	}
	m.marked(count, now, func(calls float64, age time.Duration) {
		if age < d {
			most = max(most, calls)
		}
	})
	return most
}

// recent returns the calls per second over the shortest known time of at least 100
// ms, or rate if that is more.
func (m *callMeter) recent() float64 {
	const moment = 100 * time.Millisecond
	count, now := m.read()
	if now < moment {
		return max(m.rate(), float64(count)/max(now, moment/2).Seconds())
	}
	shortest, recent := now, float64(count)/now.Seconds()
	m.marked(count, now, func(calls float64, age time.Duration) {
		if calls >= markEvery && age >= moment && age < shortest {
			shortest, recent = age, calls/age.Seconds()
		}
	})
	return max(m.rate(), recent)
}

// young reports whether most of the calls of the last 4 s came in the last one.
func (m *callMeter) young() bool { return m.within(time.Second) > burstShare*m.within(4*time.Second) }
