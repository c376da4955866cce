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
func (w *waiting) read(t *Turn, err error) (r line.Result, again bool) {
	if err == nil {
		return r, true
	}
	r.Err = err
	gave, _ := errtree.As[*backoff.Error](err)
	switch {
	case !t.made:
		again = w.readRefusal(err, &r)
	case gave != nil:
		w.note(gave.Reason, gave.Attempts, gave.Last)
		again = w.readGivenUp(gave, &r)
	case isRefusal(err): // of a breaker inside
		w.note(backoff.ReasonOpen, 1, err)
		r.Verdict, again = line.Refused, w.hasAttempts()
	case errtree.Is(err, backoff.ErrBudget):
		w.note(backoff.ReasonPermanent, 1, err)
	case t.alone && w.isMissing(err):
		w.note(backoff.ReasonPermanent, 1, err)
		r.Verdict, again = line.Failed, w.hasAttempts()
	default:
		w.note(backoff.ReasonPermanent, 1, err)
		r.Verdict = verdictOf(err, nil)
	}
	if t.NoFault || t.Own {
		return line.Result{Err: err}, false
	}
	return r, again && w.ctx.Err() == nil
}

// note takes note of attempts that failed.
func (w *waiting) note(why backoff.Reason, attempts int, last error) {
	w.attempts += attempts
	if why != backoff.ReasonAttempts || w.end.IsZero() || w.reason == 0 || w.reason == backoff.ReasonOpen || w.hasPlaces() {
		w.reason = why // and not that a turn has one attempt
	}
	cut := w.ctx.Err() != nil || why == backoff.ReasonElapsed || why == backoff.ReasonDeadline
	switch {
	case last == nil:
	case w.last != nil && (cut || errtree.Is(last, backoff.ErrOpen)):
		w.interrupted = last
	default:
		w.last, w.interrupted = last, nil
	}
}

// isMissing reports whether the call may wait for the name of its service, which does not
// exist yet: the caller has set an end, so that who mistypes a name waits no longer.
func (w *waiting) isMissing(err error) bool {
	_, bounded := w.ctx.Deadline()
	if !bounded && w.policy.MaxElapsed <= 0 || backoff.DefaultClassifier(err) != backoff.ClassPermanent {
		return false
	}
	waits := backoff.Policy{Classify: func(err error) backoff.Class { return backoff.Class(evidence.OfWaiting(err)) }}
	return waits.Decide(1, err).Class == backoff.ClassNotSent // a mark may say otherwise
}

// isRefusal reports whether err is that of a breaker, so that nothing was sent.
func isRefusal(err error) bool {
	d := backoff.Policy{}.Decide(1, err)
	return errtree.Is(err, backoff.ErrOpen) && d.Result().NotSent
}

// readRefusal is read for a call that the breaker did not let pass.
func (w *waiting) readRefusal(err error, r *line.Result) (again bool) {
	if !errtree.Is(err, backoff.ErrOpen) {
		return false
	}
	if w.attempts == 0 {
		w.reason = backoff.ReasonOpen
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
		return gave.Repeatable() && w.hasAttempts()
	case backoff.ReasonBudget:
		if w.hasPlaces() || gave.Attempts == 0 && !w.after.Again {
			r.Verdict, r.After = line.Full, 0
			return true
		} else if gave.Attempts == 0 { // it may refuse a retry for more than want of room
			return false
		}
	}
	if r.Verdict = line.Failed; gave.Last != nil {
		r.Verdict = verdictOf(gave.Last, func(error) backoff.Class { return class })
	}
	return r.Verdict == line.Failed && gave.Repeatable() && w.mayRepeat(gave)
}

// hasPlaces reports whether the budget of the call is that of the service, and refuses nothing but
// for want of room.
func (w *waiting) hasPlaces() bool {
	return w.service.line.Places && w.policy.Budget == w.service.use().budget
}

// mayRepeat reports whether the call has time and attempts left.
func (w *waiting) mayRepeat(gave *backoff.Error) bool {
	why := gave.Reason
	inTime := why == backoff.ReasonAttempts || why == backoff.ReasonBudget || why == backoff.ReasonDeadline
	return inTime && gave.Attempts > 0 && w.policy.ByClass == nil && w.hasAttempts() && !w.service.isUnproved()
}

// hasAttempts reports whether the policy, if it sets a limit, allows another attempt.
func (w *waiting) hasAttempts() bool {
	return w.policy.MaxAttempts <= 0 || w.attempts < w.policy.MaxAttempts
}

// verdictOf returns what the line makes of an error that has the class that classify says.
func verdictOf(err error, classify backoff.Classifier) line.Verdict {
	switch faultOf(err, classify).Row().Line {
	case fault.Answer:
		return line.Answered
	case fault.Failure, fault.Unsent, fault.Slow:
		return line.Failed
	}
	return line.Silent
}

// faultOf returns whose fault an error is that has the class that classify says.
func faultOf(err error, classify backoff.Classifier) fault.Fault {
	r := backoff.Policy{Classify: classify}.Decide(1, err).Result()
	return fault.Of(r.NotSent, r.Canceled, r.TimedOut, r.Failed, evidence.Class(r.Class))
}

// throttled reports whether the service throttled the call that ended with err.
func (s *Service) throttled(err error) bool {
	if gave, ok := errtree.As[*backoff.Error](err); ok {
		if err = gave.Last; err == nil || gave.Class() == backoff.ClassThrottled {
			return err != nil
		}
	}
	return faultOf(err, s.Classify) == fault.Throttled
}
