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
	"github.com/gobackoff/backoff/internal/evidence"
	"github.com/gobackoff/backoff/internal/fault"
	"github.com/gobackoff/backoff/internal/limits"
)

// Pacer is a [backoff.Budget] for a service that may respond with "too much",
// such as HTTP 429. Until such responses come, it is only a RetryBudget. Then it
// paces calls: first attempts, and retries of throttled ones, wait in a line for
// their turn, at a rate that follows the responses. Ten seconds without a
// throttled response end the pace. See docs/waiting.md for the rule.
//
// Calls of a higher [backoff.Priority] go first. A call waits as long as its context
// and its policy allow, and no longer than MaxWait. If its deadline is too near for an
// answer, it leaves its turn to the next one. It is refused if 1,000 others of its
// priority or a higher one wait, or as many as pass in 10 s if that is more. A response
// that asks for a wait beyond MaxWait slows no other call, nor does one of
// [backoff.ClassOverloaded].
//
// If a service throttles some of its keys and not the others, use a Pacer per key.
// If it throttles more than one in nine calls at any rate, use a
// [backoff.RetryBudget].
//
// The zero value is ready to use. It is safe for concurrent use, and must not be
// copied, nor its fields changed, after first use.
//
// Sources: Ha, Rhee and Xu, "CUBIC: a new TCP-friendly high-speed TCP variant",
// 2008; Jacobson, "Congestion avoidance and control", 1988; Wald, "Sequential
// tests of statistical hypotheses", 1945; Chiu and Jain, "Analysis of the increase
// and decrease algorithms for congestion avoidance", 1989.
type Pacer struct {
	// Budget of retries after failures other than throttling.
	backoff.RetryBudget

	// Longest wait for a turn. Defaults to 5 minutes; negative means no limit. A
	// call that has waited so long is refused.
	MaxWait time.Duration

	slow  atomic.Bool // calls wait for their turn
	calls callMeter   // first attempts

	mu             sync.Mutex
	watch          clock.Stopwatch
	now            time.Duration // newest reading of the clock
	latency        time.Duration // of responses, a mean
	line           line
	speed          speed
	callsAtRefusal uint64        // number of calls at the newest refusal
	lastRefusal    time.Duration // time of the newest refusal outside of a pace
	firstRetryFree bool          // the next retry need not wait for its turn
}

const (
	paceQuiet    = 10 * time.Second // time without throttling that ends the pace
	paceFar      = 3 * time.Second  // longest wait of the first retry
	paceLine     = 1000             // most calls in the line
	paceLineTime = 10               // seconds of turns that may wait, if those are more calls
	busyCaller   = 12               // calls a second of a program whose first refusals prove nothing
	fewCalls     = 4                // least calls in a second of a program that has just started
	latencyGain  = 8                // responses over which the latency is a mean
	lateMost     = 10               // most turns for the newest that are kept
	latencies    = 2                // time for an answer, in mean ones
	burstShare   = 0.7              // share of the calls of 4 s that makes the last second a burst

	defaultMaxWait = 5 * time.Minute
)

// The bits of a ticket. The others are the epoch and the number in the line; 0 is no
// number.
const (
	paced       = 1 << 62 // the RetryBudget did not grant the attempt; one of its Grants has the bit above, too
	later       = 1 << 61 // the attempt joins the line in Pace, after a wait for another reason
	ready       = 1 << 60 // its turn had come when it last asked
	epochBits   = 16
	withoutTurn = paced
)

// GrantsFirst implements [backoff.Budget]. It is true while no call waits for a
// turn.
func (p *Pacer) GrantsFirst() bool { return p != nil && !p.slow.Load() && p.RetryBudget.GrantsFirst() }

// Reserve implements [backoff.Budget].
func (p *Pacer) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	first := a.First()
	switch {
	case !first && a.Class != backoff.ClassThrottled:
		return p.RetryBudget.Reserve(a)
	case p.slow.Load():
	case a.Paced && a.Wait > 0: // calls may be paced when it has waited
		p.mu.Lock()
		defer p.mu.Unlock()
		p.advance(a.Time())
		return p.later(&a), 0, true
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
	r := rankOf(a.Priority)
	steady := p.waitAtRate(p.line.ahead(r))
	if wait := p.waitOf(r, first); a.Paced && a.Wait > wait { // its turn would come before that
		return p.later(&a), wait, true
	}
	t, wait, ok := p.joinLine(r, first, p.endOf(&a))
	if !a.Paced && wait > 0 { // it will not ask again
		wait = steady
	}
	return t, wait, ok
}

// later returns the ticket of an attempt that joins the line when it has waited. It has
// the rank and, in milliseconds, the end of the call.
func (p *Pacer) later(a *backoff.Attempt) backoff.Ticket {
	return p.ticket(later | uint64(rankOf(a.Priority))<<countBits | uint64(p.endOf(a).Milliseconds())&countMask)
}

// endOf returns when the call of an attempt ends; 0 for never.
func (p *Pacer) endOf(a *backoff.Attempt) time.Duration {
	if a.Deadline.IsZero() {
		return 0
	}
	return max(time.Millisecond, limits.Add(p.now, a.Deadline.Sub(a.Time())))
}

// joinLine gives an attempt of a rank, whose call has an end, the next number in the
// line, unless its turn would come too late.
func (p *Pacer) joinLine(r int, first bool, end time.Duration) (backoff.Ticket, time.Duration, bool) {
	wait := p.waitOf(r, first)
	most, tooLate := p.timeFor(end)
	switch {
	case wait == 0:
	case tooLate, p.leastWait(0) > most: // even if all others leave
		return p.ticket(0), max(most, end-p.now) + time.Second, true
	case float64(p.line.ahead(r)) >= max(paceLine, paceLineTime*p.speed.perSecond):
		return backoff.Ticket{}, 0, false
	}
	number := p.line.join(r, first, place{arrived: p.now, end: end}, p.speed.perSecond)
	if wait == 0 {
		number |= ready
	}
	return p.ticket(number), min(wait, most), true
}

// timeFor returns how long a call with an end may wait for its turn, so that the answer
// comes in time. If it is too late, the wait is longer than the call.
func (p *Pacer) timeFor(end time.Duration) (most time.Duration, tooLate bool) {
	if end == 0 {
		return math.MaxInt64, false
	}
	if most = end - p.now - max(latencies*p.latency, time.Millisecond); most > 0 {
		return most, false
	}
	p.line.late = min(p.line.late+1, lateMost)
	return max(0, end-p.now) + time.Second, true
}

// waitOf returns how long an attempt of a rank waits at least for its turn.
func (p *Pacer) waitOf(r int, first bool) time.Duration {
	n := p.line.ahead(r)
	if p.line.turns >= 1 && n == 0 {
		return 0
	}
	return p.leastWait(p.line.before(n, first))
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

// leastWait returns how long an attempt in the line waits if the rate keeps growing. One
// that wakes too early asks again; one that sleeps too long wastes its turn.
func (p *Pacer) leastWait(before int) time.Duration {
	steady := p.waitAtRate(before)
	quiet := p.speed.quietSince() + paceQuiet - p.now // the pace may end then
	if quiet <= 0 {
		quiet = paceQuiet
	}
	if p.speed.rest.resume > 0 {
		quiet = min(quiet, p.speed.rest.until-p.now)
	}
	if knocks := p.speed.closedFrom() - p.now; knocks > 0 {
		quiet = min(quiet, knocks)
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
	r := rankIn(number)
	before, own := p.line.position(number)
	// Another budget delayed the attempt when its turn had come, and others went.
	missed := t.Word&ready != 0 && number != 0 && p.line.turnsAfter(number) >= saved(p.speed.perSecond)
	switch {
	case t.Word&later != 0:
		return p.joinLine(r, false, time.Duration(number&countMask)*time.Millisecond)
	case missed, number != 0 && p.line.expired(number): // of a pace that ended
		return p.joinLine(r, false, 0)
	case own == nil:
		return p.ticket(number | ready), 0, true
	}
	most, tooLate := p.timeFor(own.end)
	if tooLate {
		return p.ticket(number), most, true
	}
	most = min(most, limits.Add(own.arrived, maxWait(p.MaxWait))-p.now)
	return p.ticket(number), min(p.leastWait(before), most), most > 0
}

// Done implements [backoff.Budget].
func (p *Pacer) Done(t backoff.Ticket, r backoff.Result) {
	says := whose(&r).Row().Pacer
	if says == fault.TooMuch && r.RetryAfter > maxWait(p.MaxWait) {
		says = fault.Quota.Row().Pacer
	}
	throttled := says == fault.TooMuch

	// The RetryBudget gets its own tickets back, and counts every success.
	if t.Word>>62 == 1 {
		p.RetryBudget.Done(backoff.Ticket{}, r)
	} else {
		p.RetryBudget.Done(t, r)
	}

	// First attempts that waited in the line were counted when they joined it. One
	// that another budget delayed is asked for again, and one that was not made is
	// no call.
	if t.Word&^withoutTurn == 0 && !throttled && says != fault.Unmade {
		p.calls.add()
	}

	if !throttled && !p.slow.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	paced := p.advance(clock.Now())
	if r.Took > 0 && (throttled || says == fault.Answer) {
		p.latency += (r.Took - p.latency) / latencyGain
	}
	if throttled {
		p.onThrottled(t.Word, r, paced)
	} else if paced {
		p.onOther(t.Word, says)
	}
	p.putBack(t.Word, says == fault.Unmade)
}

// whose says whose fault the end of an attempt is.
func whose(r *backoff.Result) fault.Fault {
	return fault.Of(r.NotSent, r.Canceled, r.TimedOut, r.Failed, evidence.Class(r.Class))
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
func (p *Pacer) onOther(t uint64, says fault.Says) {
	fresh := p.fresh(t)
	switch says {
	case fault.Answer:
		p.speed.onAnswer(p.now, fresh)
	case fault.Slow: // soon after a throttled response, it is overload too
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
	case t>>62 != 1, t&later != 0 && notSent:
	case t&later != 0: // it was made without Pace
		p.line.turns--
	case notSent && number != 0:
		p.line.leave(number, p.speed.perSecond)
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
	if now-p.speed.quietSince() >= paceQuiet && p.line.waiting() <= 1 {
		p.endPace()
		return false
	}
	p.speed.knock(now)
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

// reviewStart raises the rate of a pace that one refusal began, if the program calls
// more often than before. It ends the pace, and returns false, if the only refusal
// came among the program's first calls. It waits for the first answer.
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

// reviewBurst raises the rate of a pace that one refusal began, if more refusals show
// that it was one of a burst: most calls of the last 4 s came in the last one. The
// mean rate of a program that rests between bursts says little.
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

// Validate reports every invalid field of the RetryBudget.
func (p *Pacer) Validate() error {
	if p == nil {
		return backoff.Permanent(badfield.New("pace.Pacer", "is nil"))
	}
	return p.RetryBudget.Validate()
}
