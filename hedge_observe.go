package backoff

import "github.com/gobackoff/backoff/internal/clock"

// notify tells the Observer of a call that is over.
func (r *race) notify() {
	if r.hedge.Observer == nil {
		return
	}
	r.mu.Lock()
	sent, refused, broken := r.number, r.refused, r.broken
	end := r.outcome()
	r.mu.Unlock()
	for n := 1; n < sent; n++ {
		e := Event{Kind: EventHedgeLost, Attempt: n + 1, Delay: r.delay}
		if end.Kind == EventSuccess && n == int(r.winner) {
			e.Kind = EventHedgeWon
		}
		r.tell(e)
	}
	if refused {
		r.tell(Event{Kind: EventRefused, Reason: ReasonBudget})
	}
	if !broken {
		r.tell(end)
	}
}

// outcome is the event of the call's end.
func (r *race) outcome() Event {
	e := Event{Kind: EventSuccess, Attempt: r.number - r.unsent, Elapsed: clock.Now().Sub(r.began)}
	if r.err == nil {
		return e
	}
	e.Kind, e.Err, e.Class, e.RetryAfter, e.Reason = EventGiveUp, r.last, r.class, r.hint, ReasonPermanent
	if gave, ok := r.err.(*Error); ok {
		e.Reason = gave.Reason
	} else if r.number == 0 {
		e.Err, e.Class, e.Reason = r.err, ClassPermanent, ReasonInvalid
	}
	e.Header = headerOf(e.Err)
	return e
}

func (r *race) tell(e Event) {
	e.Name, e.MaxAttempts = r.hedge.Name, r.hedge.maxAttempts()
	r.hedge.Observer.tell(r.ctx, &e)
}
