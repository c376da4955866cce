package guard

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/internal/line"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/refused"
)

// defaultMaxAttempts is the default of [backoff.Policy.MaxAttempts].
const defaultMaxAttempts = 4

// longest is how long a call without a deadline waits for its service.
const longest = 5 * time.Second

type failFast struct{}

// WithFailFast returns a context whose calls do not wait for a [Service] that cannot
// serve them now. They end as under a Service that is FailFast.
func WithFailFast(ctx context.Context) context.Context {
	return context.WithValue(ctx, failFast{}, true)
}

// attempts makes the attempts of a call: those of a policy, or of that of the call if it is nil.
type attempts = func(context.Context, *backoff.Policy) error

// serve makes a call. If the service cannot serve it now, the call waits.
func (s *Service) serve(ctx context.Context, p *backoff.Policy, t *Turn, call attempts) error {
	keyed, made := withKey(ctx, p.Idempotency)
	var began time.Time
	if p.MaxElapsed > 0 || p.Observer != nil {
		began = clock.Real()
	}
	var err error
	first, end := observed(p, began)
	of, wait := s.line.NewCall()
	if !wait {
		if err = s.callOnce(keyed, first, t, call); err == nil {
			of.Succeed()
			return nil
		}
	}
	own := *p
	w := waiting{service: s, policy: &own, first: first, ending: end, call: of, ctx: keyed, keyed: made, began: began}
	if err = w.serve(t, call, err); err != nil {
		end.tell(ctx, err)
	}
	if made && err != nil {
		return ofKey(ctx, p, backoff.IdempotencyKey(keyed), err)
	}
	return err
}

// waiting is a call that may wait for its service.
type waiting struct {
	service *Service
	policy  *backoff.Policy
	first   *backoff.Policy // for what the call does before it waits; nil means its own
	ending  *ending         // nil if nobody observes the call
	call    line.Call
	ctx     context.Context // of the caller
	keyed   bool            // the service has put a key there
	began   time.Time       // if the policy has a MaxElapsed or an Observer

	after backoff.Decision // after the last failure, if the next attempt is a retry of the policy

	end         time.Time      // when the call waits no longer; zero before it waits
	made        bool           // the breaker let the call pass, at last
	attempts    int            // made so far
	before      int            // of them, those made before it waited in line last
	reason      backoff.Reason // why the policy gave up, at last
	last        error          // of the last attempt; nil if there was none
	interrupted error          // of an attempt after that, which the caller or a breaker ended
}

// serve goes on with a call that ended with err, or that must wait before it begins.
func (w *waiting) serve(t *Turn, call attempts, err error) error {
	waits := !w.failsFast()
	for {
		w.policy, w.made = cmp.Or(t.Policy, w.policy), t.made
		r, again := w.read(t, err)
		if r.Verdict == line.Full && w.ctx.Value(inside{w.service}) != nil {
			return w.passFull(t, call, r)
		}
		again = (err == nil || w.call.Settle(r) && again) && waits
		if w.after = (backoff.Decision{}); err != nil && !again {
			w.after = w.retry(t, err)
		}
		switch {
		case again || w.after.Again:
			if end := w.pause(t, r); end != line.Went {
				return w.gaveUp(end, err)
			}
		case err != nil:
			return w.failed(err)
		}
		if err = w.again(t, call); err == nil {
			w.call.Succeed()
			return nil
		}
	}
}

// passFull makes one attempt of a call for which the budget has no room, without asking
// it: the call around this one may hold the room, and waits for this one.
func (w *waiting) passFull(t *Turn, call attempts, r line.Result) error {
	w.call.Settle(r)
	own := *w.policy
	own.MaxAttempts, own.Budget = 1, nil
	if w.ending != nil {
		own.Observer = w.ending.hear
	}
	err := w.service.callOnce(w.ctx, &own, t, call)
	r, _ = w.read(t, err)
	w.call.Settle(r)
	return err
}

// failsFast reports whether the call does not wait: its caller said so, or a call that
// has its turn is waiting for it.
func (w *waiting) failsFast() bool {
	held, _ := w.ctx.Value(holding{}).(*turnOf)
	return w.ctx.Value(failFast{}) != nil || held != nil && held.service == w.service && !held.over.Load()
}

// holding is the key of the turnOf in the context of a call that has its turn.
type holding struct{}

// turnOf says that a call has its turn, until it is over.
type turnOf struct {
	service *Service
	over    atomic.Bool

	returned bool // without a panic
}

// pause waits until the call, which ended with r, may go on.
func (w *waiting) pause(t *Turn, r line.Result) line.End {
	w.ending.goesOn(w.ctx)
	if t.BeforeWait != nil {
		t.BeforeWait()
	}
	if w.after.Again {
		return w.sleep(w.after.Wait)
	}
	return w.wait(r)
}

// wait waits for the turn of the call, which ended with r, or has not begun.
func (w *waiting) wait(r line.Result) line.End {
	if w.end.IsZero() {
		w.end = w.endOfWaiting()
	}
	ctx := w.ctx
	if !w.bounded() {
		own, cancel := context.WithDeadline(ctx, w.end)
		defer cancel()
		ctx = own
	}
	rank := int(backoff.PriorityOf(ctx) - backoff.PriorityBackground)
	if r.Verdict != line.Full {
		w.before = w.attempts
	}
	return w.call.Wait(ctx, rank, w.service.maxWaiting(), r)
}

// endOfWaiting returns when the call waits no longer.
func (w *waiting) endOfWaiting() time.Time {
	end, bounded := w.ctx.Deadline()
	elapsed := w.began.Add(w.policy.MaxElapsed)
	switch {
	case w.policy.MaxElapsed > 0 && (!bounded || elapsed.Before(end)):
		return elapsed
	case !bounded:
		return clock.Real().Add(longest)
	}
	return end
}

// again makes the call when it is its turn. A call that has waited makes one attempt.
func (w *waiting) again(t *Turn, call attempts) error {
	if !w.end.IsZero() {
		own := *w.policy
		own.MaxAttempts, own.ByClass = 1, nil
		if w.after.Again && own.Budget != nil {
			most := limits.Or(w.policy.MaxAttempts, defaultMaxAttempts)
			own.Budget = &retries{own.Budget, w.counted(), most, w.after.Class}
		}
		if w.ending != nil {
			own.Observer, w.ending.most = w.ending.hear, limits.Or(w.policy.MaxAttempts, -1)
		}
		if own.MaxElapsed > 0 {
			own.MaxElapsed = max(1, own.MaxElapsed-clock.Real().Sub(w.began))
		}
		held := &turnOf{service: w.service}
		defer w.leave(held)
		ctx := context.WithValue(w.ctx, holding{}, held)
		if w.keyed {
			ctx = backoff.WithIdempotencyKey(ctx, backoff.IdempotencyKey(ctx)) // which knows no request yet
		}
		err := w.service.callOnce(ctx, &own, t, call)
		held.returned = true
		return err
	}
	return w.service.callOnce(w.ctx, w.first, t, call)
}

// leave ends the turn of a call, also one that panics or leaves its goroutine.
func (w *waiting) leave(held *turnOf) {
	held.over.Store(true)
	if !held.returned {
		w.call.Settle(line.Result{Verdict: line.Failed, Err: errCrashed})
	}
}

var errCrashed = errors.New("guard: operation panicked or left its goroutine")

// failed is the error of a call that failed with err, and waits no longer.
func (w *waiting) failed(err error) error {
	switch {
	case w.end.IsZero():
		if !w.made {
			refused.Tell(w.ctx, w.policy, err)
		}
		return err
	case w.ctx.Err() != nil:
		return w.error(refused.Ended(w.ctx))
	case w.reason == 0 || w.reason == backoff.ReasonPermanent:
		return err
	}
	return w.error(w.reason)
}

// gaveUp is the error of a call that has waited in vain since it failed with err.
func (w *waiting) gaveUp(end line.End, err error) error {
	switch {
	case end == line.Ended && w.ctx.Err() != nil:
		return w.told(w.error(refused.Ended(w.ctx)))
	case end == line.TooLong && w.bounded():
		return w.told(w.error(backoff.ReasonDeadline))
	case end == line.Ended && w.policy.MaxElapsed > 0:
		return w.told(w.error(backoff.ReasonElapsed))
	case err != nil && w.call.Waited == 0 && end != line.Ended:
		return w.told(err)
	case end == line.TooLong && w.policy.MaxElapsed > 0:
		return w.told(w.error(backoff.ReasonElapsed))
	}
	return w.told(w.error(cmp.Or(w.reason, backoff.ReasonOpen)))
}

// bounded reports whether the caller's deadline ends the waiting.
func (w *waiting) bounded() bool {
	deadline, bounded := w.ctx.Deadline()
	return bounded && !w.end.Before(deadline)
}

// told tells the observer of a call without an attempt that it ended.
func (w *waiting) told(err error) error {
	if w.attempts == 0 && w.reason != backoff.ReasonBudget && w.ending != nil {
		own := *w.policy
		own.Observer = w.ending.notify
		refused.Tell(w.ctx, &own, err)
	}
	return err
}

// error is the error of a call that has waited, or wanted to.
func (w *waiting) error(why backoff.Reason) error {
	e := backoff.Error{Name: cmp.Or(w.policy.Name, w.service.Name), Attempts: w.attempts, Reason: why, Last: w.last, Interrupted: w.interrupted}
	switch {
	case w.last != nil:
	case w.reason != backoff.ReasonBudget:
		e.Last = w.service.refusal(w.call.Why)
	case why != w.reason:
		e.Last = backoff.ErrBudget
	}
	if w.call.Waited >= time.Millisecond {
		e.Note = waited(&w.call)
	}
	return w.policy.GiveUp(w.ctx, e)
}

// waited says how long a call waited, and for what. A service that answered others
// meanwhile was up.
func waited(c *line.Call) string {
	if c.Probes > 0 && c.Answers == 0 {
		c.For = "for the service to come back"
	}
	text := "waited " + c.Waited.Round(time.Millisecond).String() + " " + c.For
	switch c.Probes {
	case 0:
		return text
	case 1:
		return text + ", 1 probe"
	}
	return text + ", " + strconv.Itoa(c.Probes) + " probes"
}
