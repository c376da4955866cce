// Package line keeps the line in which calls wait for a service that cannot
// serve them now.
//
// The circuit of the service says whether it is down. A call that the circuit
// refuses waits in the line, and so does one that failed while the service
// answered nobody. After the next answer the waiting calls follow by the number of
// calls in flight.
package line

import (
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/clock"
)

const (
	leastGap   = 500 * time.Millisecond // before a waiting call goes as a probe,
	partGap    = 8                      // or this part of the time that nobody was answered,
	mostGap    = 30 * time.Second       // up to this
	credit     = 2                      // answers let one waiting call go, if the service was not down
	servesSome = 3                      // failures in a row after an answer: the service serves some calls only
	servesAll  = 3                      // answers in a row to calls that had failed: it may serve all
	lease      = 5 * time.Second        // time that a probe should have left
	maxHold    = 5 * time.Minute        // for which one answer keeps all calls back
)

// A Circuit says whether the service is down.
type Circuit interface {
	// Closed reports whether all calls may pass.
	Closed() bool
	// Left returns how long no call may pass. It is 0 if one may probe.
	Left() time.Duration
	// Share returns the share of the last calls that failed.
	Share() float64
	// Usual returns how many calls are usually in flight, or 0 if that is not known.
	Usual() float64
}

// A Line is what the calls to one service share. The zero value is ready to use once
// Circuit is set.
type Line struct {
	Circuit Circuit // nil means one that is always closed
	Places  bool    // the budget has places, and MakeRoom says when one is free

	state atomic.Uint64 // the answers, and the bits below

	mu       sync.Mutex
	answers  uint64    // while the line is busy
	row      int       // calls that failed since the last answer
	since    time.Time // when the first of them failed
	why      error     // with which the last one failed
	queue    queue
	share    float64 // of the calls that failed before those in a row
	down     bool    // the service served nobody since the last call left the line
	lastDown uint64  // 1 and the answers when it was last seen down; 0 if it never was
	recovers bool    // it has answered since, and calls still wait
	credit   int     // answers since the last one that let a call go
	turns    int     // calls that an answer lets go
	mended   int     // calls that had failed and were answered, since the last failure

	probe  *waiter   // under way; nil if there is none
	probes int       // so far
	next   time.Time // when a waiting call goes as a probe
	until  time.Time // before which the service wants no call
	woken  bool      // the next call that goes need not wait for the circuit
	alarm  *clock.Alarm
	rings  time.Time // when the alarm goes off

	flow flow
}

// The lowest bits of Line.state.
const (
	isBusy     uint64 = 1 << iota // the end of a call has consequences
	keepsBack                     // new calls wait behind others
	answersBit = iota             // the answers are above
)

// A Result is how a call ended, as the line sees it.
type Result struct {
	Verdict Verdict
	After   time.Duration // how long the service wants to be left alone
	Err     error
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
	// Refused is the refusal of a circuit.
	Refused
	// Full is the refusal of a budget: there is no room for the call.
	Full
)

// Waiting returns how many calls wait.
func (l *Line) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.length
}

// settle records how a call ended. It reports whether the service has answered nobody
// since the call began, or was down since.
func (l *Line) settle(c *Call, r Result) (mayWait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := clock.Now()
	l.leave(c, now, r.Verdict == Answered)
	switch r.Verdict {
	case Answered:
		l.answered(now, c)
	case Failed:
		l.failed(now, r)
	case Refused:
		l.why = r.Err
	case Full:
		l.flow.fill()
	}
	if !l.closed() || circuit.ServesNone(uint32(l.row), l.share) {
		l.down, l.lastDown = true, l.answers+1
	}
	l.recovers = l.recovers && l.closed()
	l.queue.room = r.Verdict != Full && r.Verdict != Refused && !l.Places
	began := c.state >> answersBit
	mayWait = began == l.answers || began < l.lastDown
	l.dispatch(now)
	return mayWait
}

// MakeRoom says that the budget has room for the first call that waits for it.
func (l *Line) MakeRoom() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.room = l.queue.full()
	l.dispatch(clock.Now())
}

// leave ends the turn of a call.
func (l *Line) leave(c *Call, now time.Time, answered bool) {
	if c.turn == nil || !c.turn.went() {
		return
	}
	l.flow.end()
	if answered {
		l.flow.measure(now.Sub(c.turn.at))
	}
	if l.probe == c.turn {
		l.probe = nil
	}
	c.turn.at = time.Time{}
}

// answered records an answer of the service. Once the circuit is closed, calls follow.
func (l *Line) answered(now time.Time, c *Call) {
	l.answers++
	if c.turn != nil && c.turn.hasFailed() {
		l.mended++
	}
	l.row, l.since, l.until, l.next = 0, now, time.Time{}, now.Add(leastGap)
	if l.queue.doubtful != nil {
		l.tell(l.queue.doubtful, Alone)
	}
	switch {
	case !l.closed():
		l.probe, l.next = nil, now // it takes another one
	case l.recovers:
		l.flow.grow(now, l.queue.length, l.queue.left(now))
	case l.down && l.queue.length > 0:
		l.recovers = true
		l.flow.restart(now, l.queue.length)
	case l.queue.length > 0:
		l.credit++
		l.turns = l.credit / credit
		if l.mended >= servesAll {
			l.turns++ // so that more and more calls follow
		}
		l.credit %= credit
	}
}

// failed records a call that failed.
func (l *Line) failed(now time.Time, r Result) {
	l.why = r.Err
	if l.row++; l.row == 1 {
		l.since = now
		l.learn()
	}
	l.queue.doubtful, l.mended = nil, 0
	l.until = later(l.until, now.Add(min(r.After, maxHold)))
	l.flow.shrink()
	l.flow.failed = l.flow.failed || l.recovers
	if l.recovers && l.row >= servesSome {
		l.recovers, l.down = false, false
	}
	l.postpone(now)
}

// learn takes note of how calls did before the service fails. While it comes back, fewer
// than usual may be in flight.
func (l *Line) learn() {
	if l.Circuit == nil {
		return
	}
	least := 0
	if l.recovers {
		least = l.flow.usual
	}
	l.share = l.Circuit.Share()
	l.flow.learn(l.Circuit.Usual())
	l.flow.usual = max(l.flow.usual, least)
}

// closed reports whether the circuit lets all calls pass.
func (l *Line) closed() bool { return l.Circuit == nil || l.Circuit.Closed() }

// postpone sets when the next call goes as a probe. New calls go without that.
func (l *Line) postpone(now time.Time) {
	gap := min(max(leastGap, now.Sub(l.since)/partGap), mostGap)
	if l.recovers {
		gap = min(leastGap, l.flow.pause(l.row))
	}
	l.next = now.Add(time.Duration(float64(gap) * (0.8 + 0.4*mathrand.Float64())))
}

// dispatch lets the calls go that may go now.
func (l *Line) dispatch(now time.Time) {
	at := now
	for l.queue.length > 0 {
		if at = l.turnAt(now); at.After(now) {
			break
		}
		l.release(now)
	}
	l.queue.room, l.turns = false, 0
	if l.queue.length == 0 {
		l.recovers, l.down, l.credit, l.woken = false, !l.closed(), 0, false
	}
	l.arm(now, at)
	l.publish()
}

// turnAt returns when the next call goes: now if it may.
func (l *Line) turnAt(now time.Time) time.Time {
	at := later(l.next, l.until)
	switch {
	case l.follows():
		return now
	case !l.closed() && !l.woken:
		at = later(at, now.Add(l.Circuit.Left()))
	}
	if l.probe != nil && now.Before(later(at, l.probe.at.Add(leastGap))) {
		return later(at, l.probe.at.Add(leastGap))
	}
	return at
}

// follows reports whether the next call goes and is no probe. While the service serves
// some calls, those that were never made follow by the number in flight.
func (l *Line) follows() bool {
	switch {
	case l.turns > 0, l.queue.room && l.queue.full():
		return true
	case l.recovers:
		return l.flow.admits()
	}
	return !l.down && l.closed() && l.queue.unmade() && l.flow.inFlight < max(1, l.flow.usual)
}

// release lets a call go. A call that is no probe, and has less time than twice what
// calls take, goes without an attempt.
func (l *Line) release(now time.Time) {
	probes := !l.follows()
	w := l.queue.next(now, probes)
	if !probes && w.hasLess(2*l.flow.takes, now) {
		l.flow.forget(now)
		l.tell(w, TooLong)
		return
	}
	if probes {
		l.postpone(now)
	}
	if probes && !w.full {
		l.probe = w
		l.probes++
	}
	l.turns, l.woken = max(0, l.turns-1), false
	w.at = now
	l.flow.inFlight++
	l.tell(w, Went)
}

// tell tells a call that it waits no longer, and why.
func (l *Line) tell(w *waiter, why End) {
	l.queue.remove(w)
	w.told = why
	w.ready <- struct{}{}
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// push adds a call to the line.
func (l *Line) push(w *waiter) {
	now := clock.Now()
	if l.queue.length == 0 && l.next.Before(now) {
		if l.row == 0 {
			l.since = now
		}
		l.postpone(now)
	}
	l.queue.push(w)
	l.dispatch(now)
}

// wake lets the next call go as a probe, as soon as the service wants one. How long it
// was down says nothing of what comes.
func (l *Line) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := clock.Now(); l.queue.length > 0 {
		l.next, l.since, l.woken = now, now, true
		l.dispatch(now)
	}
}

// withdraw removes a call whose context has ended. If it was its turn already, it is
// that of the next one.
func (l *Line) withdraw(w *waiter) {
	now := clock.Now()
	if w.place != nil {
		l.queue.remove(w)
		l.flow.length--
	} else if <-w.ready; w.told == Went {
		l.flow.end()
		w.at = time.Time{}
		if l.probe == w {
			l.probe, l.next = nil, now
		}
	}
	l.dispatch(now)
}

// tooLong reports whether the service wants no call before a time.
func (l *Line) tooLong(end, now time.Time, after time.Duration) bool {
	wanted := later(l.until, now.Add(after))
	if !l.closed() {
		wanted = later(wanted, now.Add(l.Circuit.Left()))
	}
	return wanted.After(end)
}

// arm sets the alarm for the time at which the next call goes. One that goes off too
// early just looks again.
func (l *Line) arm(now, at time.Time) {
	if l.alarm != nil && (l.queue.length == 0 || at.Before(l.rings)) {
		l.alarm.Stop()
		l.alarm = nil
	}
	if l.alarm == nil && l.queue.length > 0 {
		l.alarm, l.rings = clock.NewAlarm(clock.Wait(at.Sub(now)), l, clock.Monotonic(&now)), at
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
	state := l.answers << answersBit
	if l.row > 0 || l.queue.length > 0 {
		state |= isBusy
	}
	if l.recovers || l.Places && l.queue.full() {
		state |= keepsBack
	}
	l.state.Store(state)
}
