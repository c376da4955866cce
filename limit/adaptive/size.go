package adaptive

import (
	"math"
	"time"
)

const (
	fewest    = 4               // running attempts; below that there is no trial
	firstPart = 2               // this part of the running attempts may run first in a trial,
	nextPart  = 4               // and then this part of that
	gain      = 2               // times quicker: then it was an overload,
	share     = 0.5             // unless fewer than this of the answers of a second are left
	trialRuns = 16              // attempts in each part of a trial,
	shortRuns = 6               // or so many
	trialTime = time.Second     // in this time,
	mostTrial = 5 * time.Second // which is too long without them
	firstGap  = 5 * time.Second // after a trial that finds no overload, and twice as long after each,
	mostGap   = 16 * time.Minute

	near     = 3                // times the usual latency, or less: more attempts may run
	far      = 6                // or more: fewer
	someLate = 0.1              // of a round run out of time: fewer, too
	mostLate = 0.5              // of the attempts run out of time: fewer, and nothing else is known
	leastCut = 0.8              // of the limit is left,
	mostCut  = 0.5              // or less, down to this
	growth   = 0.05             // more after each round,
	least    = 0.25             // and at least this
	round    = 8                // attempts, at least
	mostRest = 5 * time.Second  // after one attempt, however long it took
	noUse    = 2 * time.Second  // at the least limit, and the service is no quicker: end the limit,
	unused   = 5 * time.Second  // and so does this time without an attempt that waits,
	hopeless = 30 * time.Second // or without one that is answered
)

// A phase is how much is known about an overload.
type phase uint8

const (
	off    phase = iota // there is no limit
	first               // part of a trial
	second              // part of a trial
	proved              // fewer attempts make the service quicker
)

// A size is how many attempts may run at once. It begins with a trial: if fewer attempts
// do not make the service quicker, it is not overloaded, but only slower, and the limit
// ends. Then the limit follows the latency from round to round. The attempts of a round
// are sent after the last change. Below a limit of 1, an attempt rests after the one
// before it: twice as long as that took if the limit is a third. All times are those of
// the owner's stopwatch.
type size struct {
	phase phase
	limit float64
	rest  time.Duration // when the next attempt may run, if the limit is below 1
	bound time.Duration // when an attempt last had to wait

	free     time.Duration // when the limit was last above the least
	answered time.Duration // when an attempt was last answered

	since  time.Duration // beginning of the round
	runs   int           // attempts of the round that succeeded
	late   int           // and that ran out of time
	above  float64       // sum of the logarithms of how much longer than usual the former took
	before float64       // the mean of these in the first part of the trial
	rate   float64       // answers a second then

	next time.Duration // when another trial may begin
	gap  time.Duration // before it
}

// most returns how many attempts may run.
func (s *size) most() float64 {
	if s.phase == off {
		return math.Inf(1)
	}
	return s.limit
}

// admits reports whether one more attempt may run beside others.
func (s *size) admits(running int, most float64, now time.Duration) bool {
	return s.phase == off || now >= s.rest && float64(running) < max(1, most)
}

// begin begins a trial, if enough attempts are running.
func (s *size) begin(now time.Duration, running int) {
	if now >= s.next && running >= fewest {
		*s = size{phase: first, limit: float64(running) / firstPart, bound: now, answered: now, since: now, gap: s.gap}
	}
}

// suspend ends the limit, and lets no trial begin before a time.
func (s *size) suspend(until time.Duration) {
	s.next = max(s.next, until)
	s.end()
}

// end ends the limit.
func (s *size) end() { *s = size{next: s.next, gap: s.gap} }

// learn takes note of an attempt that took so long, which is so much longer than usual.
func (s *size) learn(now, took time.Duration, above float64, late bool) {
	if s.limit < 1 {
		s.rest = now + min(mostRest, time.Duration(float64(took)*(1/s.limit-1)))
	}
	switch {
	case now-took < s.since:
		return
	case now-s.bound > unused:
		s.end()
		return
	case late:
		s.late++
	default:
		s.runs++
		s.above += math.Log(above)
	}
	switch n := s.runs + s.late; {
	case s.phase == proved && (n < round || float64(n) < s.limit/2):
	case s.phase == proved:
		s.follow(now)
	case n < shortRuns, n < trialRuns && now-s.since < trialTime:
	case float64(s.late) > mostLate*float64(n): // it works off what it has accepted
		s.limit = max(1, s.limit*mostCut)
		s.renew(now)
	default:
		s.judge(now)
	}
}

// heard takes note of an attempt that has ended. If none is answered, the attempts that run
// may wait for others that have no place.
func (s *size) heard(now time.Duration, answered bool) {
	switch {
	case s.phase == off:
	case answered:
		s.answered = now
	case now-s.answered > hopeless:
		s.giveUp(now)
	}
}

// judge ends a part of the trial.
func (s *size) judge(now time.Duration) {
	mean, rate := s.above/float64(s.runs), float64(s.runs)/(now-s.since).Seconds()
	switch {
	case s.phase == first && mean < math.Log(slow):
		s.giveUp(now) // it is not slower any more
	case s.phase == first:
		s.phase, s.before, s.rate, s.limit = second, mean, rate, max(least, s.limit/nextPart)
	case s.before-mean >= math.Log(gain) && rate >= share*s.rate:
		s.phase, s.gap = proved, 0
	default:
		s.giveUp(now)
	}
	s.renew(now)
}

// keepsBack takes note of an attempt that has to wait.
func (s *size) keepsBack(now time.Duration) {
	if s.bound = now; s.phase < proved && s.runs+s.late < shortRuns && now-s.since > mostTrial {
		s.giveUp(now)
	}
}

// giveUp ends a limit that does not make the service quicker.
func (s *size) giveUp(now time.Duration) {
	s.gap = min(max(2*s.gap, firstGap), mostGap)
	s.next = now + s.gap
	s.end()
}

// follow changes the limit after a round.
func (s *size) follow(now time.Duration) {
	slower := math.Exp(s.above / float64(max(1, s.runs)))
	late := float64(s.late) / float64(s.runs+s.late)
	if s.limit > least {
		s.free = now
	}
	switch {
	case slower >= far && now-s.free >= noUse:
		s.giveUp(now)
	case slower >= far, slower >= near && late >= someLate, late > mostLate:
		s.limit = max(least, s.limit*min(leastCut, max(mostCut, math.Sqrt(far/slower))))
	case slower < near && s.bound >= s.since:
		s.limit += max(least, growth*s.limit)
	}
	s.renew(now)
}

// renew begins a round.
func (s *size) renew(now time.Duration) { s.since, s.runs, s.late, s.above = now, 0, 0, 0 }
