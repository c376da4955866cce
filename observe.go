package backoff

import (
	"context"
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
	// EventSuccess: the call succeeded, at the attempt Attempt.
	EventSuccess
)

// String returns the name of the kind in lower case.
func (k EventKind) String() string {
	if k > EventSuccess {
		return "unknown"
	}
	return [...]string{"retry", "give up", "success"}[k]
}

// An Event tells what a policy did. Fields that do not apply are zero.
type Event struct {
	Kind        EventKind
	Name        string        // of the policy
	Attempt     int           // the attempt that just ended, from 1, since the call or its last Progress began; 0 if none was made
	MaxAttempts int           // the limit; negative if there is none
	Err         error         // that the attempt ended with; the policy's own if it is invalid
	Class       Class         // of the attempt's error
	Reason      Reason        // why the call ended
	Delay       time.Duration // what the schedule says, before jitter
	Wait        time.Duration // what will be slept
	Slept       time.Duration // what was slept before the attempt
	Hint        time.Duration // what the server asked for
	Elapsed     time.Duration // since the call began
	// Header is what came with the error: the response's headers, where Err or an error
	// in its tree has a method ResponseHeader() map[string][]string, as those of
	// backoffhttp do. Not to be changed.
	Header map[string][]string
}

// An Observer is told of every retry and of the end of every call, once each, on the
// goroutine of the call and with its context. It must be safe for concurrent use
// and should return soon, for the call waits. If it panics, the call goes on, and the first
// such panic of the program is reported on standard error.
type Observer func(context.Context, Event)

// Observers returns an [Observer] that tells each of observers, in order; one that
// panics does not keep it from the others. nil ones are left out. It returns nil if
// there is none, so that nothing is spent on telling nobody.
func Observers(observers ...Observer) Observer {
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
			o.tell(ctx, e)
		}
	}
}

// tell calls o, and contains its panic: an observer must not fail the call it
// observes.
func (o Observer) tell(ctx context.Context, e Event) {
	defer func() {
		if v := recover(); v != nil {
			panicked.Do(func() { reportPanic(v) })
		}
	}()
	o(ctx, e)
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
