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
	// EventSuccess: the call succeeded. Attempt is the number of its last
	// attempt, or of all attempts sent if the call was hedged.
	EventSuccess
	// EventReconnect: a run under a [Supervisor] ended, and another one
	// follows after Wait.
	EventReconnect
	// EventRefused: a [Breaker] refused a call (ReasonOpen), or a [Budget]
	// refused a hedge or the next run of a [Supervisor] (ReasonBudget). A
	// policy that waits for a circuit (see [OpenError]) reports each refusal
	// once more, with the Wait until it tries again.
	EventRefused
	// EventHedgeWon: the result of the call came from a hedge.
	EventHedgeWon
	// EventHedgeLost: a hedge failed, or the result came from another attempt.
	EventHedgeLost
	// EventTransition: a breaker changed its state, as Transition says.
	EventTransition
)

// String returns the name of the kind in lower case.
func (k EventKind) String() string {
	return [...]string{"retry", "give up", "success", "reconnect", "refused", "hedge won", "hedge lost", "transition", "unknown"}[min(k, EventTransition+1)]
}

// An Event says what a policy, a hedge or a breaker did. Fields that do not
// apply are zero.
//
// After an EventRetry the next attempt begins in Wait; Attempt has failed with
// Err. An EventGiveUp is the end of a call. It tells of a failure of its own only
// if Attempt is not 0 and Waiting is false.
type Event struct {
	Kind        EventKind
	Class       Class              // class of the attempt's error
	Reason      Reason             // why the call ended or was refused; 0 if it goes on or succeeded
	Waiting     bool               // whether the call ended before making the retry that was announced last
	Name        string             // name of the policy, hedge or breaker
	Attempt     int                // number of the attempt that ended, from 1, counted as by Error.Attempts; 0 for none
	MaxAttempts int                // limit for the class of the last failure; negative if there is none
	Err         error              // error of the attempt, or of an invalid policy
	Delay       time.Duration      // delay of the schedule, before jitter
	Wait        time.Duration      // time that will be slept
	Slept       time.Duration      // time slept before the attempt
	RetryAfter  time.Duration      // wait that the server asked for
	Elapsed     time.Duration      // time since the start of the call, or since Run.Progress
	Transition  *BreakerTransition // transition of a breaker; not to be changed

	// Header of the response that came with Err; not to be changed. An error in
	// the tree of Err has it, by a method ResponseHeader() map[string][]string.
	Header map[string][]string
}

// An Observer receives events, for logs, metrics or a callback on retry. It is
// called for every retry and for the end of every call, on the goroutine of the
// call and with its context. Events of hedges come when their call is over. The
// transitions of a breaker come in order, one at a time, with the context of
// the call that caused them, or with context.Background if none did.
//
// An Observer must be safe for concurrent use, and should return soon, because
// the call waits. If it panics, the call goes on, and the first such panic of
// the program is reported on standard error.
type Observer func(context.Context, Event)

// JoinObservers returns an [Observer] that calls each of observers, in order, even
// if one of them panics. It leaves out nil observers, and returns nil if none is
// left.
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

// Notify calls o with e, for code that makes events of its own. It fills in the
// Header if e has none. If o panics, Notify recovers. A nil Observer gets nothing.
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

// headerOf returns the header of the response that came with an error.
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

// notifyWait tells the observer of a failure and the retry to come, or of a
// refusal that the call waits for. It is not inlined, nor is notifyGiveUp,
// because an Event is large, and the stack of a call that waits or is cancelled
// has no room for one.
//
//go:noinline
func (r *Run) notifyWait(v *verdict, delay, wait time.Duration) {
	e := Event{Kind: EventRetry, Err: r.draft.Last, Class: v.class, Delay: delay, Wait: wait, RetryAfter: r.draft.failure.hint.after}
	if v.open != nil {
		e.Kind, e.Reason, e.Err, e.Class = EventRefused, ReasonOpen, v.open, ClassUnknown
	}
	r.notify(&e)
}

// notifyGiveUp tells the observer that the call failed.
//
//go:noinline
func (r *Run) notifyGiveUp(why Reason, c Class, err error) {
	e := &Event{Kind: EventGiveUp, Reason: why, Err: r.draft.Last, Class: c, Waiting: r.number > 0 && r.phase == waiting}
	if gave, ok := err.(*Error); ok {
		e.RetryAfter = gave.RetryAfter()
	} else if why == ReasonInvalid {
		e.Err = err
	}
	r.notify(e)
}

// notify completes an event and tells the observer.
func (r *Run) notify(e *Event) {
	e.Name = r.policy.Name
	e.Attempt = r.made()
	e.Slept = r.slept
	e.MaxAttempts = r.limit
	e.Elapsed = r.age()
	r.policy.Observer.Notify(r.ctx, *e)
}
