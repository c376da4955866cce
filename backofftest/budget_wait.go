package backofftest

import (
	"errors"
	"time"

	"github.com/gobackoff/backoff"
)

// checkWaiting returns what is wrong with how a budget treats attempts that only
// wait. Pace and Confirm are called when they go.
func checkWaiting(open func() backoff.Budget) error {
	alone, granted := firstGoes(open())
	b := open()
	for range askedRetries {
		b.Reserve(waiting(first()))
	}
	crowded, ok := firstGoes(b)
	switch {
	case granted && !ok:
		return errors.New("refuses a first attempt because of others that only wait: a place is taken in Confirm if Attempt.Paced is set")
	case crowded.from > alone.to:
		return errors.New("gives tokens to first attempts that only wait: a token is taken in Pace if Attempt.Paced is set and Attempt.Wait is longer than the wait for it")
	}
	return checkHeld(open)
}

// firstGoes asks for a first attempt, and returns how long it waits and whether
// it is granted.
func firstGoes(b backoff.Budget) (span, bool) {
	began := time.Now()
	t, wait, ok := b.Reserve(first())
	if ok && wait <= 0 {
		ok = b.Confirm(t)
	}
	return since(began, wait), ok
}

// first returns the Attempt of a first attempt by a loop.
func first() backoff.Attempt { return backoff.Attempt{Number: 1, Now: time.Now(), Paced: true} }

// waiting returns a for a call that waits for a reason of its own.
func waiting(a backoff.Attempt) backoff.Attempt {
	a.Wait, a.Paced = time.Hour, true
	return a
}

// checkHeld compares how a budget spaces attempts that wait for a reason of
// their own with how it spaces those that another budget made wait.
func checkHeld(open func() backoff.Budget) error {
	for _, a := range []backoff.Attempt{first(), retry(time.Now())} {
		began := time.Now()
		last, err := keepPace(open(), 20, a)
		if err != nil {
			return err
		}
		alone, h := since(began, last), new(holder)
		for _, join := range []func() backoff.Budget{
			func() backoff.Budget { return backoff.JoinBudgets(open(), h) },
			func() backoff.Budget { return backoff.JoinBudgets(h, open()) },
		} {
			began = time.Now()
			if last := h.release(join(), 20, a); since(began, last).to < alone.from {
				return errors.New("attempts that another budget held off are paced less than those that waited by themselves")
			}
		}
	}
	return nil
}

// A holder is a budget that makes all attempts wait while it holds.
type holder struct {
	backoff.BudgetDefaults

	holds bool
}

// Hold tells JoinBudgets what a holder is.
func (h *holder) Hold(d time.Duration) { h.holds = d > 0 }

// Reserve implements [backoff.Budget].
func (h *holder) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return h.Pace(backoff.Ticket{})
}

// Pace implements [backoff.Budget].
func (h *holder) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	if h.holds {
		return t, time.Hour, true
	}
	return t, 0, true
}

// release asks a budget of which h is a member for attempts like a. They wait for
// a reason of their own, are then held off, and let go together. It returns how
// long the last one has to wait then.
func (h *holder) release(b backoff.Budget, attempts int, a backoff.Attempt) (last time.Duration) {
	var tickets []backoff.Ticket
	for range attempts {
		if t, _, ok := b.Reserve(waiting(a)); ok {
			tickets = append(tickets, t)
		}
	}
	for _, d := range []time.Duration{time.Hour, 0} {
		h.Hold(d)
		for i, t := range tickets {
			if t, wait, ok := b.Pace(t); ok {
				tickets[i], last = t, wait
			}
		}
	}
	return last
}
