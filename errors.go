package backoff

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/evidence"
)

// Sentinels for errors.Is. If the context ended a call, the error of the call
// matches the context's error and cause instead. Other reasons have no
// sentinel: see Error.Reason. Every [*Error] also matches the operation's last
// error.
var (
	// ErrExhausted is matched when MaxAttempts, MaxElapsed or MaxRetryAfter
	// ended the call.
	ErrExhausted = errors.New("backoff: attempts exhausted")
	// ErrBudget is matched when the [Budget] refused.
	ErrBudget = errors.New("backoff: budget refused")
	// ErrOpen is matched when a [Breaker] refused (see [OpenError]).
	ErrOpen = errors.New("backoff: circuit open")
	// ErrAttemptTimeout is matched when AttemptTimeout ended the last attempt.
	// In that attempt, context.Cause returns it.
	ErrAttemptTimeout = evidence.ErrAttemptTimeout
)

// A Reason says why a call ended.
type Reason uint8

const (
	goOn Reason = iota // the call goes on, or succeeded
	// ReasonPermanent: the error is permanent. [Policy.Do] returns it as it is,
	// and a [Supervisor] in an Error.
	ReasonPermanent
	// ReasonAttempts: MaxAttempts, or that of ByClass, is reached.
	ReasonAttempts
	// ReasonElapsed: the next wait would have passed MaxElapsed, or left the
	// next attempt no time.
	ReasonElapsed
	// ReasonRetryAfter: the server asked for a wait beyond MaxRetryAfter.
	ReasonRetryAfter
	// ReasonDeadline: the context's deadline passed, or would have during the
	// next wait.
	ReasonDeadline
	// ReasonCanceled: the context was cancelled.
	ReasonCanceled
	// ReasonNotIdempotent: the operation must not be sent again.
	ReasonNotIdempotent
	// ReasonOverloaded: the failure is of ClassOverloaded.
	ReasonOverloaded
	// ReasonAbandoned: the loop over [Run.Attempts] was left after Run.Fail.
	// The error is returned as it is.
	ReasonAbandoned
	// ReasonBudget: the budget refused the attempt.
	ReasonBudget
	// ReasonOpen: a [Breaker] inside the policy refused the attempt. In an
	// event of package backoffhttp it may also be that of the host.
	ReasonOpen
	// ReasonInvalid: the policy is invalid, or a method of a [Run] was called
	// out of turn.
	ReasonInvalid
)

var reasonNames = [...]string{"success", "permanent", "attempts", "elapsed", "retry after", "deadline",
	"canceled", "not idempotent", "overloaded", "abandoned", "budget", "open", "invalid", "unknown"}

// String returns the name of the reason in lower case.
func (r Reason) String() string { return reasonNames[min(int(r), len(reasonNames)-1)] }

// Error is what a policy returns when it gives up. By errors.Is and errors.As
// it matches the last error of the operation with its whole tree, and the
// sentinel of the reason, if that has one: [ErrExhausted], [ErrBudget],
// [ErrOpen], or the context's error and cause.
//
// An Error is permanent to every policy around the one that gave up, except to
// a [Supervisor]. Its methods say so to the loops of other libraries. It is not
// permanent if the policy was limited to one attempt: such a policy leaves
// retries to others. Layers between must wrap the Error with %w. With %v, which
// keeps its text only, outer policies retry.
//
// A program may also return an Error as a literal. Its Reason then decides
// which sentinel it matches.
type Error struct {
	_ [0]func() // no unkeyed literals, no ==

	Name     string // name of the policy
	Attempts int    // attempts of the call, the first included; after Run.Progress only those since then
	Reason   Reason // why the policy gave up
	Last     error  // last error of the operation; nil if no attempt was made
	Note     string // remark at the end of the text, such as what to change; "" for none

	// Error of an attempt that the end of the context interrupted. It is nil if
	// there was none, or if it was the first: then Last has its error. The
	// Error matches it, too. An attempt whose error is marked [Permanent] or
	// ClassOverloaded does not count as interrupted.
	Interrupted error

	failure       failure // failure on which the policy gave up, with what the server asked for by Last
	ended         error   // error of the context, if it ended the call
	cause         error   // cause of that context's end
	invalid       error   // error of Validate
	early         bool    // whether the call ended before the wait for its next attempt
	single        bool    // whether the policy allowed one attempt only, and one was made
	mustNotRepeat bool    // whether another call must not make the operation again
}

// note takes note of an attempt that failed. Its error becomes Last, with two
// exceptions after an earlier failure: that of an interrupted attempt becomes
// Interrupted, and the refusal of a breaker becomes neither.
func (e *Error) note(v *verdict, c count, interrupted bool) {
	e.failure.open, e.failure.timedOut = v.open, v.timedOut
	if interrupted && c.made() > 1 {
		e.Interrupted = v.err
		return
	}
	e.failure.hint = v.hint
	if v.open == nil || c.number == 1 {
		e.Last, e.failure.class, e.failure.said = v.err, v.class, v.said
	}
}

// endedBy keeps the errors of a context that ended the call.
func (e *Error) endedBy(ctx context.Context) {
	if ended := ctx.Err(); ended != nil && e.Reason == endOf(ended) {
		e.ended, e.cause = ended, errtree.CauseOf(ctx)
	}
}

// Error returns one line: the number of attempts, why there was no further one,
// the field that sets the limit, and the last error. It adds no other number, so equal
// failures have equal texts.
func (e *Error) Error() string {
	if e == nil {
		return nilError
	}
	what := e.tried() + e.why()
	if e.failure.timedOut {
		what += ": attempt timed out"
	}
	if e.Note != "" {
		what += "; " + e.Note
	}
	return line(e.Name, what, e.Last)
}

// prefix is what the errors of this package begin with.
const prefix = "backoff: "

// line is the text of an error, around that of the last one. An error of this
// package in it loses its prefix, so that the line has one.
func line(name, what string, last error) string {
	if name != "" { // which may be a stranger's key
		what = strings.ReplaceAll(name, "\n", " ") + ": " + what
	}
	if last != nil {
		what += ": " + lineOf(last)
	}
	return prefix + what
}

// lineOf is the text of an error as part of another one.
func lineOf(err error) string {
	text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), prefix), "\n"+prefix, "; ")
	return strings.ReplaceAll(text, "\n", "; ")
}

// tried says how many attempts were made.
func (e *Error) tried() string {
	switch e.Attempts {
	case 0:
		return "not started"
	case 1:
		return "gave up after 1 attempt"
	}
	return "gave up after " + strconv.Itoa(e.Attempts) + " attempts"
}

// why explains the reasons that the number of attempts does not, and names the
// field to change.
func (e *Error) why() string {
	var what, field string
	switch e.Reason {
	case ReasonPermanent:
		what = "permanent"
	case ReasonElapsed:
		what, field = "out of time", "MaxElapsed"
	case ReasonRetryAfter:
		what, field = "the server asks for a longer wait", "MaxRetryAfter"
	case ReasonDeadline, ReasonCanceled:
		what = e.whyEnded()
	case ReasonNotIdempotent:
		what, field = "not idempotent", "Idempotency"
	case ReasonOverloaded:
		what = "not to be retried"
	case ReasonBudget:
		what, field = "budget refused", "Budget"
	case ReasonOpen:
		what = "circuit open"
	case ReasonInvalid:
		if e.invalid != nil {
			what = lineOf(e.invalid)
		}
	}
	switch {
	case what == "":
		return ""
	case field == "":
		return ": " + what
	}
	return ": " + what + " (" + field + ")"
}

// whyEnded explains the end of the context, unless the last error does.
func (e *Error) whyEnded() string {
	text := context.DeadlineExceeded.Error()
	switch {
	case e.Reason == ReasonCanceled:
		text = lineOf(cmp.Or(e.cause, e.contextError()))
	case e.early && e.Attempts == 0 && e.Last == nil:
		text = "the Budget makes it wait until after the deadline"
	case e.early:
		text = "the next wait would pass the deadline"
	}
	if e.Last != nil && lineOf(e.Last) == text {
		return ""
	}
	return text
}

// ContextError returns the error of the context that ended the call, for ==:
// context.Canceled or context.DeadlineExceeded, unless the context has an error
// of its own. It is context.DeadlineExceeded also if the next wait would have
// passed the deadline. It is nil if the call ended for another reason, such as a Last
// that is permanent or of ClassOverloaded.
func (e *Error) ContextError() error {
	if e == nil || !e.failure.class.Retryable() && !errtree.Is(e.Last, e.contextError()) {
		return nil
	}
	return e.contextError()
}

// contextError is ContextError whatever Last is.
//
//go:noinline
func (e *Error) contextError() error {
	switch {
	case e.ended != nil:
		return e.ended
	case e.Reason == ReasonCanceled:
		return context.Canceled
	case e.Reason == ReasonDeadline:
		return context.DeadlineExceeded
	}
	return nil
}

// Unwrap returns the errors of the reason, Last and Interrupted.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	reason, cause := e.reasonErrors()
	var timeout error
	if e.failure.timedOut {
		timeout = ErrAttemptTimeout
	}
	all := make([]error, 0, 6)
	for _, err := range [...]error{reason, cause, timeout, e.Last, e.Interrupted, e.invalid} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// reasonErrors returns the errors that the reason matches, or nil.
func (e *Error) reasonErrors() (reason, cause error) {
	switch e.Reason {
	case ReasonAttempts, ReasonElapsed, ReasonRetryAfter:
		return ErrExhausted, nil
	case ReasonBudget:
		return ErrBudget, nil
	case ReasonOpen:
		if e.failure.open != nil {
			cause = e.failure.open
		}
		return ErrOpen, cause
	case ReasonDeadline, ReasonCanceled:
		return e.contextError(), e.cause
	}
	return nil, nil
}

// RetryAfter returns how long the server asked to wait when it failed with
// Last. If a [Breaker] refused the next attempt, it returns for how long that
// Breaker refuses calls. It is 0 if that is not known.
func (e *Error) RetryAfter() time.Duration {
	switch {
	case e == nil:
		return 0
	case e.failure.hint.after == 0 && e.Last != nil: // made as a literal, perhaps
		return judge(nil, e.Last).hint.after
	}
	return e.failure.hint.after
}

// Class returns the class of the failure on which the policy gave up, or
// ClassUnknown if there was none.
func (e *Error) Class() Class {
	if e == nil {
		return ClassUnknown
	}
	return e.failure.class
}

// Repeatable reports whether another call under the same context may make the
// operation again: the Idempotency of the policy allows it, and the policy made
// no key for this call alone. Reason and Class say whether that would help. If the
// policy is [NonIdempotent], false means that the operation may have had its effect.
func (e *Error) Repeatable() bool {
	return e != nil && !e.mustNotRepeat && e.Reason != ReasonNotIdempotent
}

// isFinal reports whether the loops around this one must not retry.
func (e *Error) isFinal() bool { return e == nil || !e.single || e.Reason != ReasonAttempts }

// RetryableError says to the loops of the AWS SDK whether to retry: only if the
// policy was limited to one attempt and made one.
func (e *Error) RetryableError() bool { return !e.isFinal() }

// NonRetriable says to the loops of the Azure SDK not to retry.
func (e *Error) NonRetriable() {}

// OpenError is the error of a call that a [Breaker] refused. By errors.Is it
// matches ErrOpen and nothing else, because its Last is the failure of another
// call.
//
// It is permanent to every policy, except to a [Supervisor]. Its methods say so
// to the loops of other libraries. A guard.Service waits for the service
// instead. So does a policy whose operation returns OfClass(err, ClassRetryable):
// for MaxElapsed at most, or MaxRetryAfter if that is not set. Such a wait is no
// attempt, and costs the budget nothing.
type OpenError struct {
	_ [0]func() // no unkeyed literals, no ==

	Name  string       // name of the breaker
	State BreakerState // state of the circuit; BreakerClosed while it admits some calls again, but not all
	Last  error        // failure that opened the circuit; nil if Trip or Force did

	until time.Time // end of the refusals; zero if not known
}

// Error returns one line: which circuit is open, and the [Cause] of Last.
func (e *OpenError) Error() string {
	if e == nil {
		return nilError
	}
	state := [...]string{"circuit recovering", "circuit open", "circuit half-open"}[min(e.State, BreakerHalfOpen)]
	return line(e.Name, state, Cause(e.Last))
}

// Unwrap returns ErrOpen.
func (e *OpenError) Unwrap() error { return ErrOpen }

// RetryAfter returns for how long, from now, calls will be refused: until the
// open time expires, or until all calls are admitted again. It is 0 if that
// time is over or not known, as in ModeForcedOpen and while probes run.
func (e *OpenError) RetryAfter() time.Duration {
	if e == nil || e.until.IsZero() {
		return 0
	}
	return max(0, e.until.Sub(clock.Now()))
}

// RetryableError says to the loops of the AWS SDK not to retry.
func (e *OpenError) RetryableError() bool { return false }

// NonRetriable says to the loops of the Azure SDK not to retry.
func (e *OpenError) NonRetriable() {}

// nilError is the text of an error that is a nil pointer, as package fmt prints
// one.
const nilError = "<nil>"

// invalid is the error for a field that has a value it must not have. Inlined,
// it would add 2 KiB to every program.
//
//go:noinline
func invalid(field, problem string) error { return Permanent(badfield.New(field, problem)) }

// join is errors.Join, which is large where it is inlined.
//
//go:noinline
func join(errs ...error) error { return errors.Join(errs...) }

// negative is the error for a duration that must not be negative.
func negative(field string, d time.Duration) error { return Permanent(badfield.Negative(field, d)) }
