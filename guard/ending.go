package guard

import (
	"cmp"
	"context"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// An ending holds back that the policy of a call gave up, until the call does not wait any
// more. So its Observer hears once of the end of a call, however often it was made, and
// once of each attempt, numbered and timed through the call.
type ending struct {
	policy   backoff.Policy   // of the call, with hear
	observer backoff.Observer // that of the policy
	began    time.Time        // start of the call
	event    backoff.Event    // the last EventGiveUp
	held     bool
	waits    bool // the call has waited, or waits now
	made     int  // attempts before the present turn
	most     int  // attempts of a call that has waited; 0 before that
}

// observed returns p with an Observer that waits for the end of the call, which began then,
// if p has an Observer.
func observed(p *backoff.Policy, began time.Time) (*backoff.Policy, *ending) {
	if p.Observer == nil {
		return nil, nil
	}
	e := &ending{policy: *p, observer: p.Observer, began: began}
	e.policy.Observer = e.hear
	return &e.policy, e
}

// hear is an Observer in place of that of the policy.
func (e *ending) hear(ctx context.Context, event backoff.Event) {
	none := event.Attempt == 0
	event.Attempt += e.made
	event.MaxAttempts = cmp.Or(e.most, event.MaxAttempts)
	if event.Kind == backoff.EventGiveUp {
		event.Waiting = event.Waiting || none && e.made > 0
		e.event, e.held = event, true
		return
	}
	e.notify(ctx, event)
}

// notify tells the Observer of an event. A policy knows only how long its own turn took.
func (e *ending) notify(ctx context.Context, event backoff.Event) {
	if e.waits {
		event.Elapsed = clock.Real().Sub(e.began)
	}
	e.observer.Notify(ctx, event)
}

// goesOn tells the Observer that the call waits for another attempt.
func (e *ending) goesOn(ctx context.Context) {
	if e == nil {
		return
	}
	e.waits = true
	if !e.held || e.event.Attempt == 0 || e.event.Waiting {
		return
	}
	retry := e.event
	retry.Kind, retry.Reason = backoff.EventRetry, 0
	e.notify(ctx, retry)
	e.event.Waiting, e.made = true, e.event.Attempt
}

// tell tells the Observer that the call ended with err.
func (e *ending) tell(ctx context.Context, err error) {
	if e == nil || !e.held {
		return
	}
	if gave, ok := err.(*backoff.Error); ok { // event.Err is that of the last attempt
		e.event.Reason, e.event.Attempt = gave.Reason, gave.Attempts
	}
	e.notify(ctx, e.event)
}
