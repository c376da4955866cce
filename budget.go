package backoff

import "time"

// A Kind says which of the attempts of a call an [Attempt] is.
type Kind uint8

const (
	// KindFirst is the first attempt of a call.
	KindFirst Kind = iota
	// KindRetry is any attempt that follows a failure.
	KindRetry
	// KindHedge runs beside an attempt that is slow.
	KindHedge
)

// An Attempt is what a [Budget] is asked to pay for.
type Attempt struct {
	Number int       // from 1
	Kind   Kind      // first, retry or hedge
	Class  Class     // of the failure before it
	Now    time.Time // the caller's reading of the clock
}

// An Outcome is how an attempt ended.
type Outcome uint8

const (
	// OutcomeSuccess: it returned nil.
	OutcomeSuccess Outcome = iota
	// OutcomeDefinitive: the server answered, with an error that retrying will not change.
	OutcomeDefinitive
	// OutcomeTransient: it failed in a way that may pass.
	OutcomeTransient
	// OutcomeThrottled: the server said "too much".
	OutcomeThrottled
	// OutcomeTimeout: the attempt's own timeout ended it.
	OutcomeTimeout
	// OutcomeCanceled: the caller ended it.
	OutcomeCanceled
	// OutcomeNotSent: it was granted and not made.
	OutcomeNotSent
)

// A Ticket is a budget's note to itself between Reserve and Done.
type Ticket uint64

// A Budget bounds what retries may cost a service, across calls.
//
// Reserve is asked before every attempt, the first included, and for a retry
// before the sleep that leads to it. It answers whether the attempt may be made,
// and after how long at the earliest. Done tells, once, what became of an attempt
// that Reserve granted.
//
// Both must be safe for concurrent use, and must not block. A budget must stay right if Done never comes, because
// an operation may hang, and if it comes twice.
type Budget interface {
	Reserve(a Attempt) (t Ticket, wait time.Duration, ok bool)
	Done(t Ticket, o Outcome)
}
