package backoff

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gobackoff/backoff/internal/badfield"
)

// The sentinels that the errors of this package match by errors.Is. A call that the
// context ended matches the context's error and its cause instead, besides the
// operation's last error, which every one of them matches.
var (
	// ErrExhausted is matched when MaxAttempts, MaxElapsed or MaxRetryAfter ended the call.
	ErrExhausted = errors.New("backoff: attempts exhausted")
	// ErrBudget is matched when the [Budget] refused.
	ErrBudget = errors.New("backoff: budget refused")
	// ErrOpen is matched when a [Breaker] refused, by an [OpenError].
	ErrOpen = errors.New("backoff: circuit open")
	// ErrAttemptTimeout is the cause of an attempt's context when the policy's
	// AttemptTimeout ended it, and is matched when the last attempt ended that way.
	ErrAttemptTimeout = errors.New("backoff: attempt timeout")
)

// A Reason says why a call ended.
type Reason uint8

const (
	// ReasonSuccess: the operation returned nil.
	ReasonSuccess Reason = iota
	// ReasonPermanent: the error was definitive. It is returned as it is.
	ReasonPermanent
	// ReasonAttempts: MaxAttempts were made.
	ReasonAttempts
	// ReasonElapsed: the next wait would have passed MaxElapsed.
	ReasonElapsed
	// ReasonRetryAfter: the server asked for a wait beyond MaxRetryAfter.
	ReasonRetryAfter
	// ReasonDeadline: the context's deadline passed, or would have during the next wait.
	ReasonDeadline
	// ReasonCanceled: the context was cancelled.
	ReasonCanceled
	// ReasonNotIdempotent: the operation must not be sent again.
	ReasonNotIdempotent
	// ReasonOverloaded: the server said not to retry.
	ReasonOverloaded
	// ReasonAbandoned: the loop over [Run.Attempts] was left after Run.Fail. The error
	// is returned as it is.
	ReasonAbandoned
	// ReasonBudget: the budget refused the attempt.
	ReasonBudget
	// ReasonOpen: a [Breaker] inside the policy is open.
	ReasonOpen
	// ReasonInvalid: the policy cannot be obeyed; no attempt was made.
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

// Error is what a policy returns when it gives up. It matches, by errors.Is and
// errors.As, the operation's last error with its whole tree, and the sentinel of
// the reason: [ErrExhausted], [ErrBudget], [ErrOpen], or the context's error and cause.
//
// It is permanent to every policy around this one, so that nested loops do not
// multiply, and says so to the loops of other libraries by method. Only where the
// policy was limited to one attempt it is not: such a policy leaves retrying to others.
//
// Elapsed counts from the beginning of the call if the policy has a MaxElapsed,
// AttemptTimeout, Idempotency, or a Budget other than [RetryBudget]. Without
// any of these a policy does not look at the clock until there is something to wait
// for, as that would cost more than the rest of a successful call; then Elapsed leaves
// out the first attempt, and is 0 where that was the only one.
type Error struct {
	Name     string        // of the policy
	Attempts int           // made, the first included, since the call began or its last Progress
	Elapsed  time.Duration // since then, or since its first wait (see below)
	Reason   Reason        // why it gave up
	Last     error         // the operation's last error; nil if no attempt was made

	retryAfter time.Duration   // what the server asked for last; 0 if nothing
	open       *OpenError      // that ended the call
	ctx        context.Context // of the call
	wait       time.Duration   // the one that was not begun
	limit      time.Duration   // that it would have passed
	timedOut   bool            // the last attempt, by AttemptTimeout
	single     bool            // the policy allowed one attempt only
}

// Error returns one line: what was tried, how often, how long, why it ended, and the
// last error.
func (e *Error) Error() string {
	text := "backoff: "
	if e.Name != "" {
		text += e.Name + ": "
	}
	text += e.tried() + e.why()
	if e.timedOut {
		text += "attempt timed out: "
	}
	if e.Last == nil {
		return text[:len(text)-len(": ")]
	}
	return text + strings.ReplaceAll(e.Last.Error(), "\n", "; ")
}

func (e *Error) tried() string {
	if e.Attempts == 0 {
		return "not started: "
	}
	text := "gave up after " + strconv.Itoa(e.Attempts) + " attempts"
	if e.Attempts == 1 {
		text = "gave up after 1 attempt"
	}
	if e.Elapsed > 0 { // 0 where the clock was not looked at
		text += " in " + round(e.Elapsed)
	}
	return text + ": "
}

// why explains the reasons that the number of attempts does not.
func (e *Error) why() string {
	switch e.Reason {
	case ReasonElapsed:
		return "the next wait of " + round(e.wait) + " would pass MaxElapsed " + e.limit.String() + ": "
	case ReasonRetryAfter:
		return "the server asks to wait " + e.retryAfter.String() + ", more than MaxRetryAfter " + e.limit.String() + ": "
	case ReasonDeadline:
		if e.wait > 0 {
			return "the next wait of " + round(e.wait) + " would pass the deadline in " + round(e.limit) + ": "
		}
		if e.Last == nil || e.Last.Error() != context.DeadlineExceeded.Error() {
			return "context deadline exceeded: "
		}
	case ReasonCanceled:
		if cause := e.cause(); e.Last == nil || e.Last.Error() != cause {
			return cause + ": "
		}
	case ReasonNotIdempotent:
		return "not idempotent, not sent again: "
	case ReasonOverloaded:
		return "the server says not to retry: "
	case ReasonBudget:
		return "budget refused: "
	case ReasonOpen:
		return "circuit open: "
	}
	return ""
}

func (e *Error) cause() string {
	if e.ctx == nil {
		return context.Canceled.Error()
	}
	return context.Cause(e.ctx).Error()
}

// round shortens d to what a reader can use.
func round(d time.Duration) string {
	switch {
	case d > time.Minute:
		d = d.Round(time.Second)
	case d > time.Second:
		d = d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		d = d.Round(10 * time.Microsecond)
	}
	return d.String()
}

// Unwrap returns the reason's errors and the operation's last.
func (e *Error) Unwrap() []error {
	all := make([]error, 0, 4)
	switch e.Reason {
	case ReasonAttempts, ReasonElapsed, ReasonRetryAfter:
		all = append(all, ErrExhausted)
	case ReasonBudget:
		all = append(all, ErrBudget)
	case ReasonOpen:
		all = append(all, ErrOpen)
		if e.open != nil {
			all = append(all, e.open)
		}
	case ReasonDeadline, ReasonCanceled:
		all = e.ended(all)
	}
	if e.timedOut {
		all = append(all, ErrAttemptTimeout)
	}
	if e.Last != nil {
		all = append(all, e.Last)
	}
	return all
}

// ended adds the context's error and, where it differs, its cause. The context is
// asked here and not when the call ends: Cause takes a lock, for which thousands
// of calls cancelled together would queue.
func (e *Error) ended(all []error) []error {
	if e.ctx == nil { // made by hand
		return append(all, map[Reason]error{ReasonDeadline: context.DeadlineExceeded, ReasonCanceled: context.Canceled}[e.Reason])
	}
	if e.wait > 0 { // given up before the deadline: what became of ctx since is another matter
		return append(all, context.DeadlineExceeded)
	}
	err := e.ctx.Err()
	all = append(all, err)
	if cause := context.Cause(e.ctx); cause != err {
		all = append(all, cause)
	}
	return all
}

// RetryAfter returns how long the server asked to wait when it failed the last
// attempt, or 0 if it did not say.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// final reports whether the loops around must not retry.
func (e *Error) final() bool { return !e.single || e.Reason != ReasonAttempts }

// RetryableError reports whether a loop outside this package may retry; by this
// the AWS SDK knows. It is true only where the policy was limited to one attempt.
func (e *Error) RetryableError() bool { return !e.final() }

// NonRetriable marks the error for the loops of the Azure SDK.
func (e *Error) NonRetriable() {}

func invalid(field, problem string) error {
	return Permanent(&badfield.Error{Field: field, Problem: problem})
}
