package backofftest

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/gobackoff/backoff"
)

// checkPace returns what is wrong with a budget's Pace.
func checkPace(open func() backoff.Budget) error {
	alone, err := lineOf(open, 1, askedRetries, retry(time.Now()))
	err = cmp.Or(err, checkLeaving(open)) // before what depends on how callers take turns
	if err != nil {
		return err
	}
	crowded, err := lineOf(open, 20, askedRetries, retry(time.Now()))
	return mistake(err, crowded.to < alone.from, "20 callers at a time are paced less than one: looking and taking must be one step")
}

// checkLeaving compares how long a line is after an attempt has left it in
// several ways.
func checkLeaving(open func() backoff.Budget) error {
	once, err := lineAfter(open, 1, 1)
	for _, way := range []struct {
		paces, dones int
		wrong        string
	}{
		{3, 1, "Pace that is called again takes more"},
		{1, 3, "a second Done gives back what was given back before, if Pace has taken it"},
		{0, 3, "Done gives back what Pace would have taken"},
	} {
		line, wrong := lineAfter(open, way.paces, way.dones)
		err = cmp.Or(err, mistake(wrong, line.from > once.to || line.to < once.from, way.wrong))
	}
	return err
}

// A span is how long a line was in the beginning, as far as that is known: time
// passes while one asks.
type span struct{ from, to time.Duration }

// since returns the span of a line that ends after wait. The budget was opened
// after began: its line may begin then. The millisecond is for what budgets round.
func since(began time.Time, wait time.Duration) span {
	return span{wait, wait + time.Since(began) + time.Millisecond}
}

// lineOf returns the span of the line that callers make who call a new budget at once,
// and together ask for some attempts like a.
func lineOf(open func() backoff.Budget, callers, attempts int, a backoff.Attempt) (span, error) {
	began := time.Now()
	b, waits := open(), make([]time.Duration, callers)
	err := concurrently(callers, func(i int) (err error) {
		waits[i], err = keepPace(b, attempts/callers, a)
		return err
	})
	return since(began, slices.Max(waits)), err
}

// lineAfter makes a line, lets an attempt that waits for a reason of its own
// leave it, and returns how long the line is after that. The attempt calls Pace and
// then Done, each as often as it is told.
func lineAfter(open func() backoff.Budget, paces, dones int) (span, error) {
	began := time.Now()
	b := open()
	_, err := keepPace(b, 20, retry(time.Now()))
	if t, _, ok := b.Reserve(waiting(retry(time.Now()))); ok {
		for range paces {
			t, _, _ = b.Pace(t)
		}
		for range dones {
			b.Done(t, notSent)
		}
	}
	wait, again := keepPace(b, 1, retry(time.Now()))
	return since(began, wait), cmp.Or(err, again)
}

// keepPace asks for attempts like a that have waited for a reason of their own,
// and whose ends it never reports. It returns how long the last one that was
// granted has to wait now.
func keepPace(b backoff.Budget, attempts int, a backoff.Attempt) (last time.Duration, err error) {
	for range attempts {
		t, asked, ok := b.Reserve(waiting(a))
		if !ok {
			continue
		}
		t, wait, ok := b.Pace(t)
		if min(asked, wait) < 0 {
			return 0, errNegative
		}
		if !ok {
			b.Done(t, notSent)
			continue
		}
		if _, longer, ok := b.Pace(t); ok && longer > wait {
			return 0, errors.New("asks for a longer wait when Pace is called again: no attempt would ever be made")
		}
		last = wait
	}
	return last, nil
}

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
func checkHeld(open func() backoff.Budget) (err error) {
	for _, a := range []backoff.Attempt{first(), retry(time.Now())} {
		alone, wrong := lineOf(open, 1, 20, a)
		began, h := time.Now(), new(holder)
		for _, budgets := range [][]backoff.Budget{{open(), h}, {h, open()}} {
			last := h.release(backoff.JoinBudgets(budgets...), 20, a)
			wrong = mistake(wrong, since(began, last).to < alone.from, "attempts that another budget held off are paced less than those that waited by themselves")
		}
		err = cmp.Or(err, wrong)
	}
	return err
}

// A holder is a budget that makes all attempts wait while it holds.
type holder struct {
	backoff.BudgetDefaults

	wait time.Duration
}

// Hold tells JoinBudgets what a holder is.
func (h *holder) Hold(d time.Duration) { h.wait = d }

// Reserve implements [backoff.Budget].
func (h *holder) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return h.Pace(backoff.Ticket{})
}

// Pace implements [backoff.Budget].
func (h *holder) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	return t, h.wait, true
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
