package poll

import (
	"context"

	"github.com/gobackoff/backoff"
)

// observe is the observer of the Run. To the caller's observer each check is a
// call, and a poll that fails is one more event at its end.
func (p *poll) observe(ctx context.Context, e backoff.Event) {
	e.MaxAttempts = p.limit(e.Class)
	e.Attempt = p.failed
	if p.inRow == 1 && !e.Waiting {
		e.Slept = 0 // the time between two checks is no backoff
	}
	switch {
	case e.Kind == backoff.EventSuccess:
		e.Attempt = p.inRow
	case p.last == pending && !e.Waiting:
		p.tell(ctx, backoff.Event{
			Kind:        backoff.EventSuccess,
			Name:        e.Name,
			Attempt:     p.inRow,
			MaxAttempts: e.MaxAttempts,
			Slept:       e.Slept,
			Elapsed:     e.Elapsed,
		})
		if e.Kind == backoff.EventRetry {
			return
		}
	}
	if e.Kind == backoff.EventGiveUp {
		e = p.gaveUp(e)
	}
	p.tell(ctx, e)
}

// gaveUp completes the event of a poll that failed.
func (p *poll) gaveUp(e backoff.Event) backoff.Event {
	if p.failed == 0 { // no retry was announced
		e.Waiting, e.Slept = false, 0
	}
	switch {
	case p.last == pending:
		e.Class = backoff.ClassUnknown
	case e.Reason == backoff.ReasonAbandoned: // by the poll, which counts the checks
		e.Reason = backoff.ReasonAttempts
		e.RetryAfter, _ = backoff.RetryAfterOf(e.Err)
	}
	return e
}
