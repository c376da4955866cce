package limit

import (
	"time"

	"golang.org/x/time/rate"
)

// A meter measures the rate of attempts, second by second.
type meter struct {
	since  time.Duration // when the present second began
	count  int           // the attempts since then
	before rate.Limit    // the rate in the second before; 0 if there was none
}

func (m *meter) add(now time.Duration) {
	if now-m.since >= time.Second {
		m.before = m.rate(now)
		m.count, m.since = 0, now
	}
	m.count++
}

// rate is the rate in the last full second, or in the time there has been.
func (m *meter) rate(now time.Duration) rate.Limit {
	passed := max(now-m.since, time.Millisecond).Seconds()
	switch {
	case passed >= 1:
		return rate.Limit(float64(m.count) / passed)
	case m.before > 0:
		return m.before
	}
	return rate.Limit(float64(max(0, m.count-1)) / passed)
}
