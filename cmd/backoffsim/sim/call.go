package sim

import (
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff"
)

// A call is one logical operation of one process: a call of a user, or an
// attempt of the layer above.
type call struct {
	*simulation
	run         backoff.Run
	ctx         callContext
	process     *process
	parent      *call       // the call whose attempt this is; nil for a call of a user
	needs       Service     // all or a part of the service
	doneCall    func(error) // the breaker's, if it guards calls
	doneAttempt func(error) // the breaker's, if it guards attempts
	err         error       // of the current attempt
	began       time.Duration
	attemptEnd  time.Duration // when the current attempt ends at the latest
	layer       int           // from 0
	attempts    int           // sent so far
	reserved    uint64        // the newest reservation of a pacedBudget
	firstWait   time.Duration // that the budget makes the first attempt wait; 0 if it does not
	underWay    bool
}

// The events of a call.
const (
	sending = iota
	arriving
	answered
)

func (c *call) handle(kind int) {
	switch kind {
	case sending:
		c.wake()
	case arriving:
		c.arrive()
	default:
		c.finishAttempt()
	}
}

// startCall begins a call in a layer. The call ends at the given time at the
// latest.
func (w *simulation) startCall(layer int, parent *call, end time.Duration) {
	c := w.newCall()
	c.layer, c.parent, c.began, c.attempts, c.underWay = layer, parent, w.now, 0, true
	if parent != nil {
		c.needs = parent.needs
	} else {
		c.needs = w.serviceFor()
	}
	c.ctx.end = end
	c.process = w.randomProcess(layer)
	if b := c.process.breaker; b != nil && c.process.guard == GuardCalls {
		done, err := b.Allow()
		if err != nil {
			c.finish(err)
			return
		}
		c.doneCall = done
	}
	if c.process.hedge != nil {
		c.startHedge()
		return
	}
	c.reserved, c.firstWait = 0, 0
	c.run = *c.process.policy.Start(c.context())
	if !c.scenario.Failed || layer > 0 {
		c.send()
		return
	}
	ok := c.begin()
	if c.firstWait > 0 { // it has been made
		c.run = *c.process.policy.Start(c.context())
		ok = c.begin()
	}
	if !ok {
		c.finish(c.run.Err())
		return
	}
	c.proceed(c.run.Retry(ErrDown))
}

// proceed does what the policy has decided: it ends the call, or makes the next
// attempt after a wait.
func (c *call) proceed(wait time.Duration, again bool) {
	switch {
	case !again:
		c.finish(c.run.Err())
	case wait == 0:
		c.send()
	default:
		if b := c.process.paced; b != nil {
			c.reserved = b.newest
		}
		c.after(wait, c, sending)
	}
}

// send makes an attempt, if the policy and the breaker allow it. A first attempt that
// must wait is put off.
func (c *call) send() {
	waited := c.firstWait > 0
	if !c.begin() {
		if c.firstWait > 0 && !waited {
			c.putOff()
			return
		}
		c.process.paced.drop(c.reserved)
		c.finish(c.run.Err())
		return
	}
	if c.err = c.allowAttempt(); c.err != nil {
		c.after(0, c, answered)
		return
	}
	c.attempts++
	c.countAttempt(c.layer)
	c.attemptEnd = c.attemptDeadline()
	switch {
	case c.layer+1 < c.layers:
		c.startCall(c.layer+1, c, c.attemptEnd)
	case c.delayed:
		c.after(c.networkDelay(), c, arriving)
	default:
		c.arrive()
	}
}

// allowAttempt asks the breaker, if it guards attempts.
func (c *call) allowAttempt() error {
	p := c.process
	if p.breaker == nil || p.guard == GuardCalls {
		return nil
	}
	done, err := p.breaker.Allow()
	if err != nil && p.guard == GuardRetries && c.attempts == 0 {
		return nil
	}
	c.doneAttempt = done
	return err
}

// attemptDeadline returns when an attempt that begins now ends at the latest.
func (c *call) attemptDeadline() time.Duration {
	end := c.ctx.end
	if c.layer+1 == c.layers && c.timeout > 0 {
		end = min(end, c.now+c.timeout)
	}
	if s := c.process.timeout; s != nil {
		if d := s.Delay(c.attempts); d > 0 {
			end = c.cut(end, d)
		}
	}
	return end
}

// cut returns when an attempt of the given time limit ends that would end at
// end.
func (c *call) cut(end, limit time.Duration) time.Duration {
	if most := c.process.policy.MaxElapsed; most > 0 {
		limit = min(limit, c.began+most-c.now)
	}
	if limit < end-c.now {
		return c.now + limit
	}
	return end
}

// arrive handles the arrival of an attempt at the service.
func (c *call) arrive() {
	var latency time.Duration
	latency, c.err = c.serve(c.needs, c.attemptEnd)
	c.after(latency, c, answered)
}

// serve sends an attempt to a service for a client that gives up at end. It
// returns when the client learns the result, and the result.
func (w *simulation) serve(s Service, end time.Duration) (time.Duration, error) {
	w.countArrival()
	latency, err := s.Serve(w.now, end, w.work)
	if errors.Is(err, ErrTooMuch) {
		w.throttled++
	}
	if w.delayed && latency < forever {
		latency += w.networkDelay()
	}
	if latency > end-w.now {
		return max(0, end-w.now), ErrTimeout
	}
	return latency, err
}

// finishAttempt handles the end of the current attempt.
func (c *call) finishAttempt() {
	err := c.err
	if err != nil && c.now >= c.attemptEnd && c.now < c.ctx.end {
		err = ErrTimeout // the deadline that a layer below reports was this attempt's
	}
	if c.doneAttempt != nil {
		c.doneAttempt(err)
		c.doneAttempt = nil
	}
	wait, again := c.run.Retry(err)
	if err == nil {
		c.finish(nil)
		return
	}
	if again {
		c.countGrantedRetry(c.layer)
	}
	c.proceed(wait, again)
}

// finish ends the call, with the error that the caller receives.
func (c *call) finish(err error) {
	c.underWay = false
	if c.doneCall != nil {
		c.doneCall(err)
		c.doneCall = nil
	}
	if c.parent == nil {
		c.finishUserCall(c, err)
	} else {
		if err != nil && c.process.unmarked {
			err = ErrFault
		}
		c.parent.err = err
		c.after(0, c.parent, answered)
	}
	c.freeCalls = append(c.freeCalls, c)
}

// A callContext is the context of a call in virtual time.
type callContext struct {
	context.Context
	engine *engine
	end    time.Duration
}

// Deadline implements [context.Context].
func (d *callContext) Deadline() (time.Time, bool) { return epoch.Add(d.end), true }

// Err implements [context.Context].
func (d *callContext) Err() error {
	if d.engine.now >= d.end {
		return context.DeadlineExceeded
	}
	return nil
}

// context returns the context of the call. Most calls have no deadline, and the
// pace does not end them: they need no context of their own.
func (c *call) context() context.Context {
	if c.ctx.end == forever && c.process.paced == nil {
		return context.Background()
	}
	return &c.ctx
}
