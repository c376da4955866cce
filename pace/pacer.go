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
	"cmp"
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
// Until such responses come, it is only a RetryBudget. Then calls are paced: they
// wait for their turn, instead of being refused.
//
//   - A pace begins with the first throttled response, or with the fourth for a
//     program that makes 12 calls a second or more. It begins at three quarters
//     of the program's recent rate of calls. A program that has just started, or
//     rested before a burst of calls, begins at 10 turns a second or more, and
//     climbs: by 4 turns a second for each answer, until it is throttled.
//   - A throttled response lowers the rate by a quarter, or by less if there were
//     more than five answers for each. So does an attempt that timed out. A
//     response to an attempt that was sent before the rate fell, or within 50 ms
//     after that, does not lower it again. The rate does not fall below 0.95 of
//     what is being served.
//   - If the service asks for a wait and serves nothing until it is over, as when a
//     quota is used up, all that it refused meanwhile counts as one refusal.
//   - An answer raises the rate: by a quarter in a second near the rate of the
//     last fall, and up to four times as fast above it.
//   - Four throttled responses begin a trial, at 0.7 of what is being served. If
//     they stop, the rate was the reason. If they go on, it was not: then one for
//     each eight answers is tolerated, and slows only its own call. That holds
//     for 30 s, and for twice as long each time that a trial confirms it, up to 8
//     minutes. It ends if many refusals come together: they are those of a limit.
//     Programs that share one limit may see the same, so no more is tolerated.
//   - A program with fewer than 8 calls a second makes no trials. Its rate may fall
//     to 1/200 of its own, and grows by at most half a turn a second for each
//     answer. With fewer than 4, all of its refusals count.
//   - First attempts and retries of throttled attempts wait in one line, in the
//     order in which they asked. A retry whose backoff is longer joins the line
//     after the backoff. A call that another budget delays when its turn has
//     come joins the line again. The first retry goes at once if its turn is more
//     than 3 s away. These retries need no success to pay for them.
//   - Other retries need a grant of the RetryBudget, and do not wait in the line.
//   - Unused turns are lost, except for a burst of 10 ms.
//   - Ten seconds without a throttled response end the pace, if at most one
//     call waits. If the service asked for a wait, they begin when that is over.
//     If more calls wait, there is a turn every 50 s at least.
//
// A call waits as long as its context and its policy allow, and no longer than
// MaxWait. It is refused if 1,000 others wait, or as many as pass in 10 s at
// the present rate, if that is more. A response that asks for a wait beyond
// MaxWait means that a quota is used up. It ends its call, and slows no other.
// Nor does a response of [backoff.ClassOverloaded], which is about one request.
//
// All calls that share a Pacer slow down together. If a service throttles some
// of its keys and not the others, use one per key. If it throttles more than
// one in nine calls at any rate, or one in thirty of a program with fewer than
// 8 calls a second, a Pacer slows the program for nothing: use a
// [backoff.RetryBudget]. Programs that share a limit share it unevenly.
//
// The zero value is ready to use. A Pacer must not be copied, nor its fields
// changed, after first use. It is safe for concurrent use. While calls are not
// paced, there is no lock, every eighth success reads the clock, and nothing is
// allocated after the first call. While calls are paced, an attempt takes a
// lock two or three times. A Done that never comes is a response that is not
// counted. A second Done gives no turn back while the attempt waits, and counts
// twice otherwise.
//
// Sources: Ha, Rhee and Xu, "CUBIC: a new TCP-friendly high-speed TCP
// variant", 2008, for growing slowly near the rate of the last fall, and fast
// beyond; Jacobson, "Congestion avoidance and control", 1988, for the climb at
// the start; Wald, "Sequential tests of statistical hypotheses", 1945, for the
// trial; Chiu and Jain, "Analysis of the increase and decrease algorithms for
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

	mu             sync.Mutex
	watch          clock.Stopwatch
	now            time.Duration // the last reading of the clock
	line           line
	speed          speed
	callsAtRefusal uint64        // the number of calls at the last refusal
	lastRefusal    time.Duration // when that was, while calls are not paced
	firstRetryFree bool          // the next retry need not wait for its turn
}

const (
	paceQuiet    = 10 * time.Second // without throttling ends the pace
	paceSlowest  = 1. / 50          // turns a second after that, if more than one call waits
	paceFar      = 3 * time.Second  // the longest wait of the first retry
	paceLine     = 1000             // how many calls may wait
	paceLineTime = 10               // or as many as pass in that many seconds
	busyCaller   = 12               // calls a second of a program whose first refusals prove nothing
	fewCalls     = 4                // calls in a second; with fewer, a program never counts as just started
	burstShare   = 0.7              // of the calls of 4 s in the last one; with more, the program has begun anew

	defaultMaxWait = 5 * time.Minute
)

// The ticket of an attempt that the RetryBudget did not grant has the bit paced. It
// has the bit later if the attempt joins the line in Pace, after a wait for another
// reason, and the bit ready if its turn had come when it last asked. The rest is the
// epoch and the number in the line; 0 is no number.
const (
	paced       = 1 << 62 // a Grant of the RetryBudget has the bit above, too
	later       = 1 << 61
	ready       = 1 << 60
	epochBits   = 16
	withoutTurn = paced
)

// GrantsFirst implements [backoff.Budget]. It is true while no call waits for a
// turn.
func (p *Pacer) GrantsFirst() bool {
	return p != nil && !p.slow.Load() && p.RetryBudget.GrantsFirst()
}

// Reserve implements [backoff.Budget].
func (p *Pacer) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	first := a.First()
	switch {
	case !first && a.Class != backoff.ClassThrottled:
		return p.RetryBudget.Reserve(a)
	case p.slow.Load():
	case a.Paced && a.Wait > 0: // calls may be paced when it has waited
		return backoff.Ticket{Word: paced | later}, 0, true
	default:
		return backoff.Ticket{Word: withoutTurn}, 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.advance(a.Time()) {
		return backoff.Ticket{Word: withoutTurn}, 0, true
	}
	if first {
		p.calls.add()
		if !p.reviewStart() {
			return backoff.Ticket{Word: withoutTurn}, 0, true
		}
	} else if p.firstRetryFree && p.waitAtRate(p.line.waiting()) > paceFar {
		p.firstRetryFree = false
		return p.ticket(0), 0, true
	}
	wait := p.leastWait(p.line.waiting())
	switch {
	case !a.Paced: // it will not ask again
		wait = p.waitAtRate(p.line.waiting())
	case a.Wait > wait: // its turn would come before that
		return p.ticket(later), wait, true
	}
	return p.joinLine(wait)
}

// joinLine gives an attempt the next number. wait is that to its turn.
func (p *Pacer) joinLine(wait time.Duration) (backoff.Ticket, time.Duration, bool) {
	if float64(p.line.waiting()) >= max(paceLine, paceLineTime*p.speed.perSecond) {
		return backoff.Ticket{}, 0, false
	}
	number := p.line.join(p.now, p.speed.perSecond)
	if wait == 0 {
		number |= ready
	}
	return p.ticket(number), wait, true
}

// ticket returns a ticket of the present epoch. Attempts that go soon after a
// fall may meet what was sent before it, and belong to the epoch before.
func (p *Pacer) ticket(numberAndBits uint64) backoff.Ticket {
	epoch := p.speed.epoch
	if p.now-p.speed.fell < paceSettle {
		epoch--
	}
	return backoff.Ticket{Word: paced | epoch%(1<<epochBits)<<numberBits | numberAndBits}
}

// fresh reports whether an attempt was sent in the present epoch.
func (p *Pacer) fresh(t uint64) bool {
	return t>>62 == 1 && (t>>numberBits-p.speed.epoch)%(1<<epochBits) == 0
}

// waitAtRate returns how long an attempt with that many before it waits for its
// turn at the present rate.
func (p *Pacer) waitAtRate(before int) time.Duration {
	turns := max(0, float64(before)+1-p.line.turns)
	return time.Duration(min(turns/p.speed.perSecond*1e9, math.MaxInt64/2))
}

// leastWait is waitAtRate for a rate that keeps growing. An attempt that wakes too
// early asks again; one that sleeps too long wastes its turn.
func (p *Pacer) leastWait(before int) time.Duration {
	steady := p.waitAtRate(before)
	if steady == 0 {
		return 0
	}
	quiet := p.speed.quietSince() + paceQuiet - p.now // the pace may end then
	if quiet <= 0 {
		quiet = paceQuiet
	}
	if p.speed.rest.resume > 0 {
		quiet = min(quiet, p.speed.rest.until-p.now)
	}
	return max(time.Millisecond, min(quiet, p.speed.leastTime(steady)))
}

// Pace implements [backoff.Budget].
func (p *Pacer) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	switch {
	case t.Word>>62 != 1:
		return t, 0, true
	case !p.slow.Load():
		return backoff.Ticket{Word: withoutTurn}, 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.advance(clock.Now()) {
		return backoff.Ticket{Word: withoutTurn}, 0, true
	}
	number := t.Word & numberMask
	before := p.line.position(number)
	// Another budget made the attempt wait although its turn had come, and others
	// have gone since.
	missed := t.Word&ready != 0 && number != 0 && p.line.turnsAfter(number) >= saved(p.speed.perSecond)
	switch {
	case missed, t.Word&later != 0:
		return p.joinLine(p.leastWait(p.line.waiting()))
	case before < 0:
		return p.ticket(number | ready), 0, true
	}
	most := limits.Add(p.line.arrived[before], maxWait(p.MaxWait)) - p.now
	return p.ticket(number), min(p.leastWait(before), most), most > 0
}

// Done implements [backoff.Budget].
func (p *Pacer) Done(t backoff.Ticket, r backoff.Result) {
	throttled := r.Class == backoff.ClassThrottled && !r.NotSent && !r.Canceled && !r.TimedOut && r.RetryAfter <= maxWait(p.MaxWait)

	// The RetryBudget gets its own tickets back, and counts every success.
	if t.Word>>62 == 1 {
		p.RetryBudget.Done(backoff.Ticket{}, r)
	} else {
		p.RetryBudget.Done(t, r)
	}

	// First attempts that waited in the line were counted when they joined it. One
	// that another budget delayed is asked for again, and one that was not made is
	// no call.
	if t.Word&^withoutTurn == 0 && !throttled && !r.NotSent {
		p.calls.add()
	}

	if !throttled && !p.slow.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	paced := p.advance(clock.Now())
	if throttled {
		p.onThrottled(t.Word, r, paced)
	} else if paced {
		p.onOther(t.Word, r)
	}
	p.putBack(t.Word, r.NotSent)
}

// onThrottled begins a pace, or adjusts the rate to a throttled response.
func (p *Pacer) onThrottled(t uint64, r backoff.Result, paced bool) {
	fresh := p.fresh(t)
	p.speed.lastThrottled = p.now
	if fresh || !paced {
		p.speed.rest.ask(p.now, max(0, r.RetryAfter))
	}

	switch {
	case !paced:
		p.beginPace()
	case fresh:
		p.speed.onThrottled(p.now, p.calls.rate())
	default: // it was sent before the rate fell
		p.speed.onLateThrottled(p.now, t != 0 && t != withoutTurn, p.calls.rate())
		p.reviewBurst()
	}
}

// onOther adjusts the rate of a pace to a response that is not throttled.
func (p *Pacer) onOther(t uint64, r backoff.Result) {
	fresh := p.fresh(t)
	switch {
	case r.Answered():
		p.speed.onAnswer(p.now, fresh)
	case r.TimedOut && !r.Canceled: // soon after a throttled response, it is overload too
		if fresh && p.now-p.speed.quietSince() < paceQuiet {
			p.speed.slowDown(p.now, p.calls.rate())
		}
	}
}

// putBack returns the turn of an attempt that was not made, and charges a turn for
// an attempt that was made without one.
func (p *Pacer) putBack(t uint64, notSent bool) {
	number := t & numberMask
	switch {
	case t>>62 != 1:
	case notSent && number != 0:
		p.line.leave(number, p.speed.perSecond)
	case !notSent && t&later != 0: // it was made without Pace
		p.line.turns--
	}
}

// advance moves the time on to a reading of the clock, and releases the calls whose
// turn has come. It reports whether calls are paced.
func (p *Pacer) advance(read time.Time) bool {
	now := p.watch.Elapsed(read)
	since := now - p.now
	p.now = now
	if !p.slow.Load() {
		return false
	}
	p.line.turns += p.speed.perSecond * since.Seconds()
	p.speed.endRest(now)
	p.line.serve(p.speed.perSecond)
	if now-p.speed.quietSince() >= paceQuiet {
		if p.line.waiting() <= 1 {
			p.endPace()
			return false
		}
		if p.speed.perSecond < paceSlowest { // the program called rarely
			p.speed.perSecond, p.speed.goal = paceSlowest, max(p.speed.goal, 1)
		}
	}
	return true
}

// beginPace begins a pace, unless the refusal is tolerated, or is one of the first
// of a program that makes many calls.
func (p *Pacer) beginPace() {
	s := &p.speed
	if p.now-p.lastRefusal > paceQuiet {
		s.sample = tally{}
	}
	answers := float64(p.calls.count.Load() - p.callsAtRefusal)
	p.callsAtRefusal, p.lastRefusal = p.calls.count.Load(), p.now
	s.sample.add(answers)
	s.tolerance.earn(answers)
	if s.tolerance.forgives(p.now) {
		return
	}
	s.sample.refused++
	if _, full := s.sample.full(); !full && p.busy() {
		return
	}
	s.begin(p.now, p.calls.rate(), p.calls.recent(), p.justStarted())
	p.line.clear()
	p.firstRetryFree = true
	p.slow.Store(true)
}

// justStarted reports whether the program has just begun to make calls.
func (p *Pacer) justStarted() bool { return p.calls.within(time.Second) >= fewCalls && p.calls.young() }

// busy reports whether the program makes so many calls that a few refusals prove
// nothing.
func (p *Pacer) busy() bool {
	return p.calls.within(time.Second) >= busyCaller || p.justStarted() && p.calls.recent() >= busyCaller
}

// reviewStart corrects a pace that one refusal began, when the program turns out to
// make more calls than before: the rate rises. If these are the program's first
// calls and no other was refused, one refusal proves nothing: the pace ends, and
// reviewStart returns false. It waits for the first answer.
func (p *Pacer) reviewStart() bool {
	s, soon := &p.speed, p.now-p.speed.began < time.Second
	switch calls := p.calls.rate(); {
	case s.epoch != s.opened || s.climb > 0 || s.answers == 0:
	case soon && s.refusals == 0 && p.justStarted() && p.busy():
		s.sample = tally{refused: 1}
		p.endPace()
		return false
	case soon && p.justStarted(), calls >= slowCaller && calls > 2*s.usual:
		s.raiseTo(max(calls, p.calls.recent()))
	}
	return true
}

// reviewBurst corrects a pace that a refusal began, when more refusals show that it
// was one of a burst: most calls of the last 4 s came in the last one. The mean rate
// of a program that rests between its bursts says as little as that of one that has
// just started.
func (p *Pacer) reviewBurst() {
	s, refused := &p.speed, p.speed.refusals+1
	if s.epoch != s.opened || refused < fewCalls || p.now-s.began >= time.Second {
		return
	}
	if burst := refused + p.calls.within(time.Second); burst > burstShare*(refused+p.calls.within(4*time.Second)) {
		s.raiseTo(burst)
	}
}

// endPace ends the pace.
func (p *Pacer) endPace() {
	p.slow.Store(false)
	p.callsAtRefusal = p.calls.count.Load()
}

// Limit returns the rate at this moment, in calls per second, and how many calls
// wait for their turn. The rate is +Inf while calls are not paced.
func (p *Pacer) Limit() (perSecond float64, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.advance(clock.Now()) {
		return math.Inf(1), 0
	}
	return p.speed.perSecond, p.line.waiting()
}

// maxWait returns a MaxWait with its default, and the longest duration where there
// is no limit.
func maxWait(d time.Duration) time.Duration {
	if d < 0 {
		return math.MaxInt64
	}
	return cmp.Or(d, defaultMaxWait)
}

// Validate names the field of the RetryBudget that is invalid.
func (p *Pacer) Validate() error {
	if p == nil {
		return backoff.Permanent(badfield.New("pace.Pacer", "is nil"))
	}
	return p.RetryBudget.Validate()
}
