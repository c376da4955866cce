package backoff

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/errtree"
)

// An EventKind says what happened.
type EventKind uint8

const (
	// EventRetry: an attempt failed, and another one follows after Wait.
	EventRetry EventKind = iota
	// EventGiveUp: the call ended without success, for Reason.
	EventGiveUp
	// EventSuccess: the call succeeded at the attempt Attempt. For a hedged
	// call, Attempt is the number of attempts sent.
	EventSuccess
	// EventReconnect: a run under a [Supervisor] ended, and another one
	// follows after Wait.
	EventReconnect
	// EventRefused: a [Breaker] refused a call (ReasonOpen), or a [Budget]
	// refused something that the call goes on without (ReasonBudget): a hedge,
	// or for now a run under a [Supervisor]. A budget's refusal that ends
	// the call is an EventGiveUp instead. A policy that waits for a circuit
	// (see [OpenError]) reports each refusal once more, with the Wait until it
	// asks again.
	EventRefused
	// EventHedgeWon: a hedge had the result of the call.
	EventHedgeWon
	// EventHedgeLost: a hedge failed, or another attempt was first.
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

// An Event says what a policy, a hedge or a breaker did. Fields that do not
// apply are zero.
//
// An attempt has ended if Kind is EventRetry, EventReconnect, EventSuccess,
// EventHedgeWon or EventHedgeLost, or if it is EventGiveUp with an Attempt and
// not Waiting. So an observer counts attempts without remembering anything of a
// call.
type Event struct {
	Kind        EventKind
	Class       Class              // of the attempt's error
	Reason      Reason             // why the call ended or was refused; 0 if it goes on or succeeded
	Waiting     bool               // the call ended between two attempts; the retry last announced was not made
	Name        string             // of the policy, hedge or breaker
	Attempt     int                // the attempt that just ended, from 1, since the call or its last Progress began; 0 if none was made
	MaxAttempts int                // the limit, for the class of the last failure; negative if there is none
	Err         error              // of the attempt; the policy's own if it is invalid
	Delay       time.Duration      // what the schedule says, before jitter
	Wait        time.Duration      // what will be slept
	Slept       time.Duration      // what was slept before the attempt
	RetryAfter  time.Duration      // what the server asked for
	Elapsed     time.Duration      // since the call, or its last Progress, began
	Transition  *BreakerTransition // of a breaker; not to be changed
	// Header is the header of the response that came with the error, if Err or
	// an error in its tree has a method ResponseHeader() map[string][]string,
	// as the errors of backoffhttp have. Not to be changed.
	Header map[string][]string
}

// An Observer receives events, for logs, metrics or a callback on retry.
// [Policy] and [Breaker] have one, and so has what other packages offer.
//
// It is called once for every retry and for the end of every call, on the
// goroutine of the call and with its context. It is called for hedges when
// their call is over. It is called for a breaker's transitions in order, one
// at a time, with the context of the call that caused them, which may have
// ended, or with context.Background.
//
// An Observer must be safe for concurrent use, and should return soon, because
// the call waits. If it panics, the call goes on, and the first such panic of
// the program is reported on standard error.
//
// A first attempt that succeeds costs a call of the Observer, and no
// allocation.
type Observer func(context.Context, Event)

// JoinObservers returns an [Observer] that calls each of observers, in order.
// If one of them panics, it still calls the others. It leaves out nil
// observers, and returns nil if none is left, so that no events are built.
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
			o.notify(ctx, e)
		}
	}
}

// Notify calls o with e, for code that makes events of its own, and fills in
// the Header if e has none. If o panics, Notify recovers. A nil
// Observer gets nothing.
func (o Observer) Notify(ctx context.Context, e Event) {
	if o == nil {
		return
	}
	if e.Err != nil && e.Header == nil {
		e.Header = headerOf(e.Err)
	}
	o.notify(ctx, e)
}

// notify is Notify for an event that is complete.
func (o Observer) notify(ctx context.Context, e Event) {
	defer contain()
	o(ctx, e)
}

// contain recovers from a panic of an observer.
func contain() {
	if v := recover(); v != nil {
		panicked.Do(func() { reportPanic(v) })
	}
}

// headerOf returns the header of the response that an error stands for.
func headerOf(err error) (header map[string][]string) {
	errtree.Find(err, func(err error) bool {
		answer, ok := err.(interface{ ResponseHeader() map[string][]string })
		if ok {
			header = answer.ResponseHeader()
		}
		return ok
	})
	return header
}

var panicked sync.Once

// reportPanic writes a panic to standard error.
func reportPanic(v any) {
	text := "of a type of its own"
	defer func() {
		_ = recover() // of the value's own method
		stack := make([]byte, 16<<10)
		os.Stderr.WriteString("backoff: an observer panicked, which is reported only once: " + text + "\n" + string(stack[:runtime.Stack(stack, false)]))
	}()
	switch v := v.(type) {
	case error:
		text = v.Error()
	case string:
		text = v
	}
}
