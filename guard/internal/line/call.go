package line

import (
	"context"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/waker"
)

// A Call is one call through a Line. It is for one goroutine. The zero value is none.
type Call struct {
	Waited  time.Duration // in the line
	For     string        // what it waited for, when it joined the line last
	Probes  int           // that went while it waited
	Answers int           // of the service to others, while it waited
	Why     error         // with which the last call failed

	line  *Line
	state uint64  // of the line when the call began, or had its last turn
	turn  *waiter // by which it waited last; nil if it has not waited
}

// NewCall returns a call through l, and whether it must Wait before it begins.
func (l *Line) NewCall() (c Call, wait bool) {
	state := l.state.Load()
	return Call{line: l, state: state}, state&keepsBack != 0
}

// Succeed ends a call that was answered.
func (c *Call) Succeed() {
	if c.turn != nil || c.line.state.Load()&isBusy != 0 {
		c.line.settle(c, Result{Verdict: Answered})
	}
}

// Settle ends a call that failed. It reports whether the call may Wait for another
// turn: the service has answered nobody since the call began, as far as is known, was
// down since, or has no room.
func (c *Call) Settle(r Result) (waits bool) {
	mayWait := c.line.settle(c, r)
	if c.turn != nil && r.Verdict != Refused {
		c.turn.failed++
	}
	return r.Verdict == Refused || r.Verdict == Full || r.Verdict == Failed && mayWait
}

// waitsFor returns what a call waits for that ended with r.
func (l *Line) waitsFor(r Result, now time.Time) string {
	switch {
	case r.Verdict == Full:
		return "for room in the budget"
	case l.until.After(now):
		return "as the service asked"
	case !l.closed():
		return "for the circuit"
	}
	return "for its turn"
}

// An End is how a Wait ended.
type End uint8

const (
	// Went: it is the turn of the call.
	Went End = iota
	// Crowded: too many calls wait.
	Crowded
	// TooLong: the service wants no call before the call ends, or takes longer than that.
	TooLong
	// Ended: the context ended.
	Ended
	// Alone: the service has answered another call, so that the failure of this one was
	// its own.
	Alone
)

// Wait waits for the turn of a call of the given rank, which ended with r, or has not
// begun. No more than most calls wait, if it is not negative. ctx has a deadline.
func (c *Call) Wait(ctx context.Context, rank, most int, r Result) End {
	l := c.line
	end, _ := ctx.Deadline()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := clock.Now()
	end = c.onClock(end, now)
	c.Why = l.why
	isNew := r.Verdict == Silent && !l.recovers
	switch {
	case isNew && !l.queue.full():
		return Went
	case ctx.Err() != nil:
		return Ended
	case most >= 0 && l.queue.length >= most:
		return Crowded
	case r.Verdict != Full && l.tooLong(end, now, r.After):
		return TooLong
	}
	if c.turn == nil {
		c.turn = &waiter{ready: make(chan struct{}, 1), end: end}
	}
	w := c.turn
	c.For = l.waitsFor(r, now)
	w.full = r.Verdict == Full || isNew // others wait for room already
	w.rank = l.rankOf(w, rank, r)
	w.doubtful = r.Verdict == Failed && l.row == 1 && c.state&isBusy == 0
	return c.wait(ctx, now)
}

// rankOf returns the rank in the queue of a waiter of the given rank, which ended with r.
func (l *Line) rankOf(w *waiter, rank int, r Result) uint8 {
	if w.failed > 0 || r.Verdict == Failed || r.Verdict == Refused && l.closed() { // by a breaker inside
		return 2 * uint8(rank)
	}
	return 2*uint8(rank) + 1
}

// onClock returns when the context of the call ends by the clock of the line. What others
// skipped takes no time from this call, and what it skipped itself does.
func (c *Call) onClock(end, now time.Time) time.Time {
	if clock.Skip != nil {
		end = end.Add(now.Sub(clock.Real()))
	}
	if clock.Skips() {
		end = end.Add(-c.Waited)
	}
	return end
}

// Wake implements [waker.Sleeper].
func (c *Call) Wake() { c.line.wake() }

// wait waits in the line. It releases the lock meanwhile.
func (c *Call) wait(ctx context.Context, now time.Time) (end End) {
	l, w, probes, answers := c.line, c.turn, c.line.probes, c.line.answers
	l.push(w)
	l.mu.Unlock()
	defer waker.Sleep(ctx, c)()
	select {
	case <-w.ready:
		l.mu.Lock()
		end = w.told
	case <-ctx.Done():
		l.mu.Lock()
		end = Ended
		l.withdraw(w)
	}
	c.Waited += clock.Since(now)
	c.Probes += l.probes - probes
	c.Answers += int(l.answers - answers)
	c.Why, c.state = l.why, l.answers<<answersBit|isBusy
	return end
}
