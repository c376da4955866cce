package hedge

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/steer"
)

// race runs the attempts of a call at the same time, and ends the call with the one that
// wins. mu guards the fields below it, and those of the call, until the call is over.
type race struct {
	call
	began time.Time
	keep  bool // the winner's context must outlive the call

	mu       sync.Mutex
	next     pacing
	first    attempt
	winner   *attempt // attempt that ended the call with success
	err      error    // error of the call
	over     bool
	done     chan struct{} // channel to close when the call is over; nil unless the caller waits
	crashed  bool          // an attempt ended the call by a panic or a Goexit
	panicked any           // value of that panic; nil for a Goexit
}

// do is Value for a value of any type.
func (r *race) do(ctx context.Context, h *Hedge) {
	if h == nil {
		r.err = h.Validate()
		return
	}
	if d := steer.Of(ctx); d != nil {
		h.steer(ctx, d)
		return
	}
	started := r.start(ctx, h)
	defer r.notify()
	switch {
	case !started:
		return
	case h.Detach:
		go r.begin(nil, &r.first)
	default:
		r.begin(nil, &r.first)
	}
	r.await()
}

// start begins the call, or ends it and returns false.
func (r *race) start(ctx context.Context, h *Hedge) bool {
	r.hedge, r.ctx, r.parent, r.next.call, r.began = h, ctx, ctx, &r.call, clock.Now()
	if err := h.Validate(); err != nil {
		r.end(err)
		return false
	}
	if h.Idempotency == backoff.Keyed && backoff.IdempotencyKey(ctx) == "" {
		r.parent = backoff.WithIdempotencyKey(ctx, "")
	}
	sent := r.next.first(r.began)
	if r.next.why != goOn {
		r.giveUp(r.next.why, nil)
		return false
	}
	r.next.delay = h.delay(r.next.left(sent))
	r.count(&r.first, sent)
	return true
}

// begin is what every goroutine of a call runs: an attempt, or an alarm that
// may lead to one. A panic that is the caller's own goes on by itself.
func (r *race) begin(al *clock.Alarm, a *attempt) {
	returned := false
	defer func() {
		switch {
		case returned:
		case a == &r.first && !r.hedge.Detach:
			r.crash(a, nil)
		default:
			r.crash(a, recover())
		}
	}()
	switch a {
	case nil:
		r.wake(al)
	case &r.first:
		r.open()
		fallthrough
	default:
		r.runner.run(a)
	}
	returned = true
}

// open arranges for the second attempt.
func (r *race) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over && r.next.schedule(r.first.sent) {
		r.sendDue(r.first.sent)
	}
}

// Ring is called when an alarm goes off.
func (r *race) Ring(al *clock.Alarm) { r.begin(al, nil) }

// wake sends the hedge for which an alarm goes off.
func (r *race) wake(al *clock.Alarm) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next.alarm != al { // replaced, or stopped too late
		return
	}
	now := clock.Now()
	r.next.waited(now)
	r.sendDue(now)
	r.endIfIdle()
}

// sendDue sends the hedges that are due.
func (r *race) sendDue(now time.Time) {
	for r.next.due(now) {
		r.hedge.hedges.Add(1)
		a := new(attempt)
		r.count(a, now)
		r.runner.launch(a)
		if atOnce := r.next.schedule(now); !atOnce {
			return
		}
	}
}

// count counts an attempt that is about to run.
func (r *race) count(a *attempt, now time.Time) {
	a.Parent, a.number, a.ticket, a.sent = r.parent, r.number, r.next.ticket, now
	r.attempts[r.number] = a
	r.number++
	r.running++
}

// uncount counts an attempt that has returned.
func (r *race) uncount(a *attempt, result backoff.Result) {
	a.over = true
	r.running--
	if r.hedge.Budget != nil {
		r.hedge.Budget.Done(a.ticket, result)
	}
}

// finish takes the end of an attempt, and reports whether it ended the call. If
// it did, finish calls take, which keeps the attempt's value.
func (r *race) finish(a *attempt, err error, take func()) bool {
	var f failure
	if err != nil {
		f = r.hedge.judge(err)
	}
	now := clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over:
		r.uncount(a, backoff.Result{Failed: true, Canceled: true})
		return false
	case err != nil:
		r.fail(a, &f, now)
	default:
		r.win(a, now)
	}
	if r.over {
		take()
	}
	return r.over
}

// win ends the call with the success of an attempt.
func (r *race) win(a *attempt, now time.Time) {
	r.measure(a, now)
	r.hedge.account.calls.Add(1)
	if a != &r.first {
		r.hedge.wins.Add(1)
	}
	r.uncount(a, backoff.Result{Took: now.Sub(a.sent)})
	r.next.stop(backoff.ReasonAttempts) // the budget may panic, and there is no winner then
	r.winner = a
	r.end(nil)
}

// measure takes the latency of the first attempt when winner wins. A first
// attempt that was beaten counts as well, or none would seem slow. It counts
// with the time it had, or with the delay if that is longer, because it would
// have taken longer than both.
func (r *race) measure(winner *attempt, now time.Time) {
	h := r.hedge
	if h.Delay != 0 || r.first.over {
		return
	}
	d := now.Sub(r.first.sent)
	if winner != &r.first {
		d = max(d, h.delay(maxDuration))
	}
	h.slow.add(d, now, h.MaxExtraLoad)
}

// fail takes the failure of an attempt, and sends the next hedge or ends the call.
func (r *race) fail(a *attempt, f *failure, now time.Time) {
	ended := r.ctx.Err() != nil
	var interrupted error
	switch {
	case ended && r.last != nil:
		interrupted = f.err
	case !f.refused() || a == &r.first:
		r.last, r.class = f.err, f.Class // after a refusal, the service's last answer stays
	}
	if f.told && r.next.why != backoff.ReasonRetryAfter { // otherwise it is known why there are no more hedges
		r.retryAfter = f.RetryAfter
	}
	result := f.Result()
	if f.refused() {
		r.unsent, r.refusal = r.unsent+1, f.err
	}
	if !result.NotSent {
		result.Canceled, result.Took = result.Canceled || ended, now.Sub(a.sent)
	}
	r.uncount(a, result)
	a.Cancel(nil)
	switch {
	case ended:
		r.giveUp(backoff.ReasonCanceled, interrupted)
	case r.permanent(f):
		r.giveUp(backoff.ReasonPermanent, nil)
	default:
		r.next.failed(f, now)
		r.sendDue(now)
		r.endIfIdle()
	}
}

// crash ends the call for an attempt that panicked with value, or left its
// goroutine if value is nil.
func (r *race) crash(a *attempt, value any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a != nil && !a.over {
		r.uncount(a, backoff.Result{Failed: true, Class: backoff.ClassRetryable, Canceled: r.over})
	}
	if !r.over {
		r.crashed, r.panicked = true, value
		r.end(nil)
	} else if value != nil {
		r.hedge.panics.Add(1)
	}
}

// await returns when the call is over. It passes on the panic that ended the
// call.
func (r *race) await() {
	r.mu.Lock()
	if !r.over {
		r.done = make(chan struct{})
		r.mu.Unlock()
		select {
		case <-r.done:
		case <-r.ctx.Done():
		}
		r.mu.Lock()
	}
	if !r.over {
		r.giveUp(backoff.ReasonCanceled, nil)
	}
	r.mu.Unlock()
	if r.crashed && r.panicked == nil {
		runtime.Goexit()
	} else if r.crashed {
		panic(r.panicked)
	}
}

// endIfIdle ends the call if there is nothing left to wait for.
func (r *race) endIfIdle() {
	if !r.over && r.running == 0 && r.next.alarm == nil {
		r.giveUp(r.next.why, nil)
	}
}

// giveUp ends the call with an error. interrupted is the error of the attempt after last,
// if that attempt failed when the context had ended.
func (r *race) giveUp(why backoff.Reason, interrupted error) {
	e := backoff.Error{Attempts: r.number - r.unsent, Reason: why, Last: r.last, Interrupted: interrupted}
	switch why {
	case backoff.ReasonOpen:
		e.Interrupted = r.refusal
	case backoff.ReasonBudget:
		e.Note = "the limit may be MaxExtraLoad"
	case backoff.ReasonRetryAfter:
		if after, _ := backoff.RetryAfterOf(r.last); after < r.retryAfter { // as the server said to another attempt
			e.Last = backoff.RetryAfter(r.last, r.retryAfter)
		}
	}
	err := r.policy().GiveUp(r.ctx, e)
	if gave, ok := err.(*backoff.Error); ok && interrupted != nil { // GiveUp knows which of the two is the last
		r.last, r.class = gave.Last, gave.Class()
	}
	r.end(err)
}

// end ends every call.
func (r *race) end(err error) {
	r.next.stop(backoff.ReasonAttempts)
	if r.over, r.err = true, err; r.next.unpaid {
		r.hedge.refused.Add(1)
	}
	for _, a := range r.attempts[:r.number] {
		switch {
		case !a.over:
			a.Cancel(errLost)
		case a != r.winner || !r.keep:
			a.Cancel(nil)
		}
	}
	if r.done != nil {
		close(r.done)
	}
}

// notify tells the Observer of a call that is over.
func (r *race) notify() {
	if r.hedge.Observer == nil {
		return
	}
	for n := 1; n < r.number; n++ {
		e := backoff.Event{Kind: backoff.EventHedgeLost, Attempt: n + 1, Delay: r.next.delay}
		if r.attempts[n] == r.winner {
			e.Kind = backoff.EventHedgeWon
		}
		r.observe(e)
	}
	if r.next.unpaid {
		r.observe(backoff.Event{Kind: backoff.EventRefused, Reason: backoff.ReasonBudget})
	}
	if !r.crashed {
		r.observe(r.endEvent())
	}
}

// endEvent returns the event of the call's end.
func (r *race) endEvent() backoff.Event {
	e := backoff.Event{Kind: backoff.EventSuccess, Attempt: r.number - r.unsent, Elapsed: clock.Now().Sub(r.began)}
	if r.err == nil {
		return e
	}
	e.Kind, e.Err, e.Class, e.RetryAfter, e.Reason = backoff.EventGiveUp, r.last, r.class, r.retryAfter, backoff.ReasonPermanent
	if gave, ok := r.err.(*backoff.Error); ok && gave != nil {
		e.Reason, e.RetryAfter = gave.Reason, gave.RetryAfter()
	} else if r.number == 0 {
		e.Err, e.Class, e.Reason = r.err, backoff.ClassPermanent, backoff.ReasonInvalid
	}
	return e
}

func (r *race) observe(e backoff.Event) {
	e.Name, e.MaxAttempts = r.hedge.Name, r.hedge.maxAttempts()
	r.hedge.Observer.Notify(r.ctx, e)
}
