package sim

import (
	"context"
	"time"

	"github.com/gobackoff/backoff"
)

// A call is one logical operation of one process: a user's, or an attempt of the layer
// above.
type call struct {
	*world
	run     backoff.Run
	ctx     deadline
	process *process
	parent  *call       // whose attempt this is; nil for that of a user
	told    func(error) // by the breaker, for the verdict on the call
	heard   func(error) // and on the attempt
	err     error       // of the attempt under way
	began   time.Duration
	limit   time.Duration // when the attempt under way ends at the latest
	layer   int           // from 0
	number  int           // of attempts sent
}

// What happens to a call.
const (
	sending = iota
	arriving
	answered
)

func (c *call) happen(what int) {
	switch what {
	case sending:
		c.send()
	case arriving:
		c.arrive()
	default:
		c.answer()
	}
}

// begin starts a call in a layer, which must end before a time.
func (w *world) begin(layer int, parent *call, end time.Duration) {
	c := w.take()
	c.layer, c.parent, c.began, c.number = layer, parent, w.now, 0
	c.ctx.end = end
	c.process = w.pick(layer)
	if b := c.process.breaker; b != nil && c.process.guard == GuardCalls {
		done, err := b.Allow()
		if err != nil {
			c.end(err)
			return
		}
		c.told = done
	}
	if c.process.hedge != nil {
		c.race()
		return
	}
	c.run = *c.process.policy.Start(c.context())
	pause, ok := c.run.Admit()
	if ok && c.scenario.Failed && layer == 0 {
		c.run.Begin(0)
		pause, ok = c.run.Retry(ErrDown)
	}
	c.proceed(pause, ok)
}

// proceed does what the policy decided.
func (c *call) proceed(pause time.Duration, again bool) {
	switch {
	case !again:
		c.end(c.run.Err())
	case pause == 0:
		c.send()
	default:
		c.after(pause, c, sending)
	}
}

// send makes an attempt, if all who are asked let it go.
func (c *call) send() {
	if !c.run.Begin(0) {
		c.end(c.run.Err())
		return
	}
	if c.err = c.ask(); c.err != nil {
		c.after(0, c, answered)
		return
	}
	c.number++
	c.sent(c.layer)
	c.limit = c.allowed()
	switch {
	case c.layer+1 < c.layers:
		c.begin(c.layer+1, c, c.limit)
	case c.delayed:
		c.after(c.transit(), c, arriving)
	default:
		c.arrive()
	}
}

// ask asks a breaker that guards attempts.
func (c *call) ask() error {
	p := c.process
	if p.breaker == nil || p.guard == GuardCalls {
		return nil
	}
	done, err := p.breaker.Allow()
	if err != nil && p.guard == GuardRetries && c.number == 0 {
		return nil
	}
	c.heard = done
	return err
}

// allowed returns when the attempt that is about to be made ends at the latest.
func (c *call) allowed() time.Duration {
	limit := c.ctx.end
	if c.layer+1 == c.layers && c.timeout > 0 {
		limit = min(limit, c.now+c.timeout)
	}
	if s := c.process.timeout; s != nil {
		if d := s.Delay(c.number); d > 0 && d < limit-c.now {
			limit = c.now + d
		}
	}
	return limit
}

// arrive is when an attempt reaches the service.
func (c *call) arrive() {
	var latency time.Duration
	latency, c.err = c.reach(c.limit)
	c.inTurn(latency, c, answered)
}

// reach asks the service on behalf of a client that gives up at limit. It returns when he knows
// the answer, and what it is.
func (w *world) reach(limit time.Duration) (time.Duration, error) {
	w.arrived()
	latency, err := w.service.Serve(w.now, limit, w.work)
	if w.delayed && latency < forever {
		latency += w.transit()
	}
	if latency > limit-w.now {
		return max(0, limit-w.now), ErrTimeout
	}
	return latency, err
}

// answer is when the attempt under way has ended.
func (c *call) answer() {
	err := c.err
	if err != nil && c.now >= c.limit && c.now < c.ctx.end {
		err = ErrTimeout // what a layer below said of its deadline was about this one's attempt
	}
	if c.heard != nil {
		c.heard(err)
		c.heard = nil
	}
	pause, again := c.run.Retry(err)
	if err == nil {
		c.end(nil)
		return
	}
	if again {
		c.asked(c.layer)
	}
	c.proceed(pause, again)
}

// end is where every call comes to.
func (c *call) end(err error) {
	if c.told != nil {
		c.told(err)
		c.told = nil
	}
	if c.parent == nil {
		c.ended(c, err)
	} else {
		if err != nil && c.process.unmarked {
			err = ErrFault
		}
		c.parent.err = err
		c.after(0, c.parent, answered)
	}
	c.free = append(c.free, c)
}

// A deadline is the context of a call in virtual time.
type deadline struct {
	context.Context
	engine *engine
	end    time.Duration
}

func (d *deadline) Deadline() (time.Time, bool) { return epoch.Add(d.end), true }

func (d *deadline) Err() error {
	if d.engine.now >= d.end {
		return context.DeadlineExceeded
	}
	return nil
}

// context returns the call's. Most calls need none.
func (c *call) context() context.Context {
	if c.ctx.end == forever {
		return context.Background()
	}
	return &c.ctx
}
