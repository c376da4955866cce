package guards

import "time"

// A queue is the work that a service has accepted, done one after the other. What
// it has accepted it does, also for callers who have gone.
type queue struct {
	free  time.Time // when all of it is done
	worst time.Duration
}

// length returns how long new work would wait.
func (q *queue) length() time.Duration { return max(0, time.Until(q.free)) }

// add accepts work, and returns how long it takes until it is done.
func (q *queue) add(work time.Duration) time.Duration {
	wait := q.length()
	q.worst = max(q.worst, wait)
	q.free = time.Now().Add(wait + work)
	return wait + work
}

// A limiter is a token bucket.
type limiter struct {
	rate, burst float64
	tokens      float64
	filled      time.Time
	refused     int
}

func newLimiter(rate, burst float64) *limiter {
	return &limiter{rate: rate, burst: burst, tokens: burst, filled: time.Now()}
}

// take takes a token if there is one.
func (l *limiter) take() bool {
	now := time.Now()
	l.tokens = min(l.burst, l.tokens+l.rate*now.Sub(l.filled).Seconds())
	l.filled = now
	if l.tokens < 1 {
		l.refused++
		return false
	}
	l.tokens--
	return true
}
