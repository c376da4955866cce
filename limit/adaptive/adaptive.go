// Package adaptive has a limit of how many attempts run at once that finds its own size:
// a [Limit] makes attempts wait while the service is overloaded, and only then.
//
//	search := backoff.Policy{
//		Name:   "search",
//		Budget: backoff.JoinBudgets(&backoff.RetryBudget{}, &adaptive.Limit{}),
//	}
//	err := search.Do(ctx, query)
//
// It is part of the default Service of package guard. Package limit has limits whose
// size you set.
package adaptive

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/strain"
	"github.com/gobackoff/backoff/internal/window"
)

// Limit is a bulkhead that finds its own size: a [backoff.Budget] that bounds how many
// attempts run at once, first ones included, while the service is overloaded. All calls
// to the service share it.
//
// Until attempts that succeed take 2.5 times as long as usual, it only measures some of
// them. If others fail meanwhile, or run out of time, it tries whether the service
// becomes quicker when fewer attempts run: half of them, and then an eighth. If it does
// not, the service is only slower, and there is no limit: the next trial is 5 seconds
// later, and twice as long after each, up to 16 minutes. If it does, the limit follows
// the latency: up while that is below 3 times the usual one, down above 6 times. Five
// seconds in which no attempt had to wait end the limit. There is no trial while fewer
// than 4 attempts run at once, or answers take more than a second.
//
// An attempt beyond the limit waits. It asks again after a millisecond or a quarter of
// the time that it has waited. So those that came last mostly go first: they have most
// of their time left. A call ends with the reason of its deadline when the next look
// would be too late, and with [backoff.ErrBudget] after 5 minutes. A hedge does not
// wait, but is refused. Attempts of [backoff.PriorityBackground] get half of the places.
//
// While a service throttles, such as by HTTP 429, it says itself what it can take: then,
// and for 15 seconds, there is no limit. See package pace for that.
//
// It bounds no retries of what the service refuses: join it with a [backoff.RetryBudget].
//
// The zero value is ready to use. A Limit must not be copied after first use. It is
// safe for concurrent use. While the service is not slower than usual, most attempts
// take no lock, and none allocates. A Done that never comes keeps a place until ten
// seconds pass in which no attempt ended; a second Done changes nothing.
//
// Sources: Chiu and Jain, "Analysis of the increase and decrease algorithms for
// congestion avoidance", 1989; Brakmo and Peterson, "TCP Vegas", 1995, for a limit that
// follows the latency; Nichols and Jacobson, "Controlling queue delay", 2012. The trial
// is this library's.
type Limit struct {
	_ [0]func() // no unkeyed literals, no ==

	ended   window.Tally   // attempts
	sampler strain.Sampler // chooses those that are measured while the others are not counted
	counts  atomic.Bool    // all attempts are measured, and take a place

	mu     sync.Mutex
	watch  clock.Stopwatch
	gauge  strain.Gauge
	fails  float64       // share of the last attempts that failed or ran out of time
	slower time.Duration // when the service was last slower than usual; 0 if it never was
	done   time.Duration // when an attempt last ended
	places places
	size   size
}

const (
	slow    = 2.5         // times the usual latency: the service is slower than usual,
	failing = 0.02        // and may be overloaded if so many attempts fail or run out of time,
	slowest = 25          // or if it is slower by this
	memory  = 64          // attempts are the last ones
	longest = time.Second // latency for a trial, which takes a few times as long

	watched   = 5 * time.Second  // all attempts are counted after the service was slower than usual
	throttled = 15 * time.Second // without a trial after the service has said that it is too much
	stuck     = 10 * time.Second // without the end of an attempt: those that run have no place any more
	hung      = 4                // times the usual latency: a caller that goes then has waited in vain

	leastAsk = time.Millisecond // until a waiting attempt asks again,
	partAsk  = 4                // or this part of the time that it has waited
	mostWait = 5 * time.Minute
)

// GrantsFirst implements [backoff.Budget]. It is true while attempts need no place.
func (l *Limit) GrantsFirst() bool {
	return l != nil && !l.counts.Load() && !l.sampler.Chosen(l.ended.Here())
}

// Reserve implements [backoff.Budget].
func (l *Limit) Reserve(at backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	if !l.counts.Load() {
		return t, 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.watch.Elapsed(at.Time())
	w := waiter{came: now, background: at.Priority < backoff.PriorityNormal}
	wait, _ = l.ask(w, now)
	if at.Hedge && wait > 0 {
		return t, 0, false
	}
	if t.Word = l.places.join(w); !at.Paced { // it does not ask again
		l.places.take(t.Word)
		return t, 0, true
	}
	return t, wait, true
}

// Pace implements [backoff.Budget].
func (l *Limit) Pace(t backoff.Ticket) (next backoff.Ticket, wait time.Duration, ok bool) {
	if t.Word == 0 {
		return t, 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w, waits := l.places.waiting[t.Word]
	if !waits { // the limit has ended meanwhile
		return t, 0, true
	}
	wait, ok = l.ask(w, l.watch.Elapsed(clock.Now()))
	return t, wait, ok
}

// ask returns how long an attempt waits until it asks again, and 0 if there is a place
// for it.
func (l *Limit) ask(w waiter, now time.Duration) (wait time.Duration, ok bool) {
	most := l.size.most()
	if w.background {
		most /= 2
	}
	if l.size.admits(len(l.places.taken), most, now) {
		return 0, true
	}
	if l.size.keepsBack(now); now-l.done > stuck {
		clear(l.places.taken)
	}
	return max(leastAsk, (now-w.came)/partAsk), now-w.came < mostWait
}

// Confirm implements [backoff.Budget]. The attempt takes its place.
func (l *Limit) Confirm(t backoff.Ticket) bool {
	if t.Word != 0 {
		l.mu.Lock()
		l.places.take(t.Word)
		l.mu.Unlock()
	}
	return true
}

// Done implements [backoff.Budget].
func (l *Limit) Done(t backoff.Ticket, r backoff.Result) {
	if r.NotSent && t.Word == 0 {
		return
	}
	if l.ended.Add(); t.Word == 0 && r.Took <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.places.leave(t.Word); r.NotSent || r.Took <= 0 {
		return
	}
	l.done = l.watch.Elapsed(clock.Now())
	if r.Class == backoff.ClassThrottled {
		l.size.suspend(l.done + throttled)
	}
	late, answered := l.read(&r)
	if l.size.heard(l.done, answered); late || answered {
		l.measure(r.Took, late)
	}
}

// read takes note of how an attempt ended. It reports whether that ran out of time, or
// was answered.
func (l *Limit) read(r *backoff.Result) (late, answered bool) {
	answered = !r.Canceled && r.Answered()
	late = r.TimedOut || r.Canceled && r.Took > hung*l.gauge.Usual()
	if l.fails -= l.fails / memory; late || !answered && !r.Canceled {
		l.fails += 1. / memory
	}
	return late, answered
}

// measure takes note of how long an attempt took that was answered, or ran out of time.
func (l *Limit) measure(took time.Duration, late bool) {
	now := l.done
	if !l.counts.Load() {
		l.sampler.Sampled(now, l.ended.Total)
	}
	l.gauge.Add(now, took, late)
	slower := l.gauge.Slower()
	if slower >= slow {
		l.slower = now
	}
	switch {
	case l.size.phase != off:
		l.size.learn(now, took, l.gauge.Above(took), late)
	case took > longest, l.gauge.Present() > longest:
	case slower >= slowest, slower >= slow && l.fails >= failing:
		l.size.begin(now, len(l.places.taken))
	}
	counts := l.size.phase != off || l.slower > 0 && now-l.slower < watched
	if l.counts.Store(counts); !counts {
		l.places.clear()
	}
}

// AtOnce returns how many attempts may run at once, +Inf while there is no limit, and
// how many wait for a place.
func (l *Limit) AtOnce() (most float64, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size.most(), len(l.places.waiting)
}

// Validate refuses a nil Limit.
func (l *Limit) Validate() error {
	return backoff.Permanent(badfield.Nil("adaptive.Limit", l == nil))
}

// places are the attempts that run, and those that are about to, by their tickets.
type places struct {
	newest  uint64
	taken   map[uint64]struct{}
	waiting map[uint64]waiter
}

// A waiter is an attempt that waits for a place.
type waiter struct {
	came       time.Duration
	background bool
}

// join returns the ticket of an attempt.
func (p *places) join(w waiter) (ticket uint64) {
	if p.waiting == nil {
		p.taken, p.waiting = map[uint64]struct{}{}, map[uint64]waiter{}
	}
	p.newest++
	p.waiting[p.newest] = w
	return p.newest
}

// take lets an attempt run.
func (p *places) take(ticket uint64) {
	if _, waits := p.waiting[ticket]; waits {
		delete(p.waiting, ticket)
		p.taken[ticket] = struct{}{}
	}
}

// leave ends an attempt.
func (p *places) leave(ticket uint64) {
	delete(p.waiting, ticket)
	delete(p.taken, ticket)
}

// clear forgets all attempts: they go on without a place.
func (p *places) clear() { *p = places{newest: p.newest} }
