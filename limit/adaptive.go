package limit

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
)

// AdaptiveRate is a [backoff.Budget] that finds the rate a service can take,
// without being told. The rate falls with each adverse event. While there is
// none it rises again in steps, more slowly than it fell:
//
//	rate = max(base * Decrease^(level/Steps), Min)
//
// An adverse event adds Steps to the level. Each quiet time that Recovery gives
// takes 1 from it.
//
// An adverse event is an OutcomeThrottled, or a call of
// [AdaptiveRate.SlowDown]. An attempt counts only if it was granted at the
// present rate. A hundred attempts that were under way together and are all
// throttled lower the rate once.
//
// The base is Max. Without a Max there is no limit until the first event, and
// then the base is the rate at which attempts were being made. Without a Max,
// too, the rate may rise beyond the base, but only while at least half of it
// is used, because an unused rate proves nothing. When less than half is used
// for Steps steps in a row, there is no limit again.
//
// Attempts beyond the rate wait as under [Rate], in the order in which they
// asked while the rate stays or falls. When the rate rises, an attempt that
// was told to wait at the lower rate keeps its time, and attempts that ask
// later may be made before it. Otherwise all would wait for the last one that
// asked at the lower rate. An attempt that waits longer for another reason
// takes its token after that, as under Rate.
//
// Falls in a row are those with no full recovery between them. Recovery gets
// their number, so the recovery may back off as well.
//
// If the service's limit is steady, the rate swings between half of that limit
// and a step or two above it. Its mean is 0.7 to 0.85 of the limit. With
// Decrease: 0.9 and Steps: 2 the mean is above 0.9, and a large drop of the
// service's limit takes more events to follow. The rate limiter of AWS's
// adaptive mode, in presets, has no such setting.
//
// The zero value is ready to use. An AdaptiveRate must not be copied, nor its
// fields changed, after first use. It is safe for concurrent use; an attempt
// takes a lock twice. A Done that is never called counts as one without an
// adverse event; a second Done changes nothing.
//
// Use one per resource, as [backoff.Budgets] does: what one resource refuses
// slows the attempts on all resources that share the limit.
//
// Sources: Wikipedia, "Exponential backoff": f = 1/b^c, and a recovery slower
// than the fall; Chiu and Jain, "Analysis of the increase and decrease
// algorithms for congestion avoidance", 1989; RFC 7661, on not growing while
// unused.
type AdaptiveRate struct {
	// Max is the rate when nothing is wrong, in attempts per second. 0 and
	// rate.Inf mean no limit; negative ones are invalid.
	Max rate.Limit
	// Min is the lowest rate. 0 means 0.5, an attempt every 2 s; negative ones,
	// rate.Inf, and those beyond Max, are invalid.
	Min rate.Limit
	// Burst is how many attempts may be made at once after a pause. 0 means 1;
	// negative ones are invalid.
	Burst int
	// Decrease is the share of the rate that an adverse event leaves. 0 means
	// 0.5; it must be less than 1.
	Decrease float64
	// Steps is how many steps up make good for one event. 0 means 8, with which
	// each step raises the rate by 9 %; negative ones are invalid.
	Steps int
	// Recovery.Delay(n) is the quiet time before each step up, after n falls in
	// a row. nil means Constant(time.Second). Linear{Initial: 30 * time.Second}
	// makes it 30, 60, 90 s.
	Recovery backoff.Schedule

	mu      sync.Mutex
	limiter *rate.Limiter
	queue   queue
	sent    meter

	base       rate.Limit    // the rate at level 0; 0 while there is no limit
	level      int           // steps below base; negative above it
	goal       int           // the level at which the falls in a row are made good
	falls      int           // in a row
	idleSteps  int           // steps in a row that were not taken, as the rate was not used
	epoch      uint16        // counts falls
	lastFall   time.Duration // when the newest fall was
	lastChange time.Duration // when the newest fall or step was
}

// epochBits is how many bits of a ticket are the epoch. It is not kept in the
// queue, which forgets attempts when very many are under way.
const epochBits = 16

const (
	defaultMinRate  = 0.5
	defaultDecrease = 0.5
	defaultSteps    = 8
)

// Reserve implements [backoff.Budget].
func (l *AdaptiveRate) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return l.reserve(a.Time(), a.Wait)
}

// Pace is the optional method of a [backoff.Budget]. An attempt that waited for
// another reason takes its token now, at the present rate.
func (l *AdaptiveRate) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	read := clock.Now()
	if t.Word()&planned != 0 {
		return l.reserve(read, 0)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return t, l.queue.left(t.Word()>>epochBits, l.advance(read)), true
}

// reserve takes a token, or plans to take it where own is longer than the wait
// for it. The ticket has the number of the reservation and the epoch.
func (l *AdaptiveRate) reserve(read time.Time, own time.Duration) (backoff.Ticket, time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.advance(read)
	number, wait, ok := l.queue.reserve(l.limiter, 1, now, own)
	ticket := number<<epochBits | uint64(l.epoch)
	switch {
	case ok && number == 0:
		ticket |= planned
	case ok:
		l.sent.add(now)
	}
	return backoff.NewTicket(ticket), wait, ok
}

// Done implements [backoff.Budget].
func (l *AdaptiveRate) Done(t backoff.Ticket, r backoff.Result) {
	unused := r.Outcome == backoff.OutcomeNotSent
	if t.Word()>>epochBits == 0 || unused && t.Word()&planned != 0 {
		return
	}
	read := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.advance(read)
	counts := true
	if number := t.Word() >> epochBits; t.Word()&planned == 0 {
		_, counts = l.queue.finish(l.limiter, now, number, unused)
		counts = counts || number <= l.queue.forgotten
	} else { // it was made without Pace
		l.sent.add(now)
		l.limiter.ReserveN(l.queue.watch.Time(now), 1)
	}
	if counts && r.Outcome == backoff.OutcomeThrottled && uint16(t.Word()) == l.epoch {
		l.fall(now)
	}
}

// SlowDown reports an adverse event that an operation found in a success: the
// service asks for less without refusing. sent is when the request was sent.
// If that was before the last fall, the response is old, and SlowDown does
// nothing. With a zero sent it always counts.
func (l *AdaptiveRate) SlowDown(sent time.Time) {
	read := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.advance(read)
	if sent.IsZero() || l.epoch == 0 || now-read.Sub(sent) >= l.lastFall {
		l.fall(now)
	}
}

// Limit returns the rate at this moment: rate.Inf while there is no limit.
func (l *AdaptiveRate) Limit() rate.Limit {
	read := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(read)
	return l.limit()
}

// advance goes on to a reading of the clock, takes the steps up that were due
// until then, and returns the elapsed time.
func (l *AdaptiveRate) advance(read time.Time) time.Duration {
	now := l.queue.watch.Elapsed(read)
	if l.limiter == nil {
		l.base = l.top()
		l.limiter = rate.NewLimiter(l.limit(), l.burst())
		l.queue.overtaking = true
	}
	for l.base > 0 && (l.top() == 0 || l.level > 0) {
		due := limits.Add(l.lastChange, l.quietTime())
		if due > now {
			break
		}
		l.lastChange = due
		l.stepUp(due)
	}
	return now
}

// quietTime is how long there must be no adverse event before the next step up.
func (l *AdaptiveRate) quietTime() time.Duration {
	if l.Recovery == nil {
		return time.Second
	}
	return max(0, l.Recovery.Delay(max(1, l.falls)))
}

// stepUp raises the rate, if it is used or has fallen from a higher one.
func (l *AdaptiveRate) stepUp(at time.Duration) {
	if l.level > l.goal || l.top() > 0 || l.sent.rate(at) >= l.limit()/2 {
		l.level--
		l.idleSteps = 0
	} else if l.idleSteps++; l.idleSteps >= l.steps() {
		l.base, l.level, l.goal, l.idleSteps = 0, 0, 0, 0
	}
	if l.level <= l.goal {
		l.falls = 0
	}
	l.limiter.SetLimitAt(l.queue.watch.Time(at), l.limit())
}

// fall lowers the rate.
func (l *AdaptiveRate) fall(now time.Duration) {
	if l.base == 0 {
		l.base = max(1, l.sent.rate(now))
	}
	if l.falls == 0 {
		l.goal = l.level
	}
	l.falls++
	l.idleSteps = 0
	l.epoch++
	l.lastFall, l.lastChange = now, now
	l.level = min(l.level+l.steps(), max(l.level, l.lowest()))
	t := l.queue.watch.Time(now)
	l.limiter.SetLimitAt(t, l.limit())
	l.limiter.SetBurstAt(t, 0) // drops the tokens saved at the old rate
	l.limiter.SetBurstAt(t, l.burst())
}

// lowest is the level from which the rate does not fall any more.
func (l *AdaptiveRate) lowest() int {
	falls := math.Log(float64(l.minimum()/l.base)) / math.Log(l.decrease())
	return int(math.Ceil(falls * float64(l.steps())))
}

func (l *AdaptiveRate) minimum() rate.Limit {
	least := limits.Or(l.Min, defaultMinRate)
	if top := l.top(); top > 0 {
		return min(least, top)
	}
	return least
}

// top is Max, or 0 if there is no limit.
func (l *AdaptiveRate) top() rate.Limit {
	if l.Max == rate.Inf {
		return 0
	}
	return l.Max
}

func (l *AdaptiveRate) decrease() float64 { return limits.Or(l.Decrease, defaultDecrease) }
func (l *AdaptiveRate) steps() int        { return limits.Or(l.Steps, defaultSteps) }
func (l *AdaptiveRate) burst() int        { return limits.Or(l.Burst, 1) }

// limit is the rate at the present level.
func (l *AdaptiveRate) limit() rate.Limit {
	if l.base == 0 {
		return rate.Inf
	}
	share := math.Pow(l.decrease(), float64(l.level)/float64(l.steps()))
	return max(l.base*rate.Limit(share), l.minimum())
}

// Validate names the field that is out of its range.
func (l *AdaptiveRate) Validate() error { return backoff.Permanent(l.check()) }

func (l *AdaptiveRate) check() error {
	switch {
	case l == nil:
		return badfield.New("limit.AdaptiveRate", "is nil")
	case !(l.Max >= 0 && l.Max <= rate.Inf):
		return badfield.Float("limit.AdaptiveRate.Max", float64(l.Max), "0 (for none) or more")
	case !(l.Min >= 0 && l.Min < rate.Inf) || l.Max > 0 && l.Min > l.Max:
		return badfield.Float("limit.AdaptiveRate.Min", float64(l.Min), "0 (for 0.5) or more, up to Max")
	case l.Burst < 0:
		return badfield.Int("limit.AdaptiveRate.Burst", l.Burst, "0 (for 1) or more")
	case !(l.Decrease >= 0 && l.Decrease < 1):
		return badfield.Float("limit.AdaptiveRate.Decrease", l.Decrease, "0 (for 0.5) or more, and less than 1")
	case l.Steps < 0:
		return badfield.Int("limit.AdaptiveRate.Steps", l.Steps, "0 (for 8) or more")
	}
	return l.checkRecovery()
}

// checkRecovery has a policy check the schedule.
func (l *AdaptiveRate) checkRecovery() error {
	if l.Recovery == nil {
		return nil
	}
	probe := backoff.Policy{Schedule: l.Recovery}
	return badfield.Rename(probe.Validate(), "Policy.Schedule", "limit.AdaptiveRate.Recovery")
}
