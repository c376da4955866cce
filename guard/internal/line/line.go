// Package line keeps the line in which calls wait for a service that cannot
// serve them now.
//
// While the service is down, one call at a time goes, as a probe. After the
// first success the others follow by the number of attempts in flight. While
// the service is well, each success lets one waiting call go.
package line

import (
	"context"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

const (
	firstGap = 250 * time.Millisecond // before the first probe
	growth   = 1.2                    // of the gap, from one probe to the next
	maxGap   = 5 * time.Second
	lease    = 5 * time.Second // after which a probe that hangs no longer keeps the next one back
	maxHold  = 5 * time.Minute // for which one answer keeps all calls back

	leastAlone = time.Second // for which a throttled call waits, twice as long each time
	mostAlone  = 8 * time.Second

	throttledRow = 10 // throttled calls with no success between them mean that there is no room

	downRow  = 3           // calls that fail with no success between them mean that the service is down,
	downSpan = time.Second // if it takes them as long as this, or if the last was not sent
)

// A Line is what the calls to one service share. The zero value is ready to use.
type Line struct {
	running counter       // attempts in flight
	usual   mean          // of that number, when an attempt succeeds while the service is well
	state   atomic.Uint64 // the generation, and the bits below

	mu        sync.Mutex
	phase     phase
	number    uint64 // the generation: how often the service was down or came back
	answers   uint64 // while the service is busy
	row       int    // calls that failed since the last success
	rowAge    time.Time
	why       error // with which the last call failed
	hold      bool  // there is no room: the next success, or next, lets the next call go
	throttled int   // calls that were throttled since the last success
	turn      bool  // a success lets a call go

	gap   time.Duration // before the next call goes, whatever happens
	next  time.Time     // when it goes
	until time.Time     // before which the service, or its circuit, wants no call
	alarm *clock.Alarm
	rings time.Time // when the alarm goes off

	probe  *waiter   // under way; nil if there is none
	lease  time.Time // of the probe
	probes int       // so far
	oldest bool      // the next one is the oldest call, not the newest

	limit  int64     // of attempts in flight, while calls come back
	old    int64     // attempts in flight that began before the first success
	backAt time.Time // when that success came
	credit int64     // successes under it
	length int       // of the line before those

	takes   time.Duration // from the turn of a call to its success, a mean
	forgot  time.Time     // when takes was last made less; see forget
	queue   queue
	resting int // calls that a server asked to wait before they stand in line
}

// phase is what the line knows of the service.
type phase uint8

const (
	well       phase = iota // calls pass
	down                    // one probe at a time
	recovering              // calls go by the number in flight
)

// The lowest bits of Line.state.
const (
	isBusy       uint64 = 1 << iota // a success has something to do
	isRecovering                    // so has the end of an attempt
	isDown
	generation = iota // the generation is above them
)

// A Result is how a call ended, as the line sees it.
type Result struct {
	Verdict Verdict
	NotSent bool          // the failure never reached the service
	After   time.Duration // how long to wait at least, because the service or its circuit says so
	Err     error

	Attempts int // that the call made this time
}

// A Verdict is what the end of a call says of the service.
type Verdict uint8

const (
	// Silent says nothing.
	Silent Verdict = iota
	// Answered is a success, or a permanent response.
	Answered
	// Failed is a failure of the service.
	Failed
	// Refused is the refusal of a circuit that is open.
	Refused
	// Full is any other refusal: there is no room for the call.
	Full
	// Throttled is an answer that says too much to one caller.
	Throttled
)

// busy reports whether the end of a call has any consequence.
func (l *Line) busy() bool { return l.state.Load()&isBusy != 0 }

// Waiting returns how many calls wait.
func (l *Line) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.length + l.resting
}

// Enter begins an attempt, and returns the present generation.
func (l *Line) Enter() (of uint64) {
	of = l.state.Load() >> generation
	l.running.begin()
	return of
}

// Leave ends an attempt that began in a generation.
func (l *Line) Leave(ok bool, of uint64) {
	n, sampled := l.running.end()
	state := l.state.Load()
	switch {
	case state&isRecovering != 0:
		l.mu.Lock()
		defer l.mu.Unlock()
		if of != l.number {
			l.old = max(0, l.old-1)
		}
		l.dispatch(clock.Now())
	case ok && sampled && state&isDown == 0:
		l.usual.add(n)
	}
}

// settle records how a call ended, and releases its turn. It reports whether the
// service is down, and whether it has answered another call since the previous
// failure, and since this call ended before.
func (l *Line) settle(c *Call, r Result) (isDown, answers bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := clock.Now()
	probed := c.turn != nil && l.probe == c.turn
	if probed {
		l.probe = nil
	}
	c.probed = probed
	switch {
	case r.Verdict == Answered:
		if c.turn != nil {
			l.measure(now.Sub(c.turn.went))
		}
		l.answered(now)
	case c.generation == l.number:
		l.failed(now, r)
	}
	if probed && l.phase == down {
		l.probed(now, r.Verdict)
	}
	isDown, answers = l.phase == down, c.made && c.answers < l.answers && l.row <= 1
	c.answers = l.answers
	l.dispatch(now)
	return isDown, answers
}

// answered records an answer of the service.
func (l *Line) answered(now time.Time) {
	l.answers++
	l.row, l.throttled, l.hold, l.gap, l.until = 0, 0, false, firstGap, time.Time{}
	l.next = now.Add(firstGap)
	switch l.phase {
	case down:
		l.enter(recovering)
		l.limit, l.credit, l.length = 1, 0, l.queue.length
		l.old, l.backAt = l.running.now(), now
	case recovering:
		l.grow()
	case well:
		l.turn = true
	}
}

// measure records how long a successful call took.
func (l *Line) measure(took time.Duration) {
	if l.takes == 0 {
		l.takes = took
	}
	l.takes += (took - l.takes) / 8
}

// forget lowers takes after a call came too late, at most four times a second.
// Otherwise a few slow calls would keep all others from trying.
func (l *Line) forget(now time.Time) {
	if now.Sub(l.forgot) >= firstGap {
		l.takes -= l.takes / 8
		l.forgot = now
	}
}

// failed records a call that failed.
func (l *Line) failed(now time.Time, r Result) {
	switch r.Verdict {
	case Full:
		l.hold = true
		return
	case Throttled:
		if l.throttled++; l.throttled >= throttledRow {
			l.hold = true
		}
		return
	case Refused:
		l.why = r.Err
		l.goDown(now)
	case Failed:
		l.why, l.limit = r.Err, min(l.limit, l.most())
		if l.row++; l.row == 1 {
			l.rowAge = now
		}
		if l.row >= downRow && (r.NotSent || l.phase == recovering || now.Sub(l.rowAge) >= downSpan) {
			l.goDown(now)
		}
	default:
		return
	}
	if until := now.Add(min(r.After, maxHold)); l.phase == down && until.After(l.until) {
		l.until = until
	}
	l.next = later(l.next, l.until)
}

// goDown begins the phase in which the service is down.
func (l *Line) goDown(now time.Time) {
	if l.phase != down {
		l.enter(down)
		l.probe, l.gap = nil, firstGap
		l.postpone(now)
	}
}

// probed sets the time of the next probe after one that did not succeed.
func (l *Line) probed(now time.Time, v Verdict) {
	l.oldest = v == Throttled
	if v != Silent {
		l.gap = longer(l.gap)
	}
	l.postpone(now)
	l.next = later(l.next, l.until)
}

// enter begins a phase.
func (l *Line) enter(p phase) {
	l.phase = p
	l.number++
}

// grow raises the limit of attempts in flight after a success: by one, up to
// twice the usual number. Beyond that it rises slowly, and only while the line
// becomes no shorter; faster, if the usual number is not known.
func (l *Line) grow() {
	if l.limit < l.most() {
		l.limit++
		l.credit, l.length = 0, l.queue.length
		return
	}
	enough := l.limit
	if l.usual.known() {
		enough = max(64, 16*l.limit)
	}
	if l.credit++; l.credit < enough {
		return
	}
	if l.queue.length >= l.length {
		l.limit++
	}
	l.credit, l.length = 0, l.queue.length
}

// most is twice the usual number of attempts in flight.
func (l *Line) most() int64 { return max(1, l.usual.twiceOthers()) }

// dispatch lets the calls go that may go now.
func (l *Line) dispatch(now time.Time) {
	for l.queue.length > 0 && l.admits(now) {
		l.release(now)
	}
	l.turn = false
	if l.phase == recovering && l.queue.length == 0 {
		l.phase, l.why = well, nil
	}
	l.arm(now)
	l.publish()
}

// admits reports whether a waiting call may go.
func (l *Line) admits(now time.Time) bool {
	due := !now.Before(l.next)
	switch l.phase {
	case down:
		return due && (l.probe == nil || !now.Before(l.lease))
	case recovering:
		return due || !l.hold && l.inFlight(now) < l.limit
	}
	return due || l.turn && (l.running.now() < l.most() || l.queue.first().full)
}

// inFlight is how many attempts count while calls come back. Those that began
// before, and have not ended after the lease of a probe, hang and do not count.
func (l *Line) inFlight(now time.Time) int64 {
	if now.Sub(l.backAt) < lease {
		return l.running.now()
	}
	return l.running.now() - l.old
}

// release lets the first call of the line go. A probe is the newest call with
// time for an answer: while a service is down for long, the first call is always
// one whose time is almost over. After a probe that was throttled it is the oldest,
// which may be another caller's. A call that is no probe, and has less time than
// twice what calls take, goes without an attempt.
func (l *Line) release(now time.Time) {
	w := l.queue.first()
	if l.phase == down {
		w = l.queue.withTime(lease, now, l.oldest)
	}
	l.queue.remove(w)
	if w.late = l.phase != down && w.hasLess(2*l.takes, now); w.late {
		l.forget(now)
		w.ready <- struct{}{}
		return
	}
	w.went = now
	switch {
	case l.phase == down:
		l.probe, l.lease = w, now.Add(lease)
		l.probes++
	case !now.Before(l.next): // nothing has succeeded for so long
		l.gap = longer(l.gap)
	}
	l.turn = false
	l.postpone(now)
	l.running.begin()
	w.generation = l.number
	w.ready <- struct{}{}
}

// keepsBack reports whether a new call must wait.
func (l *Line) keepsBack() bool {
	return l.phase == down || l.phase == recovering && l.queue.length > 0
}

// tooLong reports whether the service wants no call before a context ends.
func (l *Line) tooLong(ctx context.Context, now time.Time, after time.Duration) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && (now.Add(after).After(deadline) || l.phase == down && l.until.After(deadline))
}

// push adds a call to the line.
func (l *Line) push(w *waiter, front bool) {
	now := clock.Now()
	if l.phase == well && l.queue.length == 0 && !now.Before(l.next) {
		l.postpone(now)
	}
	l.queue.push(w, front)
	l.dispatch(now)
}

// withdraw removes a call whose context has ended. If it was its turn already,
// it is that of the next one.
func (l *Line) withdraw(w *waiter) {
	if w.place != nil {
		l.queue.remove(w)
	} else if <-w.ready; !w.late {
		l.running.end()
		if l.probe == w {
			l.probe = nil
		}
	}
	l.dispatch(clock.Now())
}

// postpone sets when the next call goes, whatever happens.
func (l *Line) postpone(now time.Time) {
	l.gap = max(l.gap, firstGap)
	l.next = now.Add(time.Duration(float64(l.gap) * (0.8 + 0.4*mathrand.Float64())))
}

// longer is the gap after a gap.
func longer(gap time.Duration) time.Duration {
	return min(time.Duration(growth*float64(gap)), maxGap)
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// arm sets the alarm for the time at which the next call goes whatever happens.
// One that goes off too early just looks again.
func (l *Line) arm(now time.Time) {
	at := l.next
	if l.phase == down && l.probe != nil {
		at = later(at, l.lease)
	}
	if l.alarm != nil && (l.queue.length == 0 || at.Before(l.rings)) {
		l.alarm.Stop()
		l.alarm = nil
	}
	if l.alarm == nil && l.queue.length > 0 {
		l.alarm, l.rings = clock.NewAlarm(at.Sub(now), l, clock.Monotonic(&now)), at
	}
}

// Ring is called by the alarm.
func (l *Line) Ring(a *clock.Alarm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alarm == a {
		l.alarm = nil
		l.dispatch(clock.Now())
	}
}

// publish stores the state for those who do not take the lock.
func (l *Line) publish() {
	state := l.number << generation
	if l.phase != well || l.row > 0 || l.queue.length > 0 {
		state |= isBusy
	}
	switch l.phase {
	case recovering:
		state |= isRecovering
	case down:
		state |= isDown
	}
	l.state.Store(state)
}
