package backoff

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff/internal/clock"
)

// RateLimit is a [Budget] of a [rate.Limiter]: every attempt takes a token, and waits for
// it where there is none. Those who wait go in the order in which they asked. A call
// whose wait would pass its deadline, or its MaxElapsed, ends at once, by the loop.
//
// The loop sleeps, not the budget: Reserve tells how long, and the time it told stands. A
// token that is not used, because the call ended while it waited or another budget
// refused, goes back to the limiter, and whoever asks next waits less; but not less than
// those who wait already. Where others wait behind the one who left, the token must be
// saved until they have gone, and is lost where the limiter's burst has no room for it.
// So in any interval T at most burst + limit*T attempts come to their time, and those
// whose token was given back when it had long been due. Once nobody waits, it is as if
// those who left had never asked; a plain Limiter would go on paying for them.
//
// A retry takes its token when it is decided on. Where its backoff is longer than the
// wait for the token, it is made when the backoff ends.
//
// The limiter may be shared with other code, and its limit changed at any time; the waits
// that were told before stand. A limiter with a limit of 0 and no tokens left refuses. A
// RateLimit must not be copied, nor its fields changed, after first use. It is safe for
// concurrent use. A Done that never comes keeps a token that was due anyhow; a second one
// changes nothing. It relies on ReserveN taking a negative number, which gives tokens
// back but is not documented (go.dev/issue/54082); its tests would tell.
type RateLimit struct {
	// Limiter has the tokens. A nil one is invalid, and limits nothing.
	Limiter *rate.Limiter
	// Tokens is what an attempt takes. 0 means 1; negative ones are invalid, and so is
	// more than the limiter's burst, for then nothing would ever go.
	Tokens int
	// RetriesOnly leaves first attempts alone.
	RetriesOnly bool

	mu   sync.Mutex
	line line
}

// Reserve implements [Budget].
func (l *RateLimit) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	if l.Limiter == nil || l.RetriesOnly && a.Kind == AttemptFirst {
		return Ticket{}, 0, true
	}
	now := a.Time()
	l.mu.Lock()
	defer l.mu.Unlock()
	number, wait, ok := l.line.enter(l.Limiter, cmp.Or(l.Tokens, 1), l.line.watch.read(now), 0)
	return Ticket{number}, wait, ok
}

// Done implements [Budget].
func (l *RateLimit) Done(t Ticket, r Result) {
	if t[0] == 0 {
		return
	}
	now := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line.leave(l.Limiter, cmp.Or(l.Tokens, 1), l.line.watch.read(now), t[0], r.Outcome == OutcomeNotSent)
}

// Validate names the field that is invalid.
func (l *RateLimit) Validate() error {
	switch {
	case l == nil:
		return invalid("RateLimit", "is nil")
	case l.Limiter == nil:
		return invalid("RateLimit.Limiter", "is nil")
	case l.Tokens < 0:
		return invalid("RateLimit.Tokens", "is "+strconv.Itoa(l.Tokens)+", want 0 (for 1) or more")
	case l.Limiter.Limit() != rate.Inf && l.Limiter.Burst() < cmp.Or(l.Tokens, 1):
		return invalid("RateLimit.Limiter", "has a burst of "+strconv.Itoa(l.Limiter.Burst())+", want at least what an attempt takes")
	}
	return nil
}

// AdaptiveRate is a [Budget] that finds the rate a service can take, without being told.
// An adverse event halves it; while none comes it is raised again, in steps, more slowly
// than it fell. Attempts beyond the rate wait as under [RateLimit], in the order in which
// they asked while the rate stays or falls. Where it rises, a wait that was told at a low
// rate stands, and those who ask later may have a shorter one; otherwise all would wait
// for the last of those.
//
// An adverse event is an OutcomeThrottled, and a call of [AdaptiveRate.SlowDown]. Only an
// attempt that was granted at the present rate is evidence against it: what those say
// that were under way when it fell is old, so that a hundred calls refused together halve
// the rate once.
//
// Until the first event there is no limit but Max. Then the rate is half of Max, or
// without a Max half of what was being sent. Without a Max it rises beyond what it was
// before the fall only where that is used, for what is not sent teaches nothing; and when
// it has been more than twice what is sent for as long as a fall takes to make good,
// there is no limit again.
//
// Falls that follow one another, each before the rate has recovered from the one before,
// are numbered from 1, and Recovery says how long each step up takes after that many: so
// the recovery may back off, too.
//
// Where the service's limit is steady, the rate swings between half of it and a step or
// two above it, and is 0.7 to 0.85 of it in the mean. With Decrease: 0.9 and Steps: 2 it
// is above 0.9, at the price of a slower fall. The rate limiter of AWS's adaptive mode,
// in presets, does without such a choice.
//
// The zero value is ready to use. An AdaptiveRate must not be copied, nor its fields
// changed, after first use. It is safe for concurrent use; an attempt takes a lock twice.
// A Done that never comes is one that had no adverse event; a second one changes nothing.
//
// Use one per resource (see [Budgets]): what one resource refuses slows all that share
// it.
//
// Sources: Wikipedia, "Exponential backoff": f = 1/b^c, and a recovery that is slower
// than the fall; Chiu and Jain, "Analysis of the increase and decrease algorithms for
// congestion avoidance", 1989; RFC 7661 for not growing unused.
type AdaptiveRate struct {
	// Max is the rate when nothing is wrong, in attempts per second. 0 means no limit;
	// negative ones are invalid.
	Max rate.Limit
	// Min is below what it never falls. 0 means 0.5, an attempt every 2 s; negative ones,
	// and those beyond Max, are invalid.
	Min rate.Limit
	// Burst is how many attempts may go at once after a pause. 0 means 1; negative ones
	// are invalid.
	Burst int
	// Decrease is what an adverse event leaves of the rate. 0 means 0.5; it must be less
	// than 1.
	Decrease float64
	// Steps is how many steps up make good for one event. 0 means 8, each of which raises
	// the rate by 9 %; negative ones are invalid.
	Steps int
	// Recovery.Delay(n) is the quiet time before each step, after n falls without
	// recovery between them. nil means Constant(time.Second). Linear{Initial: 30 *
	// time.Second} makes it 30, 60, 90 s.
	Recovery Schedule

	mu       sync.Mutex
	limiter  *rate.Limiter
	line     line
	sent     meter
	base     rate.Limit    // the rate at level 0; 0 while there is no limit
	level    int           // steps below base
	regained int           // the level that makes good for the falls
	falls    int           // since it was last reached
	unused   int           // steps that were not taken, as nothing was there to teach
	epoch    uint32        // counts falls
	fallen   time.Duration // when the last of them was
	quiet    time.Duration // since when there was neither a fall nor a step
}

const (
	defaultMinRate  = 0.5
	defaultDecrease = 0.5
	defaultSteps    = 8
)

// Reserve implements [Budget].
func (l *AdaptiveRate) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	read := a.Time()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.advance(read)
	l.sent.add(now)
	number, wait, ok := l.line.enter(l.limiter, 1, now, l.epoch)
	return Ticket{number}, wait, ok
}

// Done implements [Budget].
func (l *AdaptiveRate) Done(t Ticket, r Result) {
	read := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.advance(read)
	epoch, ok := l.line.leave(l.limiter, 1, now, t[0], r.Outcome == OutcomeNotSent)
	if ok && r.Outcome == OutcomeThrottled && epoch == l.epoch {
		l.fall(now)
	}
}

// SlowDown is for a service that asks for less without refusing: an adverse event that an
// operation found in a success. sent is when it sent what was answered so; an answer to
// what was sent before the last fall is old, and changes nothing. A zero sent always
// counts.
func (l *AdaptiveRate) SlowDown(sent time.Time) {
	read := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.advance(read)
	if sent.IsZero() || l.epoch == 0 || now-read.Sub(sent) >= l.fallen {
		l.fall(now)
	}
}

// Limit returns the rate at this moment: rate.Inf while there is none.
func (l *AdaptiveRate) Limit() rate.Limit {
	read := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(read)
	return l.limit()
}

// advance goes on to a reading of the clock, takes the steps that were due until then,
// and returns the time.
func (l *AdaptiveRate) advance(read time.Time) time.Duration {
	now := l.line.watch.read(read)
	if l.limiter == nil {
		l.base = l.Max
		l.limiter = rate.NewLimiter(l.limit(), cmp.Or(l.Burst, 1))
		l.line.overtake = true
	}
	for l.base > 0 && (l.Max == 0 || l.level > 0) {
		due := saturatingAdd(l.quiet, l.patience())
		if due > now {
			break
		}
		l.quiet = due
		l.step(due)
	}
	return now
}

// patience is the quiet time before the next step.
func (l *AdaptiveRate) patience() time.Duration {
	if l.Recovery == nil {
		return time.Second
	}
	return delayOf(l.Recovery, max(1, l.falls))
}

func (l *AdaptiveRate) steps() int { return cmp.Or(l.Steps, defaultSteps) }

// step raises the rate.
func (l *AdaptiveRate) step(at time.Duration) {
	if l.level > l.regained || l.Max > 0 || l.sent.rate(at) >= l.limit()/2 {
		l.level--
		l.unused = 0
	} else if l.unused++; l.unused >= l.steps() {
		l.base, l.level, l.regained, l.unused = 0, 0, 0, 0
	}
	if l.level <= l.regained {
		l.falls = 0
	}
	l.limiter.SetLimitAt(l.line.watch.time(at), l.limit())
}

// fall lowers the rate.
func (l *AdaptiveRate) fall(now time.Duration) {
	if l.base == 0 {
		l.base = max(1, l.sent.rate(now))
	}
	if l.falls == 0 {
		l.regained = l.level
	}
	l.falls++
	l.unused = 0
	l.epoch++
	l.fallen, l.quiet = now, now
	l.level = min(l.level+l.steps(), max(l.level, l.bottom()))
	t := l.line.watch.time(now)
	l.limiter.SetLimitAt(t, l.limit())
	l.limiter.SetBurstAt(t, 0) // what was saved at the old rate is not to be sent now
	l.limiter.SetBurstAt(t, cmp.Or(l.Burst, 1))
}

// bottom is the level at which the rate does not fall any more.
func (l *AdaptiveRate) bottom() int {
	falls := math.Log(float64(l.least()/l.base)) / math.Log(l.decrease())
	return int(math.Ceil(falls * float64(l.steps())))
}

func (l *AdaptiveRate) least() rate.Limit {
	least := cmp.Or(l.Min, defaultMinRate)
	if l.Max > 0 {
		return min(least, l.Max)
	}
	return least
}

func (l *AdaptiveRate) decrease() float64 { return cmp.Or(l.Decrease, defaultDecrease) }

// limit is the rate at the present level.
func (l *AdaptiveRate) limit() rate.Limit {
	if l.base == 0 {
		return rate.Inf
	}
	share := math.Pow(l.decrease(), float64(l.level)/float64(l.steps()))
	return max(l.base*rate.Limit(share), l.least())
}

// A meter measures the rate of attempts, second by second.
type meter struct {
	since  time.Duration // when the second began
	count  int           // in it
	before rate.Limit    // the rate in the one before; 0 if there was none
}

func (m *meter) add(now time.Duration) {
	if now-m.since >= time.Second {
		m.before = m.rate(now)
		m.count, m.since = 0, now
	}
	m.count++
}

// rate is that of the last full second, or of as much as there is.
func (m *meter) rate(now time.Duration) rate.Limit {
	passed := max(now-m.since, time.Millisecond).Seconds()
	switch {
	case passed >= 1:
		return rate.Limit(float64(m.count) / passed)
	case m.before > 0:
		return m.before
	}
	return rate.Limit(float64(max(0, m.count-1)) / passed)
}

// Validate names the field that is out of its range.
func (l *AdaptiveRate) Validate() error {
	switch {
	case l == nil:
		return invalid("AdaptiveRate", "is nil")
	case !(l.Max >= 0 && l.Max <= rate.Inf):
		return outOfRange("AdaptiveRate.Max", float64(l.Max), "0 (for none) or more")
	case !(l.Min >= 0 && l.Min <= rate.Inf) || l.Max > 0 && l.Min > l.Max:
		return outOfRange("AdaptiveRate.Min", float64(l.Min), "0 (for 0.5) or more, up to Max")
	case l.Burst < 0:
		return invalid("AdaptiveRate.Burst", "is "+strconv.Itoa(l.Burst)+", want 0 (for 1) or more")
	case !(l.Decrease >= 0 && l.Decrease < 1):
		return outOfRange("AdaptiveRate.Decrease", l.Decrease, "0 (for 0.5) or more, and less than 1")
	case l.Steps < 0:
		return invalid("AdaptiveRate.Steps", "is "+strconv.Itoa(l.Steps)+", want 0 (for 8) or more")
	}
	return checkSchedule("AdaptiveRate.Recovery", l.Recovery)
}

// A line is those who hold tokens of a limiter, in the order in which they may go. Its
// owner's lock guards it.
type line struct {
	watch  stopwatch
	last   uint64  // number given
	places []place // by number, and by time unless some overtake
	head   int     // of places: those before it are gone

	overtake bool // newcomers may go before those who were told to go later
}

type place struct {
	number uint64
	at     time.Duration // when its holder may go
	epoch  uint32        // the owner's
	state  standing
}

// standing is what became of the holder of a place.
type standing uint8

const (
	held      standing = iota
	withdrawn          // before it was sent; its token is not given back yet
	settled
)

// maxDue is how many places are kept of those whose time has come: an operation that
// hangs must not keep all that come after it.
const maxDue = 4096

// enter takes tokens and a place, and returns its number and the wait.
func (l *line) enter(lim *rate.Limiter, tokens int, now time.Duration, epoch uint32) (uint64, time.Duration, bool) {
	l.trim(now)
	r := lim.ReserveN(l.watch.time(now), tokens)
	wait := r.DelayFrom(l.watch.time(now))
	if wait == rate.InfDuration {
		if r.OK() { // for a limit of 0
			lim.ReserveN(l.watch.time(now), -tokens)
		}
		return 0, 0, false
	}
	at := saturatingAdd(now, wait)
	if !l.overtake {
		at = max(at, l.until(now))
	}
	l.last++
	l.push(place{number: l.last, at: at, epoch: epoch})
	return l.last, at - now, true
}

// until returns when the last one in the line may go; now if nobody waits.
func (l *line) until(now time.Duration) time.Duration {
	if l.head == len(l.places) {
		return now
	}
	return max(now, l.places[len(l.places)-1].at)
}

func (l *line) push(p place) {
	if len(l.places) == cap(l.places) && l.head > len(l.places)/2 {
		l.places = l.places[:copy(l.places, l.places[l.head:])]
		l.head = 0
	}
	l.places = append(l.places, p)
}

// trim lets go of the places at the head that nobody will ask for again.
func (l *line) trim(now time.Duration) {
	for l.head < len(l.places) {
		p := l.places[l.head]
		if p.state != settled && p.at >= now || p.state == held && len(l.places)-l.head <= maxDue {
			return
		}
		l.head++
	}
	l.head = 0
	if l.places = l.places[:0]; cap(l.places) > maxDue {
		l.places = nil
	}
}

// leave takes a place back, with its tokens if they were not used, and reports whether it
// was held.
func (l *line) leave(lim *rate.Limiter, tokens int, now time.Duration, number uint64, unused bool) (epoch uint32, ok bool) {
	places := l.places[l.head:]
	i, found := slices.BinarySearchFunc(places, number, func(p place, n uint64) int { return cmp.Compare(p.number, n) })
	if !found || places[i].state != held {
		return 0, false
	}
	epoch = places[i].epoch
	places[i].state = settled
	if unused && lim.Limit() != rate.Inf {
		places[i].state = withdrawn
		l.giveBack(lim, tokens, now, l.head+i)
	}
	return epoch, true
}

// giveBack returns the tokens of the place i, which was withdrawn. If nobody waits behind
// it, those that were withdrawn before it come back as well, as far as nobody waits
// behind them.
func (l *line) giveBack(lim *rate.Limiter, tokens int, now time.Duration, i int) {
	back := 0
	for end := len(l.places) - 1; end >= l.head && l.places[end].state != held; end-- {
		if p := l.places[end]; p.state == withdrawn && (p.at >= now || end == i) {
			back++
		}
		l.places = l.places[:end]
	}
	if i < len(l.places) && l.saves(lim, tokens, now, i) {
		l.places[i].state = settled
		back = 1
	}
	lim.ReserveN(l.watch.time(now), -tokens*back)
}

// saves reports whether the limiter can hold tokens on top of its own until all who wait
// behind the place i have gone. It goes from the last of them to the first.
func (l *line) saves(lim *rate.Limiter, tokens int, now time.Duration, i int) bool {
	limit, at := float64(lim.Limit()), l.until(now)
	level := lim.TokensAt(l.watch.time(now)) + limit*(at-now).Seconds()
	for end := len(l.places) - 1; end > i && l.places[end].at > now; end-- {
		p := l.places[end]
		if p.state != held {
			continue
		}
		level += float64(tokens) - limit*(at-p.at).Seconds()
		at = p.at
		if level+float64(tokens) > float64(lim.Burst())+1e-6 {
			return false
		}
	}
	return true
}

// A stopwatch turns readings of a clock into time that only goes on, whether those who
// read it come late to the lock, or the clock is set.
type stopwatch struct {
	began, last time.Time
	passed      time.Duration
}

// read returns the time passed since the first reading. A reading a little older than the
// last one is late, and is taken as the last one; one much older says that the clock was
// set back, and the time goes on from there.
func (s *stopwatch) read(now time.Time) time.Duration {
	if s.began.IsZero() {
		s.began, s.last = now, now
	}
	switch d := now.Sub(s.last); {
	case d > 0:
		s.passed = saturatingAdd(s.passed, d)
		s.last = now
	case d < -time.Second:
		s.last = now
	}
	return s.passed
}

// time returns a time as a clock would have it.
func (s *stopwatch) time(passed time.Duration) time.Time { return s.began.Add(passed) }
