package guard

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/internal/line"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/refused"
)

const ownFailures = 16 // attempts of a call that failed while the service answered others

// patiently makes the call, and makes it again when its turn comes, until it succeeds,
// fails for a reason that waiting does not mend, or ctx ends.
func (s *Service) patiently(ctx context.Context, p *backoff.Policy, t *Turn, call func(context.Context) error) error {
	keyed, made := withKey(ctx, p.Idempotency)
	err := s.again(keyed, p, t, call)
	if err != nil && !t.made {
		refused.Tell(keyed, p, err)
	}
	if gave, ok := err.(*backoff.Error); ok && made && gave.Repeatable() && gave.Reason != backoff.ReasonOpen {
		own := *p
		own.Idempotency = underKey(backoff.IdempotencyKey(keyed))
		return own.GiveUp(ctx, *gave) // to policies around, another call would have another key
	}
	return err
}

// underKey is the Idempotency of a call for which a service made this key.
type underKey string

// Repeatable implements [backoff.Idempotency].
func (underKey) Repeatable(context.Context, backoff.Class) bool { return true }

// MadeKey returns the key.
func (k underKey) MadeKey() string { return string(k) }

// again is patiently for a call whose context has its key.
func (s *Service) again(ctx context.Context, p *backoff.Policy, t *Turn, call func(context.Context) error) error {
	c, wait := s.line.NewCall()
	t.call = c
	var failure error // the last one of an attempt
	if wait {
		if err := s.wait(ctx, p, t, nil, line.Result{}); err != nil {
			return err
		}
	}
	for {
		r, waits := s.turn(ctx, p, t, call)
		err := r.Err
		if err == nil || t.Own {
			t.call.Succeed()
			return err
		}
		t.call.Settle(r)
		earlier := failure
		if failure == nil || r.Attempts > 0 && ctx.Err() == nil {
			failure, earlier = err, nil
		}
		if !waits || t.call.Own >= ownFailures {
			return s.final(ctx, p, t, earlier, err)
		}
		if err := s.wait(ctx, p, t, earlier, r); err != nil {
			return err
		}
	}
}

// withKey returns ctx with the key of a call that has one, so that it is the same each
// time that the call is made, and whether it was put there.
func withKey(ctx context.Context, i backoff.Idempotency) (keyed context.Context, made bool) {
	own, ok := i.(interface{ MadeKey() string })
	switch {
	case backoff.IdempotencyKey(ctx) != "":
	case ok:
		return backoff.WithIdempotencyKey(ctx, own.MadeKey()), true
	case i == backoff.Keyed:
		return backoff.WithIdempotencyKey(ctx, ""), true
	}
	return ctx, false
}

var errCrashed = errors.New("guard: operation panicked or left its goroutine")

// turn makes the call once. It returns how the call ended, and whether it waits for
// another turn.
func (s *Service) turn(ctx context.Context, p *backoff.Policy, t *Turn, call func(context.Context) error) (r line.Result, waits bool) {
	ended := false
	defer func() {
		if !ended {
			t.call.Settle(line.Result{Verdict: line.Failed, Err: errCrashed})
		}
	}()
	t.NoFault, t.Own = false, false
	if t.whole {
		t.call.Enter()
	}
	err := s.callOnce(ctx, p, t, call)
	if err != nil {
		r, waits = read(ctx, err)
	}
	ended = true
	return r, waits
}

// read returns what the error of a call says of the service, and whether the call
// waits for another turn.
func read(ctx context.Context, err error) (r line.Result, waits bool) {
	d := backoff.Policy{}.Decide(1, err)
	result := d.Result()
	gaveUp := d.Class == backoff.ClassPermanent && result.Class != backoff.ClassPermanent
	r.Err, r.Attempts = err, 1
	gave, _ := errtree.As[*backoff.Error](err)
	switch {
	case ctx.Err() != nil:
		if gave != nil {
			r.Attempts = gave.Attempts
		}
	case gave != nil && (gaveUp || gave.RetryableError() && d.Class.Retryable()):
		waits = readGivenUp(gave, &r)
	case result.NotSent: // a breaker refused
		readRefused(err, &r)
		waits = true
	case errtree.Is(err, backoff.ErrBudget):
		r.Verdict, r.Attempts, waits = line.Full, 0, true
	case gaveUp || d.Class != backoff.ClassPermanent:
		readFailure(d.Class, d.RetryAfter, &r)
		waits = d.Class.Retryable()
	case !errtree.Is(err, context.Canceled):
		r.Verdict = line.Answered
	}
	return r, waits
}

// readGivenUp is read for the error of a policy.
func readGivenUp(gave *backoff.Error, r *line.Result) (waits bool) {
	readFailure(gave.Class(), gave.RetryAfter(), r)
	r.Attempts = gave.Attempts
	switch gave.Reason {
	case backoff.ReasonAttempts, backoff.ReasonElapsed, backoff.ReasonBudget:
		if gave.Reason == backoff.ReasonBudget && gave.Attempts == 0 {
			r.Verdict, r.After = line.Full, 0
		}
		return gave.Repeatable()
	case backoff.ReasonOpen:
		readRefused(gave, r)
		r.Attempts = gave.Attempts
		return true
	case backoff.ReasonCanceled, backoff.ReasonInvalid, backoff.ReasonAbandoned:
		r.Verdict = line.Silent
	}
	return false
}

// readFailure is read for a failure of the service.
func readFailure(c backoff.Class, after time.Duration, r *line.Result) {
	r.Verdict, r.NotSent, r.After = line.Failed, c == backoff.ClassNotSent, after
	if c == backoff.ClassThrottled { // which may be about this caller alone
		r.Verdict = line.Throttled
	}
}

// readRefused is read for the refusal of a breaker. A circuit that lets some calls
// pass is not down.
func readRefused(err error, r *line.Result) {
	r.Verdict, r.After, r.Attempts = line.Full, 0, 0
	if open, ok := errtree.As[*backoff.OpenError](err); ok && open.State == backoff.BreakerOpen {
		r.Verdict, r.After = line.Refused, open.RetryAfter()
	}
}

// wait waits for the turn of the call, which ended with r, or was not made yet.
// Before that it failed with earlier, if that is not nil. wait returns the error of a
// call that waits no longer.
func (s *Service) wait(ctx context.Context, p *backoff.Policy, t *Turn, earlier error, r line.Result) error {
	after := r.After
	if r.Verdict == line.Refused { // what a circuit says holds for all
		after = 0
	}
	rank := int(backoff.PriorityOf(ctx) - backoff.PriorityBackground)
	began := clock.Now()
	end := t.call.Wait(ctx, rank, s.maxWaiting(), after)
	t.waited += clock.Since(began)
	err := r.Err
	if err == nil && end != line.Went {
		err = s.refusal(t.call.Why)
	}
	switch end {
	case line.Crowded:
		return s.final(ctx, p, t, earlier, err)
	case line.TooLong:
		return s.gaveUp(ctx, p, t, backoff.ReasonDeadline, earlier, err)
	case line.Ended:
		return s.gaveUp(ctx, p, t, refused.Ended(ctx), earlier, err)
	}
	return nil
}

// refusal is the error of a call that was not made, because others failed with why.
func (s *Service) refusal(why error) error {
	if open, ok := errtree.As[*backoff.OpenError](why); ok {
		return open
	}
	return &backoff.OpenError{Name: s.Name, State: backoff.BreakerOpen, Last: why}
}

// final is the error of a call that ended with err. Before that it failed with
// earlier, if that is not nil.
func (s *Service) final(ctx context.Context, p *backoff.Policy, t *Turn, earlier, err error) error {
	switch {
	case earlier == nil:
		return err
	case ctx.Err() != nil:
		return s.gaveUp(ctx, p, t, refused.Ended(ctx), earlier, err)
	}
	why := refused.Reason(ctx, err)
	if why == backoff.ReasonPermanent {
		why = backoff.ReasonBudget
	}
	return s.gaveUp(ctx, p, t, why, earlier, err)
}

// gaveUp is final for a call that ended for a reason of its own.
func (s *Service) gaveUp(ctx context.Context, p *backoff.Policy, t *Turn, why backoff.Reason, earlier, err error) error {
	e := backoff.Error{Name: s.Name, Attempts: t.call.Attempts, Reason: why, Last: err}
	if earlier != nil {
		e.Last, e.Interrupted = earlier, err
	}
	if !t.call.Since.IsZero() {
		e.Note = waited(t.waited, t.call.Probes)
	}
	return p.GiveUp(ctx, e)
}

// waited says how long a call waited, and for what.
func waited(d time.Duration, probes int) string {
	text := "waited " + d.Round(time.Millisecond).String()
	switch probes {
	case 0:
		return text + " for its turn"
	case 1:
		return text + " for the service to come back, 1 probe"
	}
	return text + " for the service to come back, " + strconv.Itoa(probes) + " probes"
}
