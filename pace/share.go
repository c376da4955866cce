package pace

import (
	"math"
	"time"
)

// A tally counts responses, from the first refusal on.
type tally struct{ answered, refused float64 }

// enough is how many refusals are needed to know their share of the responses.
const enough = 4

func (t *tally) add(n float64) {
	if t.refused > 0 {
		t.answered += n
	}
}

// full returns the share of refusals among the responses after the first refusal,
// which only begins the count, and whether there were enough to tell.
func (t *tally) full() (share float64, full bool) {
	return (t.refused - 1) / max(1, t.refused-1+t.answered), t.refused >= enough
}

// A trial finds out whether refusals come from the rate, by a sequential test. At
// the rate from, some share of the calls was refused. At a clearly lower rate, the
// trial compares how likely the responses are under two hypotheses: that the share
// stays, and that it vanishes.
type trial struct {
	running bool
	from    float64       // the rate before the trial
	share   float64       // the share that was refused at it
	odds    float64       // the logarithm of the odds that the share stays
	answers tally         // in the trial
	until   time.Duration // when the trial ends undecided
	next    time.Duration // when the next trial may begin
	gap     time.Duration // the pause after the last trial that blamed the rate
}

// A verdict is what a trial found.
type verdict int

const (
	undecided  verdict = iota // it goes on
	timedOut                  // it gave up
	blameRate                 // refusals vanish at the lower rate
	blameCalls                // refusals stay
)

const (
	trialRate    = 0.7             // of what was served
	trialDeepest = 1. / 4          // of the rate before, at least
	trialTime    = 3 * time.Second // of a trial, at the most
	trialGap     = time.Second     // the first pause between trials
	trialGapMost = time.Minute     // the longest
	trialMost    = 1. / 2          // the highest share; beyond it the rate is far too high
	trialLeast   = 3.              // the lowest rate; below it responses come too slowly

	// The hypotheses. Four refusals are a poor estimate of a share. So the first
	// hypothesis is that 0.7 of it stays, but at most 0.1, as much as is tolerated.
	trialStays = 0.7 // of the share is refused still, if the rate is not the reason
	trialShare = 0.1 // at the most
	trialNone  = 0.2 // of that is refused still, if the rate is the reason

	oddsCalls = 2.3 // ten to one: the share stays
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

// observe counts a response, and returns the verdict, if that decides it.
func (t *trial) observe(now time.Duration, refused bool) verdict {
	// The probabilities of a refusal under the two hypotheses.
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
	case a.refused >= enough && a.refused > a.answered, t.odds <= oddsRate: // first: the rate is still far too high
		return t.conclude(now, blameRate)
	case a.refused >= 2 && t.odds >= oddsCalls:
		return t.conclude(now, blameCalls)
	case now >= t.until:
		return t.conclude(now, timedOut)
	}
	return undecided
}

// conclude ends the trial, and says when the next one may begin.
func (t *trial) conclude(now time.Duration, v verdict) verdict {
	switch t.running = false; v {
	case blameRate:
		t.gap = min(max(2*t.gap, trialGap), trialGapMost)
		t.next, t.odds = now+t.gap, 0
	case blameCalls:
		t.gap, t.next, t.odds = 0, now+trialGap, 0
	default:
		t.next = now + trialTime // which goes on with the odds of this one
	}
	return v
}

// A tolerance forgives refusals that do not come from the rate, as a trial has
// found. It lasts for a while, and for twice as long if the next trial confirms it.
type tolerance struct {
	until  time.Duration
	length time.Duration // how long it lasts, or lasted
	credit float64       // how many refusals it forgives now
	odds   float64       // the logarithm of the odds that lately half of all was refused
}

const (
	tolerable       = 1. / 8 // refusals for each other answer
	tolerantGrowth  = 0.3    // of the usual growth, at least
	toleranceTime   = 30 * time.Second
	toleranceMost   = 8 * time.Minute
	toleranceCredit = 10
	toleranceOdds   = 12. // as of 8 refusals in a row; by chance, once in 10 million responses
)

// What a response adds to the odds: half of all responses are refusals, or as many as
// are tolerable.
var (
	oddsOfRefusal = math.Log(.5 * (1 + tolerable) / tolerable)
	oddsOfAnswer  = math.Log(.5 * (1 + tolerable))
)

// learn begins the tolerance, or prolongs it.
func (t *tolerance) learn(now time.Duration) {
	if t.length == 0 || now > t.until+t.length { // the last one was too long ago
		t.length = toleranceTime / 2
	}
	t.length = min(2*t.length, toleranceMost)
	t.until, t.credit, t.odds = now+t.length, toleranceCredit, 0
}

// active reports whether the tolerance still lasts.
func (t *tolerance) active(now time.Duration) bool { return now < t.until }

// earn adds the credit of n answers that were not refusals.
func (t *tolerance) earn(n float64) {
	t.credit = min(t.credit+n*tolerable, toleranceCredit)
	t.odds = max(0, t.odds+n*oddsOfAnswer)
}

// forgives reports whether a refusal slows no other call, and takes its credit.
// Refusals that come together are those of a rate, however few they are in the long
// run: they end the tolerance.
func (t *tolerance) forgives(now time.Duration) bool {
	if !t.active(now) || t.credit < 1 {
		return false
	}
	if t.odds += oddsOfRefusal; t.odds >= toleranceOdds {
		*t = tolerance{}
		return false
	}
	t.credit--
	return true
}
