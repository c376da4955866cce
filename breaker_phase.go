package backoff

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/window"
)

// A phase is a stay in one state. It is its own generation: whoever was admitted in a
// phase holds a pointer to it, and his answer counts only while the breaker holds the
// same one. So it is never used again, and what a late success still adds to its
// counter nobody reads.
//
// This is also why the breaker is linearizable, though successes take no lock.
// Everything else happens under the lock, in some order. A success that is not slow
// only adds one to the counter of its phase, and successes are all alike: a look at the
// counter, under the lock, finds the number of those that were before it at one moment
// of the look (see window.Counter), which takes effect then. An admission on the quick
// path takes effect where it loads the phase, or the path: at that moment the breaker
// was closed. A refusal does where it loads the path: it was open.
type phase struct {
	path    atomic.Uint32 // what there is to do for a call; the zero value is the long way
	state   State
	began   time.Time      // all times of a phase are counted from here
	span    time.Duration  // open: how long; half-open: the length of a lease; closed: of the ramp
	good    window.Counter // closed: successes
	refusal error          // what refused calls get
	faults  *faults        // closed: nil as long as there were none
	trial   *trial         // half-open
	timer   *time.Timer    // open: brings the end
}

const (
	pathAsk    = iota // under the lock
	pathQuick         // closed: count successes
	pathTimed         // closed: read the clock, too
	pathRamp          // closed: admit some
	pathRefuse        // open
	pathPass          // forced closed: nothing
)

// faults is what a closed phase knows once it has seen a failure.
type faults struct {
	window.Slide               // Bad: failures; Other: slow calls
	last         *window.Last  // instead of it, under WindowCalls
	streakAt     time.Duration // of the first failure of the streak
	hinted       time.Duration // until when a server asked for rest
	streak       int
}

// trial is what a half-open phase knows.
type trial struct {
	leases    []*lease
	successes int
}

type lease struct{ end time.Duration }

// A permit is held by a call that was admitted. The zero value has no consequence.
type permit struct {
	phase *phase
	lease *lease        // of a probe
	began time.Duration // where times matter
}

// age returns how long the phase has lasted.
func (p *phase) age() time.Duration { return clock.Since(p.began) }

// over reports whether the phase is an open one whose time is over.
func (p *phase) over() bool { return p.state == StateOpen && p.age() >= p.span }

// current returns the phase, the first one at first use.
func (b *Breaker) current() *phase {
	if p := b.phase.Load(); p != nil {
		return p
	}
	p := b.lock()
	b.unlock(context.Background())
	return p
}

// lock takes the lock and returns the phase.
func (b *Breaker) lock() *phase {
	b.mu.Lock()
	if p := b.phase.Load(); p != nil {
		return p
	}
	err := b.Validate()
	if err != nil {
		b.mode = modeInvalid
	}
	p := b.closed()
	p.refusal = err
	b.phase.Store(p)
	return p
}

// closed makes a closed phase, or the one that stands for it in the mode.
func (b *Breaker) closed() *phase {
	p := &phase{began: clock.Now()}
	path := b.closedPath()
	switch b.mode {
	case ModeForcedClosed:
		path = pathPass
	case ModeForcedOpen:
		path, p.state, p.span = pathRefuse, StateOpen, maxDuration
		p.refusal = &OpenError{Name: b.Name, State: StateOpen}
	case modeInvalid:
		path = pathRefuse
	}
	p.path.Store(path)
	return p
}

// closedPath is where the calls of a closed circuit begin.
func (b *Breaker) closedPath() uint32 {
	if b.Shared != nil && b.mode == ModeEnforce {
		return pathAsk
	}
	return b.quickPath()
}

func (b *Breaker) quickPath() uint32 {
	if b.SlowCall > 0 || b.MinAttemptTime > 0 {
		return pathTimed
	}
	return pathQuick
}

// restart forgets everything.
func (b *Breaker) restart() {
	b.openings, b.prev = 0, 0
	b.move(b.closed(), TriggerManual, nil)
}

// open begins an open phase.
func (b *Breaker) open(why Trigger, r result) {
	var rest time.Duration
	if old := b.phase.Load(); old.state == StateClosed {
		rest = b.ripe(old)
	} else {
		rest = b.rest(r.hint)
	}
	b.openings = uint16(min(int(b.openings)+1, maxOpenings))
	span := max(rest, b.openTime())
	if b.Shared != nil && b.mode == ModeEnforce {
		b.Shared.Opened(b.Name, span, int(b.openings))
	}
	b.stayOpen(span, why, r.err)
}

// ripe ends a closed phase: the count of openings if it was healthy. It returns how
// long a server asked to be left alone.
func (b *Breaker) ripe(p *phase) time.Duration {
	now := p.age()
	f := b.look(p, now)
	healthy := now >= b.window()
	if f.last != nil {
		healthy = f.last.Full()
	}
	if healthy {
		b.openings, b.prev = 0, 0
	}
	return f.hinted - now
}

// openTime draws how long the circuit stays open.
func (b *Breaker) openTime() time.Duration {
	jitter := b.Jitter
	if jitter == nil {
		jitter = defaultOpenJitter
	}
	b.prev = max(0, jitter(delayOf(b.openFor(), int(b.openings)), b.prev, b.draw()))
	return b.prev
}

func (b *Breaker) openFor() Schedule {
	if b.OpenFor == nil {
		return defaultOpenFor
	}
	return b.OpenFor
}

// rest returns how long a server asks to be left alone.
func (b *Breaker) rest(h hint) time.Duration {
	if !h.given {
		return 0
	}
	d := h.after
	if limit := limited(b.MaxRetryAfter, defaultMaxRetryAfter); limit > 0 {
		d = min(d, limit)
	}
	if h.exact {
		return d
	}
	return limits.Add(d, scale(d/10, b.draw()))
}

// alert is how long before its end an open phase stops to refuse without looking at the
// clock. A timer that is late by less is in time.
const alert = 10 * time.Millisecond

// arm lets an open phase refuse at once until shortly before its end. The timer does
// not end the phase, the next call does: so listeners are told by calls only, and
// nothing depends on the timer's being in time. Where there are none, the clock is
// asked.
func (b *Breaker) arm(p *phase) {
	if clock.Source != nil || b.mode == ModeObserve || p.span <= alert {
		return
	}
	p.path.Store(pathRefuse)
	p.timer = time.AfterFunc(p.span-alert, func() { p.path.Store(pathAsk) })
}

// turn makes an open phase whose time is over a half-open one.
func (b *Breaker) turn() *phase {
	old := b.phase.Load()
	if !old.over() {
		return old
	}
	return b.halfOpen(old.span, TriggerTime, old.refusal.(*OpenError).Last)
}

// shut begins a closed phase after probes that succeeded.
func (b *Breaker) shut() {
	p := b.closed()
	if b.RampUp > 0 && b.mode == ModeEnforce {
		p.span = b.RampUp
		p.refusal = &OpenError{Name: b.Name, Last: b.phase.Load().refusal.(*OpenError).Last, until: p.began.Add(b.RampUp)}
		p.path.Store(pathRamp)
	}
	b.move(p, TriggerProbe, nil)
	if b.Shared != nil && b.mode == ModeEnforce {
		b.Shared.Closed(b.Name)
	}
}

// move begins a phase.
func (b *Breaker) move(p *phase, why Trigger, err error) {
	old := b.phase.Load()
	if old.timer != nil {
		old.timer.Stop()
	}
	b.generation++
	b.phase.Store(p)
	if b.Observer == nil || p.state == old.state {
		return
	}
	t := Transition{Name: b.Name, From: old.state, To: p.state, Trigger: why, At: p.began,
		Generation: uint64(b.generation), Err: err}
	if p.state == StateOpen && p.span != maxDuration {
		t.RetryAfter = p.span
	}
	b.post(t)
}

// admit lets a call through, or says why not.
func (b *Breaker) admit(ctx context.Context, p *phase) (permit, error) {
	switch p.path.Load() {
	case pathQuick:
		return permit{phase: p}, nil
	case pathTimed:
		return permit{phase: p, began: p.age()}, nil
	case pathRamp:
		return b.ramp(p)
	case pathRefuse:
		return permit{}, p.refusal
	case pathPass:
		return permit{}, nil
	}
	return b.ask(ctx)
}

// ramp admits a share of the calls, which grows.
func (b *Breaker) ramp(p *phase) (permit, error) {
	age := p.age()
	if age >= p.span {
		p.path.Store(b.closedPath())
	} else if b.draw() >= 0.1+0.9*float64(age)/float64(p.span) {
		return permit{}, p.refusal
	}
	return permit{phase: p, began: age}, nil
}

// ask decides under the lock.
func (b *Breaker) ask(ctx context.Context) (permit, error) {
	var granted *phase
	if b.Shared != nil {
		granted = b.consult(ctx)
	}
	b.lock()
	defer b.unlock(ctx)
	p := b.turn()
	switch {
	case p.state == StateHalfOpen:
		if b.Shared != nil && p != granted {
			break
		}
		if t, ok := b.probe(p); ok {
			return t, nil
		}
	case p.path.Load() == pathPass:
		return permit{}, nil
	case p.state == StateClosed && p.path.Load() != pathRefuse: // closed since the caller looked
		return permit{phase: p, began: p.age()}, nil
	}
	if b.mode == ModeObserve {
		return permit{}, nil
	}
	return permit{}, p.refusal
}

// probe leases a place among the probes, if there is one.
func (b *Breaker) probe(p *phase) (permit, bool) {
	now, t := p.age(), p.trial
	t.leases = slices.DeleteFunc(t.leases, func(l *lease) bool { return l.end <= now })
	limit := limited(b.MaxProbes, defaultMaxProbes)
	if limit > 0 && len(t.leases) >= limit {
		return permit{}, false
	}
	l := &lease{end: limits.Add(now, p.span)}
	t.leases = append(t.leases, l)
	return permit{phase: p, lease: l, began: now}, true
}

// settle takes in how a call ended.
func (b *Breaker) settle(ctx context.Context, t permit, r result) {
	switch {
	case t.phase == nil || t.lease == nil && r.score == scoreNone:
	case t.lease == nil && r.score == scoreGood && !r.slow:
		t.phase.good.Add()
	default:
		if stats, undecided := b.record(ctx, t, r); undecided && b.TripIf(stats) {
			b.obey(ctx, t, r)
		}
	}
}

// record takes it in under the lock, and reports whether the user's own rule is to be
// asked.
func (b *Breaker) record(ctx context.Context, t permit, r result) (stats BreakerStats, undecided bool) {
	p := b.lock()
	defer b.unlock(ctx)
	switch {
	case p != t.phase: // too late
	case p.state == StateHalfOpen:
		b.probed(p, t.lease, r)
	default:
		if why, ok := b.count(p, r); ok {
			b.open(why, r)
		} else if b.TripIf != nil {
			return b.stats(p), true
		}
	}
	return BreakerStats{}, false
}

// obey opens the circuit because the user's own rule says so.
func (b *Breaker) obey(ctx context.Context, t permit, r result) {
	p := b.lock()
	defer b.unlock(ctx)
	if p == t.phase {
		b.open(TriggerRule, r)
	}
}

// probed takes in how a probe ended.
func (b *Breaker) probed(p *phase, l *lease, r result) {
	t := p.trial
	i := slices.Index(t.leases, l)
	if i < 0 || l.end <= p.age() {
		return
	}
	t.leases = slices.Delete(t.leases, i, i+1)
	switch {
	case r.score == scoreNone:
	case r.score != scoreGood || r.slow:
		b.open(TriggerProbe, r)
	default:
		t.successes++
		if t.successes >= limited(b.ProbeSuccesses, defaultProbeSuccesses) {
			b.shut()
		}
	}
}

// count takes in a failure, or a success that was slow, of a closed phase, and returns
// the rule by which the circuit is to be opened.
func (b *Breaker) count(p *phase, r result) (Trigger, bool) {
	if r.score == scoreGood {
		p.good.Add()
	}
	now := p.age()
	f := b.look(p, now)
	if r.score != scoreGood {
		f.fail()
	}
	if r.slow {
		f.slow()
	}
	if r.hint.given {
		f.hinted = max(f.hinted, limits.Add(now, b.rest(r.hint)))
	}
	if r.score == scoreBad && b.streaked(f, now) {
		return TriggerConsecutive, true
	}
	return b.rated(f)
}

// look dates the successes since the last look. They end a streak.
func (b *Breaker) look(p *phase, now time.Duration) *faults {
	f := p.faults
	if f == nil {
		f = new(faults)
		if b.WindowCalls > 0 {
			f.last = window.NewLast(b.WindowCalls)
		}
		p.faults = f
	}
	if f.advance(now, b.window(), p.good.Total()) > 0 {
		f.streak = 0
	}
	return f
}

// streaked counts a failure in a row, and reports whether it is one too many.
func (b *Breaker) streaked(f *faults, now time.Duration) bool {
	if f.streak++; f.streak == 1 {
		f.streakAt = now
	}
	limit := limited(b.ConsecutiveFailures, defaultConsecutiveFailures)
	return limit > 0 && f.streak >= limit && now-f.streakAt >= limited(b.ConsecutiveSpan, defaultConsecutiveSpan)
}

// rated looks at the rates. Where a long time without failures came to an end, it is
// not known how many of the successes were of late: then as many as possible, for a
// second or two, because a burst of calls after a pause must not open the circuit by a
// few failures.
func (b *Breaker) rated(f *faults) (Trigger, bool) {
	good, bad, slow := f.counts()
	total := good + bad
	switch {
	case total < uint64(b.minCalls()):
	case reached(bad, total, b.FailureRate):
		return TriggerRate, true
	case b.SlowCall > 0 && reached(slow, total, b.SlowRate):
		return TriggerSlow, true
	}
	return 0, false
}

// reached compares by division: the quotient of two integers is the float64 nearest to
// it, as is a rate written as a decimal, while their product may be just beside.
func reached(n, total uint64, rate float64) bool {
	if rate == 0 {
		rate = defaultFailureRate
	}
	return rate > 0 && float64(n)/float64(total) >= rate
}

func (b *Breaker) minCalls() int {
	n := max(1, limited(b.MinCalls, defaultMinCalls))
	if b.WindowCalls > 0 {
		n = min(n, b.WindowCalls)
	}
	return n
}

func (b *Breaker) window() time.Duration {
	if b.Window < 0 {
		return maxDuration
	}
	return limited(b.Window, defaultWindow)
}

func (f *faults) advance(now, window time.Duration, total uint64) uint64 {
	if f.last != nil {
		return f.last.Advance(total)
	}
	return f.Advance(now, window, total)
}

func (f *faults) fail() {
	if f.last != nil {
		f.last.Bad()
	} else {
		f.Add(window.Bad, 1)
	}
}

func (f *faults) slow() {
	if f.last != nil {
		f.last.Other()
	} else {
		f.Add(window.Other, 1)
	}
}

func (f *faults) counts() (good, bad, slow uint64) {
	if f.last != nil {
		return f.last.Count(window.Good), f.last.Count(window.Bad), f.last.Count(window.Other)
	}
	return max(f.Least(window.Good), f.Fresh()), f.Least(window.Bad), f.Least(window.Other)
}

func (b *Breaker) stats(p *phase) BreakerStats {
	s := BreakerStats{
		State:      b.State(),
		Mode:       b.mode,
		Openings:   int(b.openings),
		Generation: uint64(b.generation),
	}
	now := p.age()
	switch {
	case p.state == StateClosed && b.mode <= ModeObserve:
		f := b.look(p, now)
		s.Successes, s.Failures, s.Slow = f.counts()
		s.ConsecutiveFailures = f.streak
	case p.state == StateOpen && p.span != maxDuration:
		s.RetryAfter = max(0, p.span-now)
	case p.trial != nil:
		for _, l := range p.trial.leases {
			if l.end > now {
				s.Probes++
			}
		}
	}
	return s
}

func (b *Breaker) draw() float64 {
	return draw.Unit(b.Rand)
}

// limited resolves a limit: 0 means the default, a negative one none, which is
// negative.
func limited[N int | time.Duration](n, standard N) N {
	if n == 0 {
		return standard
	}
	return n
}

// news is what Observer is yet to be told.
type news struct {
	queue []item
	busy  bool // somebody is telling
}

type item struct {
	Transition
	ctx context.Context // of the call that caused it
}

// post adds to the news.
func (b *Breaker) post(t Transition) {
	if b.news == nil {
		b.news = new(news)
	}
	b.news.queue = append(b.news.queue, item{Transition: t})
}

// unlock gives the lock back, and tells the news that came up under it, in the name of ctx.
func (b *Breaker) unlock(ctx context.Context) {
	n := b.news
	if n == nil || !n.sign(ctx) || n.busy {
		b.mu.Unlock()
		return
	}
	n.busy = true
	b.mu.Unlock()
	done := make(chan struct{})
	go b.tell(done)
	<-done
}

// sign puts ctx to the news that nobody's name is on, and reports whether there are any.
func (n *news) sign(ctx context.Context) bool {
	for i := len(n.queue) - 1; i >= 0 && n.queue[i].ctx == nil; i-- {
		n.queue[i].ctx = ctx
	}
	return len(n.queue) > 0
}

// tell tells the news until there are none. If Observer leaves the goroutine, another
// one goes on.
func (b *Breaker) tell(done chan struct{}) {
	over := false
	defer func() {
		if over {
			close(done)
			return
		}
		go b.tell(done)
	}()
	for it, ok := b.next(); ok; it, ok = b.next() {
		b.Observer.tell(it.ctx, &Event{Kind: EventTransition, Name: b.Name, Err: it.Err, Transition: &it.Transition})
	}
	over = true
}

// next takes the oldest of the news.
func (b *Breaker) next() (it item, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.news
	if len(n.queue) == 0 {
		n.queue, n.busy = nil, false
		return item{}, false
	}
	it = n.queue[0]
	n.queue = n.queue[1:]
	return it, true
}
