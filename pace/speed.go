package pace

import (
	"math"
	"time"

	"github.com/gobackoff/backoff/internal/limits"
)

// A speed is how many turns there are in a second. It follows the answers.
type speed struct {
	perSecond float64
	usual     float64       // the highest rate of calls since the pace began
	goal      float64       // the rate up to which it grows fast, of a slow caller
	peak      float64       // the rate at which it fell last
	climb     float64       // turns a second that an answer adds until the limit is found; then 0
	good, bad float64       // answers and refusals since the rate fell last
	epoch     uint64        // counts falls
	opened    uint64        // the epoch in which a first refusal began the pace, or 0
	began     time.Duration // when that was
	fell      time.Duration // when the rate fell last
	heard     time.Duration // when an attempt was last refused
	asked     time.Duration // how long the service asked to be left alone, when it refused last
	rested    time.Duration // when the longest such time is over
	served    served
	seen      tally // since the first of at most 4 refusals
	trial     trial
	tolerance tolerance
}

const (
	paceFall   = 0.25     // what a full fall takes off the rate
	paceGoal   = 0.1      // and off the goal
	paceFull   = 5        // answers for each refusal before a fall that is full; 10 make it half as deep
	paceUnused = 1.2      // how far the rate may be above the usual one when it falls
	paceLeast  = 1. / 200 // of the usual rate
	paceServed = 0.95     // of what is served, below which the rate does not fall

	paceGrowth = 0.5  // of the rate, in a second
	paceProbe  = 0.1  // of the rate, for an answer beyond the goal
	growthNear = 0.25 // of the rate, in a second, near the last peak
	growthFar  = 1.   // beyond it
	nearPeak   = 1.25

	climbFrom   = 10. // turns a second, at least
	climbGrowth = 4.  // of the rate, in a second
	climbEnds   = 0.5 // of the rate, when too much was refused

	// Slow callers are programs with fewer calls a second than this. They may be
	// many, and each sees too few answers to tell a limit from a share.
	slowCaller = 8
	// Of a quick caller there are few, and the others feel little of what it does.
	quickCaller = 20.

	paceSettle = 50 * time.Millisecond // after a fall answers say nothing new
)

// begin begins a pace. A program that has only begun to call begins to climb. One
// that got few refusals among many answers begins with a trial.
func (s *speed) begin(now time.Duration, usual, recent float64, young bool) {
	share, full := s.seen.full()
	s.seen = tally{}
	s.usual, s.goal, s.peak, s.climb = usual, usual, usual, 0
	s.perSecond = usual * (1 - paceFall)
	s.began, s.served, s.trial.running = now, served{at: now}, false
	s.fall(now)
	if s.opened = s.epoch; full {
		s.opened = 0
	}
	switch {
	case full && share < trialMost:
		s.usual, s.peak = recent, recent
		s.perSecond, s.goal = recent, recent
		s.served.perSecond = recent * (1 - share)
		s.try(now, share)
	case young:
		s.perSecond, s.climb = max(climbFrom, s.perSecond), climbGrowth
	}
}

// fall begins an epoch: answers to what was sent before say nothing about the new
// rate.
func (s *speed) fall(now time.Duration) {
	s.fell, s.good, s.bad = now, 0, 0
	s.epoch++
}

// since returns since when it says something that nothing was refused: since the
// last refusal, or since the service wanted to be left alone.
func (s *speed) since() time.Duration { return max(s.heard, s.rested) }

// rest takes in for how long the service asked to be left alone when it refused
// an attempt.
func (s *speed) rest(now, asked time.Duration) {
	s.asked, s.rested = asked, max(s.rested, limits.Add(now, asked))
}

// answered takes in that an attempt was answered, and not refused. It is fresh if
// it was sent at the present rate.
func (s *speed) answered(now time.Duration, fresh bool) {
	s.good++
	s.served.add(now, s.perSecond)
	if fresh {
		if now < s.rested { // the service did not mean all attempts
			s.asked, s.rested = 0, 0
		}
		s.seen.answer(1)
		s.tolerance.earn(1)
	}
	switch {
	case s.trial.running:
		if fresh {
			s.conclude(now, s.trial.hear(now, false))
		}
	case s.climb > 0:
		s.perSecond += s.climb
		s.goal = s.perSecond
	default:
		s.grow(now)
	}
}

// grow raises the rate after an answer.
func (s *speed) grow(now time.Duration) {
	most := s.growth()
	if s.tolerance.counts(now) { // it grows less the more of it is used up
		most *= max(tolerantGrowth, s.tolerance.credit/toleranceCredit)
	}
	if s.perSecond < s.goal {
		s.perSecond = min(s.perSecond+min(s.perSecond, most), s.goal)
		return
	}
	s.perSecond += min(s.perSecond*paceProbe, most) / (1 + s.asked.Seconds())
	s.goal = s.perSecond
}

// growth returns how much of itself the rate grows in a second: slowly near the
// rate at which it fell last, and fast beyond.
func (s *speed) growth() float64 {
	switch {
	case s.usual < slowCaller || s.perSecond*nearPeak < s.peak:
		return paceGrowth
	case s.perSecond < s.peak*nearPeak:
		return growthNear
	}
	return growthFar
}

// refused takes in that an attempt was refused that was sent at the present rate.
func (s *speed) refused(now time.Duration, calls float64) {
	switch {
	case s.trial.running:
		s.conclude(now, s.trial.hear(now, true))
		return
	case s.tolerance.forgives(now):
		return
	}
	s.seen.refused++
	share, full := s.seen.full()
	full = full || s.climb > 0 && s.seen.refused > 1 && share >= trialMost
	if full {
		s.seen = tally{}
	}
	switch {
	case full && s.try(now, share):
	case full || s.climb == 0:
		s.slowDown(now, calls)
	}
}

// slowDown lowers the rate. The more answers there were for each refusal since
// the last time, the less it falls, and never below what is served. But the longer
// the service asks to be left alone, the fewer there are, and each counts more.
func (s *speed) slowDown(now time.Duration, calls float64) {
	s.usual = max(s.usual, calls)
	s.bad++
	if s.usual < slowCaller {
		s.bad = 1
	}
	depth := min(1, paceFull*s.bad*(1+s.asked.Seconds())/max(1, s.good))
	most, left := paceUnused*s.usual, 1-paceFall*depth
	if s.climb > 0 {
		left = climbEnds
	}
	s.peak = s.perSecond
	s.goal = min(s.goal, most) * (1 - paceGoal*depth)
	s.perSecond = max(min(s.perSecond, most)*left, s.usual*paceLeast, min(s.perSecond, s.least(now)))
	if s.climb > 0 {
		s.goal = s.perSecond
	}
	s.trial.running, s.climb = false, 0
	s.fall(now)
}

// least returns the rate below which it does not fall.
func (s *speed) least(now time.Duration) float64 {
	switch served := s.served.rate(now, s.perSecond); {
	case s.usual < slowCaller:
		return 0
	case s.usual >= quickCaller && s.tolerance.counts(now):
		return served * (1 + tolerable)
	default:
		return served * paceServed
	}
}

// try begins a trial, unless the program is too slow or the last one was not long
// ago.
func (s *speed) try(now time.Duration, share float64) bool {
	if now < s.trial.next || s.tolerance.counts(now) || share >= trialMost || s.usual < slowCaller || s.perSecond < trialLeast {
		return false
	}
	s.climb = 0
	s.trial.begin(now, s.perSecond, share)
	served := min(s.perSecond*(1-share), s.served.rate(now, s.perSecond))
	s.perSecond = max(trialRate*served, s.perSecond*trialDeepest)
	s.fall(now)
	return true
}

// conclude does what a trial says.
func (s *speed) conclude(now time.Duration, v verdict) {
	switch t := &s.trial; v {
	case theRate:
		if t.answers.refused < t.answers.answered { // or it is still too high
			s.perSecond = t.from * (1 - t.share)
		}
	case theCalls:
		s.perSecond, s.climb = t.from, min(max(1, s.usual/quickCaller), climbGrowth)
		s.tolerance.learn(now)
	case tooLong:
		s.perSecond = t.from
	default:
		return
	}
	s.goal, s.seen = s.perSecond, tally{}
}

// join takes in that a program whose first calls began the pace makes many now.
func (s *speed) join(calls float64) {
	s.usual = max(s.usual, calls)
	s.perSecond, s.climb = max(climbFrom, s.perSecond), climbGrowth
}

// refusedLate takes in that an attempt was refused that was sent before the rate
// fell. One that was sent before the pace began shows how many calls there were.
func (s *speed) refusedLate(now time.Duration, paced bool, calls float64) {
	s.bad++
	if !paced && now-s.began < time.Second && calls > s.usual && !s.trial.running {
		s.usual = calls
		s.perSecond = max(s.perSecond, calls*(1-paceFall))
		s.goal = max(s.goal, calls)
	}
}

// sooner returns the least time in which so many turns come, if it is linear at
// the present rate.
func (s *speed) sooner(linear time.Duration) time.Duration {
	growth := max(paceGrowth, s.climb)
	if s.usual >= slowCaller {
		growth = max(growthFar, growth)
	}
	if s.trial.running { // whose end is a leap
		linear = time.Duration(float64(linear) * trialRate / 2)
	}
	return time.Duration(math.Log1p(growth*linear.Seconds()) / growth * 1e9)
}

// served is how many answers come in a second that are not refusals: of late, in
// 100 ms or in as much time as 16 turns take.
type served struct {
	perSecond float64
	at        time.Duration
}

func servedTime(turns float64) float64 { return min(max(.1, 16/turns), 2) }

func (s *served) add(now time.Duration, turns float64) {
	s.perSecond = s.rate(now, turns) + 1/servedTime(turns)
	s.at = now
}

func (s *served) rate(now time.Duration, turns float64) float64 {
	return s.perSecond * math.Exp(-(now-s.at).Seconds()/servedTime(turns))
}
