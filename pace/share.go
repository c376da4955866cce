package pace

import (
	"math"
	"time"
)

// A tally counts answers from a refusal on.
type tally struct{ answered, refused float64 }

// enough refusals tell what share of the answers they are.
const enough = 4

func (t *tally) answer(n float64) {
	if t.refused > 0 {
		t.answered += n
	}
}

// full reports whether there are enough refusals, and which share of the answers
// was refused. The first refusal only begins the count.
func (t *tally) full() (share float64, full bool) {
	return (t.refused - 1) / max(1, t.refused-1+t.answered), t.refused >= enough
}

// A trial finds out whether refusals come from the rate. Some share of the calls
// is refused at one rate. At a clearly lower one, the trial compares how likely
// the answers are if that share stays, and if it vanishes.
type trial struct {
	running bool
	from    float64       // the rate before
	share   float64       // and what was refused at it
	odds    float64       // logarithm of: it stays, over: it vanishes
	answers tally         // in the trial
	until   time.Duration // it ends undecided then
	next    time.Duration // there is none before
	gap     time.Duration // after one that blamed the rate
}

// A verdict is what a trial found.
type verdict int

const (
	undecided verdict = iota // and goes on
	tooLong                  // and gave up
	theRate                  // refusals vanish with the rate
	theCalls                 // refusals stay
)

const (
	trialRate    = 0.7             // of what was served
	trialDeepest = 1. / 4          // of the rate before, at least
	trialTime    = 3 * time.Second // at the most
	trialGap     = time.Second     // to the next trial at first
	trialGapMost = time.Minute
	trialStays   = 0.7    // of the share stays, if the rate is not the reason; few refusals tell it badly
	trialShare   = 0.1    // stays at the most, as more would not be tolerated
	trialNone    = 0.2    // of that is left, if the rate is the reason
	trialMost    = 1. / 2 // of the answers is refused; beyond that the rate is far too high
	trialLeast   = 3.     // turns a second, or the answers come too slowly

	oddsCalls = 2.3 // ten to one
	oddsRate  = -3. // one to twenty
)

// begin begins a trial.
func (t *trial) begin(now time.Duration, from, share float64) {
	if now > t.next+30*time.Second {
		t.odds, t.gap = 0, 0
	}
	t.running, t.from, t.share = true, from, share
	t.answers, t.until = tally{}, now+trialTime
}

// hear takes an answer in, and returns what it means.
func (t *trial) hear(now time.Duration, refused bool) verdict {
	stays := min(trialStays*t.share, trialShare)
	vanishes := stays * trialNone
	if refused {
		t.answers.refused++
		t.odds += math.Log(stays / vanishes)
	} else {
		t.answers.answered++
		t.odds += math.Log((1 - stays) / (1 - vanishes))
	}
	switch a := t.answers; {
	case a.refused >= enough && a.refused > a.answered: // the rate is still far too high
		return t.end(now, theRate)
	case a.refused >= 2 && t.odds >= oddsCalls:
		return t.end(now, theCalls)
	case t.odds <= oddsRate:
		return t.end(now, theRate)
	case now >= t.until:
		return t.end(now, tooLong)
	}
	return undecided
}

func (t *trial) end(now time.Duration, v verdict) verdict {
	switch t.running = false; v {
	case theRate:
		t.gap = min(max(2*t.gap, trialGap), trialGapMost)
		t.next, t.odds = now+t.gap, 0
	case theCalls:
		t.gap, t.next, t.odds = 0, now+trialGap, 0
	default:
		t.next = now + trialTime // what it has heard counts
	}
	return v
}

// A tolerance is what a trial taught: that some refusals do not come from the
// rate. It counts for a while, for longer if the next trial says the same.
type tolerance struct {
	until  time.Duration
	last   time.Duration // how long it counted last
	credit float64       // refusals that it forgives
}

const (
	tolerable       = 1. / 8 // refusals for each other answer
	tolerantGrowth  = 0.3    // of the usual growth, at least
	toleranceTime   = 30 * time.Second
	toleranceMost   = 8 * time.Minute
	toleranceCredit = 10
)

func (t *tolerance) learn(now time.Duration) {
	if t.last == 0 || now > t.until+t.last {
		t.last = toleranceTime / 2
	}
	t.last = min(2*t.last, toleranceMost)
	t.until, t.credit = now+t.last, toleranceCredit
}

// counts reports whether it is not over.
func (t *tolerance) counts(now time.Duration) bool { return now < t.until }

// earn takes answers in that were no refusals.
func (t *tolerance) earn(n float64) {
	t.credit = min(t.credit+n*tolerable, toleranceCredit)
}

// forgives reports whether a refusal is left to its call.
func (t *tolerance) forgives(now time.Duration) bool {
	if !t.counts(now) || t.credit < 1 {
		return false
	}
	t.credit--
	return true
}
