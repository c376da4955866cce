package pace

import (
	"math"
	"time"

	"github.com/gobackoff/backoff/internal/limits"
)

// A speed is the rate of turns. It follows the responses.
type speed struct {
	perSecond     float64
	usual         float64       // the highest rate of calls since the pace began
	goal          float64       // the rate up to which it grows fast, of a slow caller
	peak          float64       // the rate from which it last fell
	climb         float64       // turns a second that an answer adds until the limit is found; then 0
	answers       float64       // since the rate fell last
	refusals      float64       // since the rate fell last
	epoch         uint64        // counts falls
	opened        uint64        // the epoch in which a first refusal began the pace, or 0
	began         time.Duration // when that was
	fell          time.Duration // when the rate fell last
	lastThrottled time.Duration // when the last throttled response came
	lastAnswer    time.Duration // when the last other one came, or the pace began
	rest          rest
	served        served
	sample        tally // since the first of at most 4 refusals
	trial         trial
	tolerance     tolerance
}

// A rest is the wait that a throttled response asked for.
type rest struct {
	asked  time.Duration // by the last one
	until  time.Duration // when the longest one is over
	resume float64       // the rate after that, if nothing is served meanwhile; or 0
}

const (
	paceFall   = 0.25     // what a full fall takes off the rate
	paceGoal   = 0.1      // and off the goal
	paceFull   = 5        // answers for each refusal before a fall that is full; 10 make it half as deep
	paceUnused = 1.2      // how far the rate may be above the usual one when it falls
	paceUsed   = 1.1      // how far it may be above what is served, if calls rest
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
	// Quick callers are few, and what one of them does matters little to the others.
	quickCaller = 20.

	closedAfter = 10 * time.Second // without an answer
	knocks      = 0.5              // of the usual rate, while the service is closed
	knocksMost  = 1.               // a second
	knocksLeast = 1. / 50
	reopens     = 1.5 // of the usual rate, after the first answer

	paceSettle = 50 * time.Millisecond // after a fall answers say nothing new
)

// begin begins a pace. A young program, which has just begun to call, climbs. If
// there were few refusals among many answers, the pace begins with a trial.
func (s *speed) begin(now time.Duration, usual, recent float64, young bool) {
	share, full := s.sample.full()
	s.sample = tally{}
	s.usual, s.goal, s.peak, s.climb = usual, usual, usual, 0
	s.perSecond = usual * (1 - paceFall)
	s.began, s.served, s.trial.running = now, served{at: now}, false
	s.lastAnswer = now
	s.fall(now)
	if s.opened = s.epoch; full {
		s.opened = 0
	}
	switch {
	case full && share < trialMost:
		s.usual, s.peak = recent, recent
		s.perSecond, s.goal = recent, recent
		s.served.perSecond = recent * (1 - share)
		s.beginTrial(now, share)
	case young:
		s.raiseTo(usual)
	}
}

// fall begins an epoch: responses to what was sent before say nothing about the new
// rate.
func (s *speed) fall(now time.Duration) {
	s.fell, s.answers, s.refusals = now, 0, 0
	s.epoch++
}

// quietSince returns the time from which on quiet counts: of the last throttled
// response, or of the end of the wait that the service asked for.
func (s *speed) quietSince() time.Duration { return max(s.lastThrottled, s.rest.until) }

// ask notes the wait that a throttled response asked for.
func (r *rest) ask(now, wait time.Duration) {
	r.asked, r.until = wait, max(r.until, limits.Add(now, wait))
}

// onAnswer adjusts the rate to a response that is not throttled. The response is
// fresh if its attempt was sent at the present rate.
func (s *speed) onAnswer(now time.Duration, fresh bool) {
	if now >= max(s.lastAnswer+closedAfter, s.rest.until-closedAfter) { // others may rest a little
		s.open(now)
	}
	s.lastAnswer = now
	s.answers++
	s.served.add(now, s.perSecond)
	if fresh {
		if now < s.rest.until { // the wait was not for all attempts
			s.perSecond = max(s.perSecond, min(s.rest.resume, s.floor(now)))
			s.rest = rest{}
		}
		s.sample.add(1)
		s.tolerance.earn(1)
	}
	switch {
	case s.trial.running:
		if fresh {
			s.endTrial(now, s.trial.observe(now, false))
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
	if s.tolerance.active(now) { // the more of it is used up, the less the rate grows
		most *= max(tolerantGrowth, s.tolerance.credit/toleranceCredit)
	}
	if s.perSecond < s.goal {
		s.perSecond = min(s.perSecond+min(s.perSecond, most), s.goal)
		return
	}
	s.perSecond += min(s.perSecond*paceProbe, most) / (1 + s.rest.asked.Seconds())
	s.goal = s.perSecond
}

// growth returns the share by which the rate grows in a second. It is small near the
// rate of the last fall, and large above it.
func (s *speed) growth() float64 {
	switch {
	case s.usual < slowCaller || s.perSecond*nearPeak < s.peak:
		return paceGrowth
	case s.perSecond < s.peak*nearPeak:
		return growthNear
	}
	return growthFar
}

// onThrottled adjusts the rate to a throttled response to an attempt that was sent at
// the present rate.
func (s *speed) onThrottled(now time.Duration, calls float64) {
	switch {
	case s.trial.running:
		s.endTrial(now, s.trial.observe(now, true))
		return
	case s.tolerance.forgives(now):
		return
	}
	s.fitToUse(now)
	s.sample.refused++
	share, full := s.sample.full()
	full = full || s.climb > 0 && s.sample.refused > 1 && share >= trialMost
	if full {
		s.sample = tally{}
	}
	switch {
	case full && s.beginTrial(now, share):
	case full || s.climb == 0:
		s.slowDown(now, calls)
	}
}

// fitToUse lowers the rate to what the program uses of it, if the service asks for waits.
// Calls that rest do not use it: then the refusals are those of a lower rate.
func (s *speed) fitToUse(now time.Duration) {
	if s.rest.asked > 0 && s.rest.resume == 0 && s.usual >= slowCaller && now-s.began >= servedKnown {
		s.perSecond = min(s.perSecond, paceUsed*s.served.rate(now, s.perSecond))
	}
}

// slowDown lowers the rate, but not below what is served. The more answers there
// were for each refusal since the last fall, the less it falls. The longer the wait
// that the service asks for, the fewer refusals there can be, and the more each
// counts.
func (s *speed) slowDown(now time.Duration, calls float64) {
	s.usual = max(s.usual, calls)
	s.refusals++
	if s.usual < slowCaller {
		s.refusals = 1
	}
	depth := min(1, paceFull*s.refusals*(1+s.rest.asked.Seconds())/max(1, s.answers))
	most, left := paceUnused*s.usual, 1-paceFall*depth
	if s.climb > 0 {
		left = climbEnds
	}
	s.peak = s.perSecond
	s.goal = min(s.goal, most) * (1 - paceGoal*depth)
	rate := max(min(s.perSecond, most)*left, s.usual*paceLeast)
	if s.rest.resume == 0 {
		rate = max(rate, min(s.perSecond, s.floor(now)))
	}
	s.perSecond = rate
	s.knock(now)
	if s.climb > 0 {
		s.goal = s.perSecond
	}
	s.trial.running, s.climb = false, 0
	s.fall(now)
	if s.rest.asked > 0 && s.rest.resume == 0 && s.usual >= slowCaller/2 {
		s.rest.resume = s.perSecond
	}
}

// endRest returns to the rate with which the wait began that the service asked for. That
// it refused all attempts meanwhile says nothing about the rate.
func (s *speed) endRest(now time.Duration) {
	if s.rest.resume > 0 && now >= s.rest.until {
		s.perSecond, s.goal = max(s.perSecond, s.rest.resume), max(s.goal, s.rest.resume)
		s.rest.resume = 0
	}
}

// closedFrom returns from when on the service counts as closed: it has answered nothing
// for a while, as when a quota is used up. That says nothing about the rate.
func (s *speed) closedFrom() time.Duration { return max(s.lastAnswer+closedAfter, s.rest.until) }

// knock raises the rate while the service is closed, to hear soon that it is open.
func (s *speed) knock(now time.Duration) {
	if now >= s.closedFrom() {
		s.perSecond = max(s.perSecond, min(knocksMost, max(s.usual*knocks, knocksLeast)))
	}
}

// open returns to the usual rate.
func (s *speed) open(now time.Duration) {
	s.perSecond = max(s.perSecond, s.usual*reopens)
	s.goal = max(s.goal, s.perSecond, knocksMost)
	s.sample, s.trial.running = tally{}, false
	s.fall(now)
}

// floor returns the rate below which the rate does not fall.
func (s *speed) floor(now time.Duration) float64 {
	switch served := s.served.rate(now, s.perSecond); {
	case s.usual < slowCaller:
		return 0
	case s.usual >= quickCaller && s.tolerance.active(now):
		return served * (1 + tolerable)
	default:
		return served * paceServed
	}
}

// beginTrial begins a trial, unless the program is too slow for one, or the last
// trial was not long ago.
func (s *speed) beginTrial(now time.Duration, share float64) bool {
	if now < s.trial.next || s.tolerance.active(now) || share >= trialMost || s.usual < slowCaller || s.perSecond < trialLeast {
		return false
	}
	s.climb = 0
	s.trial.begin(now, s.perSecond, share)
	served := min(s.perSecond*(1-share), s.served.rate(now, s.perSecond))
	s.perSecond = max(trialRate*served, s.perSecond*trialDeepest)
	s.fall(now)
	return true
}

// endTrial acts on the verdict of a trial.
func (s *speed) endTrial(now time.Duration, v verdict) {
	switch t := &s.trial; v {
	case blameRate:
		if t.answers.refused < t.answers.answered { // or it is still too high
			s.perSecond = t.from * (1 - t.share)
		}
	case blameCalls:
		s.perSecond, s.climb = t.from, min(max(1, s.usual/quickCaller), climbGrowth)
		s.tolerance.learn(now)
	case timedOut:
		s.perSecond = t.from
	default:
		return
	}
	s.goal, s.sample = s.perSecond, tally{}
}

// raiseTo lets the rate climb, for a program whose first calls began the pace and that
// makes so many calls now.
func (s *speed) raiseTo(calls float64) {
	s.usual = max(s.usual, calls)
	s.perSecond, s.climb = max(climbFrom, s.perSecond), climbGrowth
}

// onLateThrottled takes account of a throttled response to an attempt that was sent
// before the rate fell. If it was sent before the pace began, it shows how many
// calls there were.
func (s *speed) onLateThrottled(now time.Duration, paced bool, calls float64) {
	s.refusals++
	if !paced && now-s.began < time.Second && calls > s.usual && !s.trial.running {
		s.usual = calls
		s.perSecond = max(s.perSecond, calls*(1-paceFall))
		s.goal = max(s.goal, calls)
	}
}

// leastTime returns how long a rate that keeps growing takes for as many turns as
// the present rate gives in steady.
func (s *speed) leastTime(steady time.Duration) time.Duration {
	growth := max(paceGrowth, s.climb)
	if s.usual >= slowCaller {
		growth = max(growthFar, growth)
	}
	if s.trial.running { // when it ends, the rate leaps
		steady = time.Duration(float64(steady) * trialRate / 2)
	}
	return time.Duration(math.Log1p(growth*steady.Seconds()) / growth * 1e9)
}

// served is the recent rate of answers that are not refusals: an average over 100 ms,
// or over the time of 16 turns.
type served struct {
	perSecond float64
	at        time.Duration
}

// servedKnown is how long after the beginning it is known.
const servedKnown = 300 * time.Millisecond

func servedTime(turns float64) float64 { return min(max(.1, 16/turns), 2) }

func (s *served) add(now time.Duration, turns float64) {
	s.perSecond = s.rate(now, turns) + 1/servedTime(turns)
	s.at = now
}

func (s *served) rate(now time.Duration, turns float64) float64 {
	return s.perSecond * math.Exp(-(now-s.at).Seconds()/servedTime(turns))
}
