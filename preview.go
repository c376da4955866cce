package backoff

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gobackoff/backoff/internal/draw"
)

// A Preview says how long a policy would wait, before it is let loose on a service.
type Preview struct {
	// Waits has one element per retry.
	Waits []PreviewWait
	// Mean is the sum of the mean waits.
	Mean time.Duration
	// Worst is the longest that a call can take before its last attempt ends in
	// failure: the longest waits and, where AttemptTimeout limits them, the attempts,
	// within MaxElapsed. Without AttemptTimeout the attempts themselves come on top.
	// Hints of a server may lengthen each wait to MaxRetryAfter.
	Worst time.Duration
}

// PreviewWait is the wait before one retry.
type PreviewWait struct {
	Delay          time.Duration // of the schedule, before jitter
	Min, Mean, Max time.Duration // after it
}

// Preview returns the waits before the first n retries, whether or not the policy's
// limits let them happen; for n of 0 or less, those before all retries that
// MaxAttempts allows, or 10 where it sets no limit. It computes them on a grid of
// draws, without Rand: means are exact to about 0.1 %, or 1 % for a jitter that looks at
// the previous wait; bounds are those of the draws 0 and just below 1.
func (p *Policy) Preview(n int) Preview {
	if n <= 0 {
		if n = p.maxAttempts() - 1; n < 0 {
			n = 10
		}
	}
	view := Preview{Waits: make([]PreviewWait, n)}
	var crowd population
	for i := range view.Waits {
		w := crowd.step(p, delayOf(p.Schedule, i+1))
		view.Waits[i] = w
		view.Mean = saturatingAdd(view.Mean, w.Mean)
		view.Worst = saturatingAdd(view.Worst, w.Max)
	}
	if p.MaxElapsed > 0 {
		view.Worst = min(view.Worst, p.MaxElapsed)
	}
	view.Worst = p.withAttempts(view.Worst, n)
	return view
}

// withAttempts adds the time that n+1 attempts may take.
func (p *Policy) withAttempts(waits time.Duration, n int) time.Duration {
	total := waits
	for i := range n + 1 {
		if p.timeLimit(i+1) == 0 {
			return waits // unlimited
		}
		total = saturatingAdd(total, p.timeLimit(i+1))
	}
	if p.MaxElapsed > 0 {
		total = min(total, p.MaxElapsed)
	}
	return total
}

// population follows calls that each draw from another point of a grid, newly
// shuffled for every retry, because the next wait may depend on the one before.
type population struct {
	prev   []time.Duration
	lo, hi time.Duration
	rand   *rand.Rand
}

func (c *population) step(p *Policy, delay time.Duration) PreviewWait {
	const size = 1 << 15
	if c.prev == nil {
		c.prev = make([]time.Duration, size)
		c.rand = rand.New(rand.NewPCG(size, size)) // the same view every time
	}
	var sum float64
	for i, point := range c.rand.Perm(size) {
		c.prev[i] = p.jitteredWith(delay, c.prev[i], (float64(point)+0.5)/size)
		sum += float64(c.prev[i])
	}
	w := PreviewWait{Delay: delay, Mean: scale(1, math.Round(sum/size))}
	w.Min = min(p.jitteredWith(delay, c.lo, 0), p.jitteredWith(delay, c.hi, 0))
	w.Max = max(p.jitteredWith(delay, c.lo, draw.Clamp(1)), p.jitteredWith(delay, c.hi, draw.Clamp(1)))
	for _, wait := range c.prev { // a jitter need not be monotonic
		w.Min, w.Max = min(w.Min, wait), max(w.Max, wait)
	}
	c.lo, c.hi = w.Min, w.Max
	return w
}
