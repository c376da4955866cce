package preview

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/draw"
)

// A sample follows many calls under a policy, each of which draws another point
// of a grid. The points are shuffled for every retry, because the next wait may
// depend on the one before.
type sample struct {
	policy         backoff.Policy
	prev           []time.Duration // the newest wait of each call
	least, longest time.Duration   // the bounds of the newest waits
	rand           *rand.Rand
}

// size is the number of calls in a sample.
const size = 1 << 15

// wait returns what the next wait of the calls is like.
func (s *sample) wait(delay time.Duration) Wait {
	if s.prev == nil {
		s.prev = make([]time.Duration, size)
		s.rand = rand.New(rand.NewPCG(size, size)) // the same result every time
	}
	var sum float64
	for i, point := range s.rand.Perm(size) {
		s.prev[i] = s.jittered(delay, s.prev[i], (float64(point)+0.5)/size)
		sum += float64(s.prev[i])
	}
	w := Wait{Delay: delay, Mean: duration(math.Round(sum / size))}
	w.Min = min(s.jittered(delay, s.least, 0), s.jittered(delay, s.longest, 0))
	w.Max = max(s.jittered(delay, s.least, draw.Clamp(1)), s.jittered(delay, s.longest, draw.Clamp(1)))
	for _, wait := range s.prev { // a jitter need not be monotonic
		w.Min, w.Max = min(w.Min, wait), max(w.Max, wait)
	}
	s.least, s.longest = w.Min, w.Max
	return w
}

// jittered is the wait that the policy makes of a delay with the given draw.
func (s *sample) jittered(delay, prev time.Duration, u float64) time.Duration {
	jitter := s.policy.Jitter
	if jitter == nil {
		jitter = backoff.FullJitter
	}
	return within(s.policy.MaxDelay, max(0, jitter(delay, prev, u)))
}

// duration is f nanoseconds, or the longest duration if f is beyond that.
func duration(f float64) time.Duration {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(f)
}
