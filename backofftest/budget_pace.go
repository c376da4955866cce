package backofftest

import (
	"errors"
	"slices"
	"time"

	"github.com/gobackoff/backoff"
)

// checkPace returns what is wrong with a budget's Pace.
func checkPace(open func() backoff.Budget) error {
	began := time.Now()
	last, err := keepPace(open(), askedRetries, retry(time.Now()))
	if err != nil {
		return err
	}
	alone := since(began, last)
	if err := checkLeaving(open); err != nil { // before what depends on how callers take turns
		return err
	}
	const callers = 20
	began = time.Now()
	shared, waits := open(), make([]time.Duration, callers)
	err = concurrently(callers, func(i int) (err error) {
		waits[i], err = keepPace(shared, askedRetries/callers, retry(time.Now()))
		return err
	})
	if err != nil {
		return err
	}
	if since(began, slices.Max(waits)).to < alone.from {
		return errors.New("20 callers at a time are paced less than one: looking and taking must be one step")
	}
	return nil
}

// checkLeaving compares how long a line is after an attempt has left it in
// several ways.
func checkLeaving(open func() backoff.Budget) error {
	once, err := lineAfter(open, 1, 1)
	if err != nil {
		return err
	}
	for _, way := range []struct {
		paces, dones int
		wrong        string
	}{
		{3, 1, "Pace that is called again takes more"},
		{1, 3, "a second Done gives back what was given back before, if Pace has taken it"},
		{0, 3, "Done gives back what Pace would have taken"},
	} {
		line, err := lineAfter(open, way.paces, way.dones)
		if err != nil {
			return err
		}
		if line.from > once.to || line.to < once.from {
			return errors.New(way.wrong)
		}
	}
	return nil
}

// A span is how long a line was in the beginning, as far as that is known: time
// passes while one asks.
type span struct{ from, to time.Duration }

// since returns the span of a line that ends after wait. The budget was opened
// after began: its line may begin then. The millisecond is for what budgets round.
func since(began time.Time, wait time.Duration) span {
	return span{wait, wait + time.Since(began) + time.Millisecond}
}

// lineAfter makes a line, lets an attempt that waits for a reason of its own
// leave it, and returns how long the line is after that. The attempt calls Pace and
// then Done, each as often as it is told.
func lineAfter(open func() backoff.Budget, paces, dones int) (span, error) {
	began := time.Now()
	b := open()
	if _, err := keepPace(b, 20, retry(time.Now())); err != nil {
		return span{}, err
	}
	if t, _, ok := b.Reserve(waiting(retry(time.Now()))); ok {
		for range paces {
			t, _, _ = b.Pace(t)
		}
		for range dones {
			b.Done(t, notSent)
		}
	}
	wait, err := keepPace(b, 1, retry(time.Now()))
	return since(began, wait), err
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
