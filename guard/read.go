package guard

import (
	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/internal/line"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/evidence"
	"github.com/gobackoff/backoff/internal/fault"
)

// read takes note of the error with which a call ended. It returns what that says of
// the service, and whether to make the call again might help.
func (w *waiting) read(err error) (r line.Result, again bool) {
	if err == nil {
		return r, true
	}
	r.Err = err
	gave, _ := errtree.As[*backoff.Error](err)
	switch {
	case !w.turn.made:
		again = w.readRefusal(err, &r)
	case gave != nil:
		w.note(gave.Reason, gave.Attempts, gave.Last)
		again = w.readGivenUp(gave, &r)
	default:
		w.note(backoff.ReasonPermanent, 1, err)
		result := (backoff.Policy{}).Decide(1, err).Result()
		r.Verdict = verdictOf(fault.Of(result.NotSent, result.Canceled, result.TimedOut, result.Failed, evidence.Class(result.Class)))
	}
	if w.turn.NoFault || w.turn.Own {
		return line.Result{Err: err}, false
	}
	return r, again && w.ctx.Err() == nil
}

// note takes note of attempts that failed.
func (w *waiting) note(why backoff.Reason, attempts int, last error) {
	w.attempts += attempts
	w.reason = why
	if last != nil {
		w.last = last
	}
}

// readRefusal is read for a call that the breaker did not let pass.
func (w *waiting) readRefusal(err error, r *line.Result) (again bool) {
	if !errtree.Is(err, backoff.ErrOpen) {
		return false
	}
	r.Verdict = line.Refused
	return true
}

// readGivenUp is read for the error of a policy.
func (w *waiting) readGivenUp(gave *backoff.Error, r *line.Result) (again bool) {
	class := gave.Class()
	r.After = gave.RetryAfter()
	switch gave.Reason {
	case backoff.ReasonCanceled, backoff.ReasonInvalid, backoff.ReasonAbandoned:
		return false
	case backoff.ReasonOpen: // of a breaker inside
		r.Verdict = line.Refused
		return gave.Repeatable()
	case backoff.ReasonBudget:
		if gave.Attempts == 0 {
			r.Verdict, r.After = line.Full, 0
			return true
		}
	}
	r.Verdict = verdictOf(fault.OfClass(evidence.Class(class)))
	return r.Verdict == line.Failed && gave.Repeatable() && w.mayRepeat(gave)
}

// mayRepeat reports whether the call has time and attempts left.
func (w *waiting) mayRepeat(gave *backoff.Error) bool {
	p := w.policy
	switch gave.Reason {
	case backoff.ReasonAttempts, backoff.ReasonBudget, backoff.ReasonDeadline:
		return gave.Attempts > 0 && p.ByClass == nil && (p.MaxAttempts <= 0 || w.attempts < p.MaxAttempts)
	}
	return false
}

// verdictOf returns what the line makes of a fault.
func verdictOf(f fault.Fault) line.Verdict {
	switch f.Row().Line {
	case fault.Answer:
		return line.Answered
	case fault.Failure, fault.Unsent, fault.Slow:
		return line.Failed
	}
	return line.Silent
}
