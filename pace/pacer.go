// Package pace has the Budgets for a service that may respond with "too much",
// such as HTTP 429: a [Pacer] slows the calls of a program to the rate that
// the service accepts, instead of refusing them.
//
//	search := backoff.Policy{Name: "search", Budget: new(pace.Pacer)}
//	err := search.Do(ctx, query)
//
// A client of package backoffhttp has one for each host. A [HoldOff] makes all
// calls wait once the service told one of them when to retry.
package pace

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
)

// Pacer is a [backoff.Budget] for a service that may respond with "too much",
// such as HTTP 429. Each host of a Transport of package backoffhttp has one.
// Until the first such response a Pacer only is its RetryBudget. From then on
// calls are paced: they wait for their turn, instead of being refused.
//
//   - The rate of the turns begins at three quarters of the rate at which the
//     program has been calling. A throttled response lowers it by a quarter,
//     or by less if more than five successes came since the last one: after
//     50, by a fortieth. So does an attempt that timed out. The lowest rate is
//     1/200 of the program's own. What was sent before a fall, or within 50 ms
//     after it, does not lower the rate again.
//   - A success raises the rate, by at most half a turn per second. Up to a goal
//     it may double, and beyond by a tenth. The goal is the program's own rate at
//     first. Each later fall takes a tenth off it, or less in the same way.
//   - First attempts and retries of throttled attempts wait in one line, in the
//     order in which they asked. A retry whose backoff is longer joins the line
//     when that is over. The first retry goes at once if its turn is more than
//     3 s away. No success has to pay for these retries.
//   - Other retries are the RetryBudget's, and do not wait in the line.
//   - Turns that no call takes are not saved, except those of 10 ms.
//   - Ten seconds without a throttled response end the pace, if at most one
//     call waits. If more wait, there is a turn every 50 s at least.
//
// A call waits as long as its context and its policy allow, and no longer than
// MaxWait. It is refused if 1,000 others wait, or as many as pass in 10 s at
// the present rate, if that is more. A response that asks for a wait beyond
// MaxWait means that a quota is used up. It ends its call, and slows no other.
//
// All calls that share a Pacer slow down together. If a service throttles some
// of its keys and not the others, use one per key. If a service throttles more
// than 3 % of the calls at any rate, a Pacer slows a program with many calls a
// second for nothing: use a [backoff.RetryBudget].
//
// The zero value is ready to use. A Pacer must not be copied, nor its fields
// changed, after first use. It is safe for concurrent use. While calls are not
// paced, a success costs two additions, and every eighth reads the clock;
// there is no lock, and nothing is allocated after the first call. While calls
// are paced, an attempt takes a lock two or three times. A Done that never
// comes is a response that is not counted. A second Done gives no turn back
// while the attempt waits, and counts twice otherwise.
//
// Sources: Ha, Rhee and Xu, "CUBIC: a new TCP-friendly high-speed TCP
// variant", 2008, for growing fast up to the former rate, and slowly beyond;
// Chiu and Jain, "Analysis of the increase and decrease algorithms for
// congestion avoidance", 1989.
type Pacer struct {
	// RetryBudget grants retries after failures other than throttling.
	backoff.RetryBudget
	// MaxWait is the longest wait for a turn. A call that has waited so long is
	// refused. 0 means 5 minutes, a negative value no limit. A Transport puts
	// its policy's MaxRetryAfter here.
	MaxWait time.Duration

	slow  atomic.Bool // calls wait for their turn
	calls callMeter   // first attempts

	mu    sync.Mutex
	watch clock.Stopwatch
	now   time.Duration   // of the last look at the clock
	rate  float64         // turns per second
	usual float64         // the highest rate of calls since the pace began
	goal  float64         // the rate up to which it grows fast
	turns float64         // that nobody has taken yet
	given uint64          // the last number that was given to an attempt
	line  []time.Duration // since when those wait that have the last numbers, or left
	gone  int             // of them left
	good  float64         // successes since the rate fell last
	epoch uint64          // counts falls
	began time.Duration   // when the pace began
	fell  time.Duration   // when the rate fell last
	spare bool            // the retry of the attempt that began the pace has not gone yet
}

// left marks the place in the line of an attempt that waits no more.
const left = -1

const (
	paceFall   = 0.25     // what a full fall takes off the rate
	paceGoal   = 0.1      // and off the goal
	paceFull   = 5        // successes before a fall that is full; 10 make it half as deep
	paceUnused = 1.2      // how far the rate may be above the usual one when it falls
	paceLeast  = 1. / 200 // of the usual rate
	paceGrowth = 0.5      // of the rate, in a second
	paceProbe  = 0.1      // of the rate, for a success beyond the goal

	paceQuiet    = 10 * time.Second      // without throttling ends the pace
	paceSlowest  = 1. / 50               // from then on, if more than one waits
	paceSettle   = 50 * time.Millisecond // after a fall answers say nothing new
	paceFar      = 3 * time.Second       // for the first retry to wait
	paceLine     = 1000                  // calls that may wait
	paceLineTime = 10                    // or as many as pass in so many seconds

	defaultMaxWait = 5 * time.Minute
)

// The ticket of an attempt that the RetryBudget did not pay has the bit paced,
// and the bit later if it asks for its number when it has waited for a reason of
// its own. The rest is the epoch and the number, 0 if it has none.
const (
	paced       = 1 << 62 // a Grant of the RetryBudget has the bit above, too
	later       = 1 << 61
	numberBits  = 44
	numberMask  = 1<<numberBits - 1
	paceEpochs  = 1 << 16
	withoutTurn = paced
)

// GrantsFirst is the optional method of a [backoff.Budget]. It is true while
// no call waits for a turn.
func (p *Pacer) GrantsFirst() bool {
	return p != nil && !p.slow.Load() && p.RetryBudget.GrantsFirst()
}

// Reserve implements [backoff.Budget].
func (p *Pacer) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	first := a.Kind == backoff.AttemptFirst
	switch {
	case !first && a.Class != backoff.ClassThrottled:
		return p.RetryBudget.Reserve(a)
	case !p.slow.Load():
		return backoff.Ticket{withoutTurn}, 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.advance(a.Time()) {
		return backoff.Ticket{withoutTurn}, 0, true
	}
	if first {
		p.calls.add()
	} else if p.spare && p.linear(p.waiting()) > paceFar {
		p.spare = false
		return p.ticket(0), 0, true
	}
	return p.enter(a.Wait)
}

// enter gives an attempt that waits for own anyway the next number, unless its
// turn would come before that.
func (p *Pacer) enter(own time.Duration) (backoff.Ticket, time.Duration, bool) {
	wait := p.until(p.waiting())
	switch {
	case own > wait:
		return backoff.Ticket{p.ticket(0)[0] | later}, wait, true
	case float64(p.waiting()) >= max(paceLine, paceLineTime*p.rate):
		return backoff.Ticket{}, 0, false
	}
	p.given++
	p.line = append(p.line, p.now)
	p.serve()
	return p.ticket(p.given), wait, true
}

// serve takes those whose turn it is out of the line.
func (p *Pacer) serve() {
	n := 0
	for ; n < len(p.line); n++ {
		if p.line[n] == left {
			p.gone--
			continue
		}
		if p.turns < 1 {
			break
		}
		p.turns--
	}
	if n < len(p.line) {
		p.line = p.line[n:]
		return
	}
	p.line = p.line[:0]
	p.turns = min(p.turns, max(1, p.rate/100)) // late timers find the turns of 10 ms, but no more
}

func (p *Pacer) waiting() int { return len(p.line) - p.gone }

// place returns how many are before a number in the line. It is negative for one
// whose turn has come.
func (p *Pacer) place(number uint64) int {
	return len(p.line) - 1 - int((p.given-number)&numberMask)
}

func (p *Pacer) ticket(number uint64) backoff.Ticket {
	epoch := p.epoch
	if p.now-p.fell < paceSettle {
		epoch--
	}
	return backoff.Ticket{paced | epoch%paceEpochs<<numberBits | number&numberMask}
}

// linear returns how long it takes at the present rate to the turn of an attempt
// that has so many before it.
func (p *Pacer) linear(before int) time.Duration {
	return time.Duration(min(max(0, float64(before)+1-p.turns)/p.rate*1e9, math.MaxInt64/2))
}

// until returns the least time to that turn: if the rate grows all the time. An
// attempt that wakes too early asks again, and one that sleeps too long leaves
// its turn unused.
func (p *Pacer) until(before int) time.Duration {
	linear := p.linear(before)
	if linear == 0 {
		return 0
	}
	seconds := math.Log1p(paceGrowth*linear.Seconds()) / paceGrowth
	quiet := p.fell + paceQuiet - p.now // it may end then
	if quiet <= 0 {
		quiet = paceQuiet
	}
	return max(time.Millisecond, min(quiet, time.Duration(seconds*1e9)))
}

// Pace is the optional method of a [backoff.Budget].
func (p *Pacer) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	if t[0]>>62 != 1 || !p.slow.Load() {
		return t, 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.advance(clock.Now()) {
		return backoff.Ticket{withoutTurn}, 0, true
	}
	if t[0]&later != 0 {
		return p.enter(0)
	}
	number := t[0] & numberMask
	before := p.place(number)
	if before < 0 {
		return p.ticket(number), 0, true
	}
	most := limits.Add(p.line[before], p.maxWait()) - p.now
	return p.ticket(number), min(p.until(before), most), most > 0
}

// Done implements [backoff.Budget].
func (p *Pacer) Done(t backoff.Ticket, r backoff.Result) {
	answered := r.Outcome == backoff.OutcomeSuccess || r.Outcome == backoff.OutcomeDefinitive
	throttled := r.Outcome == backoff.OutcomeThrottled && r.RetryAfter <= p.maxWait()
	switch own := t[0] == 0 || t[0]>>62 == 1; {
	case !own:
		p.RetryBudget.Done(t, r)
	case answered:
		p.RetryBudget.Done(backoff.Ticket{}, r)
	}
	if t[0]&^withoutTurn == 0 && !throttled {
		p.calls.add()
	}
	if throttled || p.slow.Load() {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch slow := p.advance(clock.Now()); {
		case throttled && !slow:
			p.begin()
		case throttled, slow && r.Outcome == backoff.OutcomeTimeout: // it takes more than it can do
			p.slowDown(t[0])
		case slow && answered:
			p.speedUp()
		}
		switch notSent := r.Outcome == backoff.OutcomeNotSent; {
		case t[0]>>62 != 1:
		case notSent:
			p.giveBack(t[0] & numberMask)
		case t[0]&later != 0: // it was made without Pace
			p.turns--
		}
	}
}

// giveBack takes a number back that was not used. The next one has its turn.
func (p *Pacer) giveBack(number uint64) {
	switch before := p.place(number); {
	case number == 0: // it has none
	case before < 0:
		p.turns++
	case p.line[before] != left:
		p.line[before] = left
		p.gone++
	}
	p.serve()
}

// advance goes on to a reading of the clock. It reports whether calls wait for
// their turn.
func (p *Pacer) advance(read time.Time) bool {
	now := p.watch.Elapsed(read)
	since := now - p.now
	p.now = now
	if !p.slow.Load() {
		return false
	}
	p.turns += p.rate * since.Seconds()
	p.serve()
	if now-p.fell >= paceQuiet {
		if p.waiting() <= 1 {
			p.slow.Store(false)
			return false
		}
		if p.rate < paceSlowest { // of a program that had seldom called
			p.rate, p.goal = paceSlowest, max(p.goal, 1)
		}
	}
	return true
}

// begin begins to pace.
func (p *Pacer) begin() {
	p.usual = p.calls.rate()
	p.rate, p.goal, p.good = p.usual*(1-paceFall), p.usual, 0
	p.turns, p.line, p.gone = 0, p.line[:0], 0
	p.began, p.fell = p.now, p.now
	p.spare = true
	p.epoch++
	p.slow.Store(true)
}

// slowDown takes in that an attempt was throttled.
func (p *Pacer) slowDown(t uint64) {
	usual := p.calls.rate()
	switch {
	case t>>62 == 1 && t>>numberBits%paceEpochs == p.epoch%paceEpochs:
		p.usual = max(p.usual, usual)
		depth, most := p.depth(), paceUnused*p.usual
		p.goal = min(p.goal, most) * (1 - paceGoal*depth)
		p.rate = max(min(p.rate, most)*(1-paceFall*depth), p.usual*paceLeast)
		p.fell = p.now
		p.epoch++
	case p.now-p.began < time.Second && usual > p.usual: // the first answers come before the others
		p.usual, p.goal, p.rate = usual, usual, usual*(1-paceFall)
	}
}

// depth returns how deep the rate falls now, as a share of a full fall. A few
// throttled answers among many others must not slow a program down, because its
// rate may not be their reason.
func (p *Pacer) depth() float64 {
	depth := min(1, paceFull/max(1, p.good))
	p.good = 0
	return depth
}

// speedUp takes in that an attempt was answered.
func (p *Pacer) speedUp() {
	p.good++
	if p.rate < p.goal {
		p.rate = min(p.rate+min(p.rate, paceGrowth), p.goal)
		return
	}
	p.rate += min(p.rate*paceProbe, paceGrowth)
	p.goal = p.rate
}

// Limit returns the rate at this moment, in calls per second, and how many calls
// wait for their turn. The rate is +Inf while calls are not paced.
func (p *Pacer) Limit() (perSecond float64, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.advance(clock.Now()) {
		return math.Inf(1), 0
	}
	return p.rate, p.waiting()
}

func (p *Pacer) maxWait() time.Duration {
	if wait := limits.Or(p.MaxWait, defaultMaxWait); wait > 0 {
		return wait
	}
	return math.MaxInt64
}

// Validate names the field of the RetryBudget that is invalid.
func (p *Pacer) Validate() error {
	if p == nil {
		return backoff.Permanent(badfield.New("pace.Pacer", "is nil"))
	}
	return p.RetryBudget.Validate()
}
