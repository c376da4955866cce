package backoff

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
)

// The sentinels that the errors of this package match by errors.Is. An error of
// a call that the context ended matches the context's error and its cause
// instead. All of them also match the operation's last error.
var (
	// ErrExhausted is matched when MaxAttempts, MaxElapsed or MaxRetryAfter
	// ended the call.
	ErrExhausted = errors.New("backoff: attempts exhausted")
	// ErrBudget is matched when the [Budget] refused.
	ErrBudget = errors.New("backoff: budget refused")
	// ErrOpen is matched when a [Breaker] refused, by an [OpenError].
	ErrOpen = errors.New("backoff: circuit open")
	// ErrAttemptTimeout is the cause of an attempt's context that the policy's
	// AttemptTimeout ended. It is matched if the last attempt ended that way.
	ErrAttemptTimeout = errors.New("backoff: attempt timeout")
)

// A Reason says why a call ended.
type Reason uint8

const (
	// ReasonSuccess: the operation returned nil.
	ReasonSuccess Reason = iota
	// ReasonPermanent: the error was definitive. Do returns it as the
	// operation returned it, or marked (see [Policy.Do]), and
	// [Policy.Supervise] returns it in an Error.
	ReasonPermanent
	// ReasonAttempts: as many attempts were made as MaxAttempts or ByClass
	// allows after the last failure.
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
	// ReasonOverloaded: the server said not to retry.
	ReasonOverloaded
	// ReasonAbandoned: the loop over [Run.Attempts] was left after Run.Fail.
	// The error is returned as it is.
	ReasonAbandoned
	// ReasonBudget: the budget refused the attempt.
	ReasonBudget
	// ReasonOpen: a [Breaker] inside the policy is open, or, in an event of
	// package backoffhttp, that of the host.
	ReasonOpen
	// ReasonInvalid: the policy is invalid; no attempt was made, or one that
	// failed, if it is ByClass that is invalid.
	ReasonInvalid
)

var reasonNames = [...]string{"success", "permanent", "attempts", "elapsed", "retry after", "deadline",
	"canceled", "not idempotent", "overloaded", "abandoned", "budget", "open", "invalid"}

// String returns the name of the reason in lower case.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// Error is what a policy returns when it gives up. By errors.Is and errors.As
// it matches the operation's last error with its whole tree, and the sentinel
// of the reason: [ErrExhausted], [ErrBudget], [ErrOpen], or the context's error
// and cause.
//
// If the end of the context cut the last attempt, and one before it had
// failed, Last is the error of that one, because it says more. By errors.Is
// and errors.As the Error matches both. An attempt whose error is marked
// [Permanent] or ClassOverloaded has ended by itself and does not count as
// cut.
//
// An Error is permanent to every policy around the one that gave up, except to
// [Policy.Supervise], so nested loops do not multiply. It says so to the loops
// of other libraries by its methods. If the policy was limited to one attempt,
// the Error is not permanent: such a policy leaves retrying to others.
//
// All this holds if the layers between keep the Error in the tree of theirs, as
// %w does. If one keeps its text only, a policy knows it where the attempt has
// a context of its own, because of an attempt timeout or a key that the policy
// made, and the calls inside were made under that context. Of the calls inside
// one attempt it remembers the last seven that gave up. If nothing of the Error
// is left, or no attempt has such a context, the loops multiply.
//
// Elapsed counts from the start of the call if the policy has a MaxElapsed, an
// attempt timeout, an Idempotency, or a Budget other than [RetryBudget].
// Otherwise the policy reads the clock only once there is something to wait
// for, because to read it earlier would cost more than the rest of a successful
// call. Elapsed then leaves out the first attempt, and is 0 if that was the
// only one.
type Error struct {
	_ [0]func() // no unkeyed literals, no ==

	Name     string        // of the policy
	Attempts int           // made since the call began or its last Progress, the first included
	Elapsed  time.Duration // since the same moment, or since the first wait (see Error)
	Reason   Reason        // why the policy gave up
	Last     error         // the operation's last error; nil if no attempt was made

	retryAfter time.Duration   // what the server asked for by Last; 0 if it did not
	open       *OpenError      // the refusal that ended the call
	ctx        context.Context // of the call, if it ended the call, and nil otherwise
	cut        error           // of the attempt after Last, which the end of the context cut; what is invalid, for ReasonInvalid
	early      bool            // the call ended before a wait that would have passed a limit
	timedOut   bool            // AttemptTimeout ended the last attempt
	single     bool            // the policy allowed one attempt only, and one was made
	hedged     bool            // a Hedge gave up
	class      Class           // of the failure on which the policy gave up, for a Patience
	repeat     *repeat         // what a Patience must know to repeat the call; nil if nothing
	waited     string          // for how long a Patience waited for the service; "" if none did
}

// ending is what the error of a call tells of its attempts.
type ending struct {
	_ [0]func() // no ==, which would cost every program a function

	ctx        context.Context // of the call
	last       error           // of the last attempt that the context did not cut, or of the first
	cut        error           // of the attempt after that one, or what is invalid
	refused    *OpenError      // by which a breaker refused an attempt
	retryAfter time.Duration   // what the server asked for by last
}

// newError returns the Error of a call that made so many attempts and gave up.
func (e *ending) newError(name string, attempts, maxAttempts int, why Reason) *Error {
	gave := &Error{
		Name:       name,
		Attempts:   attempts,
		Reason:     why,
		Last:       e.last,
		retryAfter: e.retryAfter,
		open:       e.refused,
		cut:        e.cut,
		single:     maxAttempts == 1 && attempts == 1, // there may have been more, before a failure of another class
	}
	if why == ReasonDeadline || why == ReasonCanceled {
		gave.ctx = e.ctx
	}
	return gave
}

// Error returns one line: how many attempts were made, why there was no
// further one, the field that sets that limit, and the last error. Its only
// number is that of the attempts, so that equal failures have equal texts.
func (e *Error) Error() string {
	if e == nil {
		return nilError
	}
	what := e.tried() + e.why()
	if e.timedOut {
		what += ": attempt timed out"
	}
	return line(e.Name, what, e.Last)
}

// prefix is what the errors of this package begin with.
const prefix = "backoff: "

// line is the text of an error, around that of the last one. If that is an error
// of this package too, there is one prefix for both. So it is with the cause of
// a context.
func line(name, what string, last error) string {
	if name != "" {
		what = name + ": " + what
	}
	if last != nil {
		what += ": " + lineOf(last)
	}
	return prefix + what
}

// lineOf is the text of an error as part of another one.
func lineOf(err error) string {
	return strings.ReplaceAll(strings.TrimPrefix(err.Error(), prefix), "\n", "; ")
}

// tried says how many attempts were made.
func (e *Error) tried() string {
	if e.waited != "" {
		return e.waited
	}
	switch e.Attempts {
	case 0:
		return "not started"
	case 1:
		return "gave up after 1 attempt"
	}
	return "gave up after " + strconv.Itoa(e.Attempts) + " attempts"
}

// why explains the reasons that the number of attempts does not.
func (e *Error) why() string {
	switch e.Reason {
	case ReasonPermanent:
		return ": permanent"
	case ReasonElapsed:
		return ": out of time (Policy.MaxElapsed)"
	case ReasonRetryAfter:
		return e.limitedBy("the server asks for a longer wait", "Policy.MaxRetryAfter", "Hedge.MaxRetryAfter")
	case ReasonDeadline, ReasonCanceled:
		return e.whyEnded()
	case ReasonNotIdempotent:
		return e.limitedBy("not idempotent", "Policy.Idempotency", "Hedge.Idempotency")
	case ReasonOverloaded:
		return ": the server says not to retry"
	case ReasonBudget:
		return e.limitedBy("budget refused", "Policy.Budget", "Hedge.Budget or MaxExtraLoad")
	case ReasonInvalid:
		if e.cut != nil {
			return ": " + lineOf(e.cut)
		}
	case ReasonOpen:
		return ": circuit open"
	}
	return ""
}

// limitedBy names what ended the call, and the field of a policy or of a hedge
// to change.
func (e *Error) limitedBy(what, policyField, hedgeField string) string {
	if e.hedged {
		policyField = hedgeField
	}
	return ": " + what + " (" + policyField + ")"
}

// whyEnded explains the end of the context, unless the last error does.
func (e *Error) whyEnded() string {
	text := context.DeadlineExceeded.Error()
	switch {
	case e.Reason == ReasonCanceled:
		text = e.cause()
	case e.early:
		text = "the next wait would pass the deadline"
	}
	if e.Last != nil && lineOf(e.Last) == text {
		return ""
	}
	return ": " + text
}

// cause returns why the context was cancelled.
func (e *Error) cause() string {
	if e.ctx == nil {
		return context.Canceled.Error()
	}
	return lineOf(context.Cause(e.ctx))
}

// Unwrap returns the errors of the reason, the operation's last error, and that
// of the attempt which the end of the context cut.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	reason, cause := e.reasonErrors()
	var timeout error
	if e.timedOut {
		timeout = ErrAttemptTimeout
	}
	all := make([]error, 0, 5)
	for _, err := range [...]error{reason, cause, timeout, e.Last, e.cut} {
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
		if e.open != nil {
			cause = e.open
		}
		return ErrOpen, cause
	case ReasonDeadline, ReasonCanceled:
		return e.contextErrors()
	}
	return nil, nil
}

// contextErrors returns the context's error and, if it differs, its cause. The
// context is asked here, and not when the call ends, because Cause takes a lock
// for which thousands of calls that are cancelled together would queue.
func (e *Error) contextErrors() (err, cause error) {
	switch {
	case e.ctx == nil && e.Reason == ReasonCanceled: // not made by this package
		return context.Canceled, nil
	case e.ctx == nil, e.early, e.ctx.Err() == nil: // before the deadline, whatever became of ctx since
		return context.DeadlineExceeded, nil
	}
	err, cause = e.ctx.Err(), context.Cause(e.ctx)
	if cause == err {
		cause = nil
	}
	return err, cause
}

// RetryAfter returns how long the server asked to wait when it failed with Last,
// or, where a [Breaker] refused the next attempt, for how long it refuses calls.
// It is 0 if that is not known.
func (e *Error) RetryAfter() time.Duration {
	if e == nil {
		return 0
	}
	return e.retryAfter
}

// final reports whether the loops around this one must not retry.
func (e *Error) final() bool { return e == nil || !e.single || e.Reason != ReasonAttempts }

// RetryableError reports whether a loop of another library may retry; the AWS
// SDK asks for it. It is true only if the policy was limited to one attempt
// and made one.
func (e *Error) RetryableError() bool { return !e.final() }

// NonRetriable says to the loops of the Azure SDK not to retry.
func (e *Error) NonRetriable() {}

// OpenError is the error of a call that a [Breaker] refused. By errors.Is it
// matches ErrOpen, and nothing else: the failure that opened the circuit
// happened to another call. It is in Last and in the text.
//
// It is permanent to every policy of this package, except to one under
// [Policy.Supervise], and its methods say so to the loops of other libraries.
// To wait for the service instead, put a [Patience] around all layers. An
// operation inside a policy can also return WithClass(err, ClassRetryable). Then
// the policy waits until the circuit may be tried again, which is no attempt and
// costs the budget nothing. If the breaker cannot say when that is, the policy
// asks again and again, after waits that grow. From one attempt to the next it
// waits no longer than MaxElapsed, or, if that is not set, MaxRetryAfter.
type OpenError struct {
	_ [0]func() // no unkeyed literals, no ==

	Name  string // of the breaker
	State State  // of the circuit; closed: it admits calls again, but not all yet
	Last  error  // the failure that opened the circuit; nil if Trip or Force did

	until time.Time
}

// Error returns one line: which circuit is open, and the [Cause] of what
// opened it. RetryAfter returns for how long.
func (e *OpenError) Error() string {
	if e == nil {
		return nilError
	}
	state := [...]string{"circuit recovering", "circuit open", "circuit half-open"}[min(e.State, StateHalfOpen)]
	return line(e.Name, state, Cause(e.Last))
}

// Unwrap returns ErrOpen.
func (e *OpenError) Unwrap() error { return ErrOpen }

// RetryAfter returns for how long, from now, calls will be refused: until the
// open time expires, or until all calls are admitted again. It is 0 if that
// time has expired or is not known, as in ModeForcedOpen and while probes run.
func (e *OpenError) RetryAfter() time.Duration {
	if e == nil || e.until.IsZero() {
		return 0
	}
	return max(0, e.until.Sub(clock.Now()))
}

// RetryableError returns false, for the loops of the AWS SDK.
func (e *OpenError) RetryableError() bool { return false }

// NonRetriable marks the error as final for the loops of the Azure SDK.
func (e *OpenError) NonRetriable() {}

// nilError is the text of an error that is a nil pointer, as package fmt prints
// one.
const nilError = "<nil>"

// invalid is the error for a field that has a value it must not have.
func invalid(field, problem string) error { return Permanent(badfield.New(field, problem)) }

// negative is the error for a duration that must not be negative.
func negative(field string, d time.Duration) error { return Permanent(badfield.Negative(field, d)) }
