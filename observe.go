package backoff

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// An EventKind says what happened.
type EventKind uint8

const (
	// EventRetry: an attempt failed and another one follows after Wait.
	EventRetry EventKind = iota
	// EventGiveUp: the call ended without success, for Reason.
	EventGiveUp
	// EventSuccess: the call succeeded, at the attempt Attempt, or after as many of a [Hedge].
	EventSuccess
	// EventReconnect: a run under [Policy.Supervise] ended and another one follows after Wait.
	EventReconnect
	// EventRefused: a [Breaker] refused a call (ReasonOpen), or a [Budget] (ReasonBudget)
	// something that the call goes on without: a hedge, or for now, a run under
	// [Policy.Supervise]. Where a budget's refusal ends the call, there is an EventGiveUp instead.
	EventRefused
	// EventHedgeWon: a hedge that was sent had the result of the call.
	EventHedgeWon
	// EventHedgeLost: a hedge that was sent had not; it failed, or another attempt was first.
	EventHedgeLost
	// EventTransition: a breaker changed its state, as Transition says.
	EventTransition
)

// String returns the name of the kind in lower case.
func (k EventKind) String() string {
	if k > EventTransition {
		return "unknown"
	}
	return [...]string{"retry", "give up", "success", "reconnect", "refused", "hedge won", "hedge lost", "transition"}[k]
}

// An Event tells what a policy, a hedge or a breaker did. Fields that do not apply are
// zero.
//
// One attempt has ended where Kind is EventRetry, EventReconnect, EventSuccess, EventHedgeWon
// or EventHedgeLost, or EventGiveUp with an Attempt and not Waiting. So attempts are
// counted without remembering anything of a call.
type Event struct {
	Kind        EventKind
	Class       Class         // of the attempt's error
	Reason      Reason        // why the call ended, or was refused
	Waiting     bool          // the call was given up between two attempts: the one last announced was not made
	Name        string        // of the policy, hedge or breaker
	Attempt     int           // the attempt that just ended, from 1, since the call or its last Progress began; 0 if none was made
	MaxAttempts int           // the limit; negative if there is none
	Err         error         // that the attempt ended with; the policy's own if it is invalid
	Delay       time.Duration // what the schedule says, before jitter
	Wait        time.Duration // what will be slept
	Slept       time.Duration // what was slept before the attempt
	RetryAfter  time.Duration // what the server asked for
	Elapsed     time.Duration // since the call began, counted as in [Error]
	Transition  *Transition   // of a breaker; not to be changed
	// Header is what came with the error: the response's headers, where Err or an error
	// in its tree has a method ResponseHeader() map[string][]string, as those of
	// backoffhttp do. Not to be changed.
	Header map[string][]string
}

// An Observer is told of every retry and of the end of every call, once each, on the
// goroutine of the call and with its context; of hedges when their call is over; of the changes
// of a breaker in order, one at a time, with the context of the call that caused them, which may
// have ended, or context.Background. It must be safe for concurrent use
// and should return soon, for the call waits. If it panics, the call goes on, and the first
// such panic of the program is reported on standard error.
//
// A first attempt that succeeds costs a call of the Observer, and no allocation.
type Observer func(context.Context, Event)

// Observers returns an [Observer] that tells each of observers, in order; one that
// panics does not keep it from the others. nil ones are left out. It returns nil if
// there is none, so that nothing is spent on telling nobody.
func JoinObservers(observers ...Observer) Observer {
	var all []Observer
	for _, o := range observers {
		if o != nil {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return func(ctx context.Context, e Event) {
		for _, o := range all {
			o.tell(ctx, &e)
		}
	}
}

// tell calls o, and contains its panic: an observer must not fail the call it
// observes.
func (o Observer) tell(ctx context.Context, e *Event) {
	defer contain()
	o(ctx, *e)
}

func contain() {
	if v := recover(); v != nil {
		panicked.Do(func() { reportPanic(v) })
	}
}

// headerOf returns the headers of the response that an error stands for.
func headerOf(err error) map[string][]string {
	if answer, ok := errors.AsType[interface {
		error
		ResponseHeader() map[string][]string
	}](err); ok {
		return answer.ResponseHeader()
	}
	return nil
}

var panicked sync.Once

func reportPanic(v any) {
	text := "of a type of its own"
	switch v := v.(type) {
	case error:
		text = v.Error()
	case string:
		text = v
	}
	os.Stderr.WriteString("backoff: an observer panicked, which is reported only once: " + text + "\n" + string(debug.Stack()))
}
