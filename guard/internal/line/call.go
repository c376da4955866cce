package line

import (
	"context"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A Call is one call through a Line. It is for one goroutine.
type Call struct {
	Attempts int       // made so far
	Own      int       // of those that failed, the ones while the service answered others
	Since    time.Time // when the call began to wait; zero if it has not waited
	Probes   int       // that went while it waited

	Why error // with which the last call failed; for a call that was not made

	Entered uint64 // the generation in which the attempt under way began

	line       *Line
	place      bool    // it is one of those in flight
	turn       *waiter // by which it waited last; nil if it has not waited
	generation uint64
	before     int           // of the line's probes, those before the call waited
	probed     bool          // it was a probe
	full       bool          // it was refused for want of room
	made       bool          // it has ended before
	answers    uint64        // of the line, when it ended
	again      bool          // to the front of the line
	alone      time.Duration // how long it waits before it stands in line, because it was throttled
}

// NewCall returns a call through l, and whether it must Wait before it begins.
func (l *Line) NewCall() (c Call, wait bool) {
	state := l.state.Load()
	return Call{line: l, generation: state >> generation}, state&isBusy != 0
}

// Enter begins an attempt.
func (c *Call) Enter() {
	if !c.place {
		c.place = true
		c.Entered = c.line.Enter()
	}
}

// Leave ends an attempt.
func (c *Call) Leave(ok bool) {
	if c.place {
		c.place = false
		c.line.Leave(ok, c.Entered)
	}
}

// Succeed ends a call that succeeded.
func (c *Call) Succeed() {
	c.Leave(true)
	if c.line.busy() || c.turn != nil {
		c.line.settle(c, Result{Verdict: Answered})
	}
}

// Settle ends a call that failed, which may Wait for another turn.
func (c *Call) Settle(r Result) {
	c.Leave(false)
	wasDown, answers := c.line.settle(c, r)
	c.again = c.turn != nil && !c.probed && r.Verdict != Throttled && (wasDown || r.Verdict != Failed)
	c.made, c.full = true, r.Verdict == Full || r.Verdict == Throttled
	if c.alone *= 2; r.Verdict == Throttled {
		c.alone = min(max(c.alone, leastAlone), mostAlone)
	} else {
		c.alone = 0
	}
	c.Attempts += r.Attempts
	if !wasDown && answers && r.Verdict == Failed {
		c.Own += r.Attempts
	}
}

// An End is how a Wait ended.
type End uint8

const (
	// Went: it is the turn of the call.
	Went End = iota
	// Crowded: too many calls wait.
	Crowded
	// TooLong: the context ends before the service wants a call.
	TooLong
	// Ended: the context ended.
	Ended
)

// Wait waits for the turn of a call of the given rank, for a new one if calls
// must wait at all. No more than most calls wait, if it is not negative. after
// is how long the call must wait at least.
func (c *Call) Wait(ctx context.Context, rank, most int, after time.Duration) End {
	l, after := c.line, max(after, c.alone)
	l.mu.Lock()
	now := clock.Now()
	end := Went
	c.Why = l.why
	switch {
	case !c.made && !l.keepsBack():
		l.mu.Unlock()
		return Went
	case ctx.Err() != nil:
		end = Ended
	case most >= 0 && l.queue.length+l.resting >= most:
		end = Crowded
	case l.tooLong(ctx, now, after):
		end = TooLong
	}
	if end != Went {
		l.mu.Unlock()
		return end
	}
	if c.Since.IsZero() {
		c.Since, c.before = now, l.probes
	}
	if c.turn == nil {
		c.turn = &waiter{ready: make(chan struct{}, 1)}
		c.turn.deadline, _ = ctx.Deadline()
	}
	c.turn.full, c.turn.rank = c.full, 1+uint8(rank)
	if c.alone > 0 {
		c.turn.rank = 0
	}
	if after > 0 && (l.phase != down || c.alone > 0) && !c.rest(ctx, now, after) {
		end = Ended
	} else {
		end = c.waitInLine(ctx)
	}
	c.Probes, c.Why = l.probes-c.before, l.why
	l.mu.Unlock()
	return end
}

// rest waits before the call joins the line. It releases the lock meanwhile.
func (c *Call) rest(ctx context.Context, now time.Time, after time.Duration) (rested bool) {
	l := c.line
	l.resting++
	l.mu.Unlock()
	timer := clock.NewTimer(after, clock.Monotonic(&now))
	select {
	case <-timer.C:
		rested = true
	case <-ctx.Done():
		timer.Stop()
	}
	l.mu.Lock()
	l.resting--
	return rested
}

// waitInLine waits for the turn of the call. It releases the lock meanwhile.
func (c *Call) waitInLine(ctx context.Context) End {
	l, w := c.line, c.turn
	l.push(w, c.again)
	l.mu.Unlock()
	select {
	case <-w.ready:
		l.mu.Lock()
		if w.late {
			return TooLong
		}
		c.place, c.generation, c.Entered = true, w.generation, w.generation
		return Went
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.withdraw(w)
	return Ended
}
