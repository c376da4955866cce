// Package strain tells from how long attempts take whether a service is under
// strain: clearly slower than it usually is.
package strain

import (
	"math"
	"time"
)

const (
	least = 0.9162907318741551 // above the usual latency may be strain: the logarithm of 2.5
	most  = 1.6094379124341003 // above it is strain: the logarithm of 5
	doubt = 5                  // mean deviations, four standard ones, are no accident
	slack = time.Millisecond   // added to each latency, for differences below it mean nothing
	pause = 15 * time.Second   // from the last strain until it is forgotten
	share = 0.02               // of timeouts, beside strain, is heavy strain

	few     = 3                // samples tell nothing yet
	fresh   = 10               // samples are averaged evenly for the usual latency
	learned = 50               // or so many, while there is no strain
	settled = 10 * time.Second // or those of so long

	fewest  = 40               // samples are in the present latency
	quick   = 6 * time.Second  // and those of so long
	slower  = 20 * time.Minute // the usual latency follows upwards within
	quicker = time.Minute      // and downwards

	// How far above the usual latency a sample counts. In an overload, those that
	// succeed are slow, too. While they are not, attempts that time out have met one
	// replica that hangs, and count little.
	top  = 4.605170185988092  // at most: the logarithm of 100
	hung = 1.0986122886681098 // at least, if the attempt timed out: the logarithm of 3
	all  = 0.75               // of the attempts time out: that is more than a replica

	// In an overload the quickest calls are slower, too. That tells it from a mixture
	// of kinds of calls in which there are more of the slow ones.
	row   = 10              // samples have a quickest
	brief = 4 * time.Second // or those of so long
	climb = 1.5             // at most is it taken to be above the present one
	young = 8               // times as long as an attempt took: the slow ones are only beginning to end
)

// heavy is how far the present latency is above the usual one where strain is
// heavy, though hardly any attempt times out: the logarithm of 25.
const heavy = 3.2188758248682006

// A Gauge compares the present latency of a service with the usual one. Both
// are averages of the logarithm, so that a few slow attempts do not matter. All
// times are durations since one beginning, and do not go back. The zero value
// is ready for use. The owner's lock guards it.
type Gauge struct {
	samples  float64 // of those that came at once, about one
	present  float64 // latency
	usual    float64 // latency
	answered float64 // present latency of those that did not time out
	low      float64 // present latency of the quickest
	usualLow float64 // latency of the quickest
	spread   float64 // the mean deviation of a sample from the present latency
	variance float64 // of the present latency, for samples with a variance of 1
	timeouts float64 // share of attempts that timed out

	newest [row]struct { // samples
		at time.Duration
		x  float64
	}
	next int // of newest, to be replaced

	last       time.Duration
	calm, mild time.Duration // when strain and heavy strain will be forgotten
}

// Add takes an attempt that succeeded or timed out after a time, and reports
// whether there is strain now. For one that timed out it does not matter when,
// unless it is the first, but how long the others take.
func (g *Gauge) Add(now, took time.Duration, timedOut bool) (strained bool) {
	x, since := g.sample(took, timedOut), now-g.last
	g.last = now
	full := 1. // a sample, or less if it comes soon after the last one
	if g.samples > 0 {
		full = min(1, perSecond*since.Seconds())
	}
	g.samples += full
	g.average(x, timedOut, max(full/g.samples, full/fewest, min(0.5, part(since, quick))))
	g.follow(since, full, !timedOut && took > now/young)
	if g.samples < few || !g.slow() {
		return false
	}
	g.calm = now + pause
	if g.timeouts >= share || g.present-g.usual > heavy {
		g.mild = now + pause
	}
	return true
}

// sample returns the logarithm of a latency.
func (g *Gauge) sample(took time.Duration, timedOut bool) float64 {
	x := math.Log((float64(took) + float64(slack)) / float64(time.Second))
	switch {
	case g.samples == 0:
		return x
	case timedOut && g.timeouts > all:
		return g.usual + top
	case timedOut:
		return g.usual + min(top, hung+2*max(0, g.answered-g.usual))
	}
	return min(x, g.usual+top)
}

// average takes a sample into the averages that are about the present.
func (g *Gauge) average(x float64, timedOut bool, weight float64) {
	if g.samples > 1 {
		g.spread += weight * (math.Abs(x-g.present) - g.spread)
	}
	if !timedOut {
		g.answered += weight * (x - g.answered)
	}
	low := g.quickest(x)
	if weight < 1 {
		low = min(low, g.low+climb)
	}
	g.low += min(1, 2*weight) * (low - g.low)
	g.variance = (1-weight)*(1-weight)*g.variance + weight*weight
	g.present += weight * (x - g.present)
	g.timeouts -= weight * g.timeouts
	if timedOut {
		g.timeouts += weight
	}
}

// quickest takes a sample, and returns the least of the last ones.
func (g *Gauge) quickest(x float64) float64 {
	g.newest[g.next].at, g.newest[g.next].x = g.last, x
	g.next = (g.next + 1) % row
	for _, s := range g.newest {
		if s.at > 0 && g.last-s.at <= brief {
			x = min(x, s.x)
		}
	}
	return x
}

// follow moves the usual latency, and its lower end, towards the present one.
func (g *Gauge) follow(since time.Duration, full float64, late bool) {
	early := g.samples <= fresh || (g.samples <= learned || g.last <= settled) && !g.slow()
	towards := func(usual *float64, present float64) {
		weight := part(since, slower)
		switch {
		case late:
			weight = full / min(g.samples, learned/2)
		case early:
			weight = full / g.samples
		case present < *usual:
			weight = part(since, quicker)
		}
		*usual += weight * (present - *usual)
	}
	towards(&g.usual, g.present)
	towards(&g.usualLow, g.low)
}

// slow reports whether the present latency is clearly above the usual one:
// farther than chance explains, as far as the spread of the samples tells. The
// quickest must be slower, too, or only more of the calls are slow ones.
func (g *Gauge) slow() bool {
	chance := doubt * g.spread * math.Sqrt(g.variance+1/min(g.samples, learned))
	return g.present-g.usual > min(max(least, chance), most) && g.low-g.usualLow > least
}

// Slower returns how many times as long as usual the attempts take now that did
// not time out. It does not rise when only more of the calls are slow ones. It is
// 1 as long as nothing is known.
func (g *Gauge) Slower() float64 {
	if g.samples < few {
		return 1
	}
	return math.Exp(min(g.answered-g.usual, g.low-g.usualLow))
}

// TimedOut returns the present share of attempts that time out, from 0 to 1.
func (g *Gauge) TimedOut() float64 { return g.timeouts }

// Usual returns the usual latency, or 0 if it is not known.
func (g *Gauge) Usual() time.Duration {
	if g.samples < few {
		return 0
	}
	return max(0, time.Duration(math.Exp(g.usual)*float64(time.Second))-slack)
}

// part returns which part of a difference is gone after a time.
func part(since, within time.Duration) float64 { return float64(since) / float64(since+within) }

// Room returns how much room the service has: 1 without strain, 0 under it, and
// rising evenly after it. mild is the same for heavy strain, in which one in 50
// attempts times out, or they take 25 times as long as usual.
func (g *Gauge) Room(now time.Duration) (room, mild float64) {
	return since(g.calm, now), since(g.mild, now)
}

// since returns which part of a pause is over that ends at a time.
func since(end, now time.Duration) float64 {
	return 1 - min(1, max(0, float64(end-now)/float64(pause)))
}

// Present returns how long attempts take now that do not time out.
func (g *Gauge) Present() time.Duration {
	return max(0, time.Duration(math.Exp(g.answered)*float64(time.Second))-slack)
}

// Above returns how many times as long as usual an attempt took.
func (g *Gauge) Above(took time.Duration) float64 {
	return float64(took+slack) / float64(time.Second) / math.Exp(g.usual)
}
