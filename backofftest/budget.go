package backofftest

import (
	"cmp"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/results"
)

// Budget checks that open returns a backoff.Budget that keeps its contract, as
// far as that is the same for all budgets. It does not block and asks for no
// negative wait. It gives nothing back twice. It grants no more to many callers
// than to one. It stays right if Done is never called. The same holds for Pace,
// and a second call of Pace takes nothing more. Attempts that only wait take
// nothing from those that go, and those that another budget held off together
// are spaced as others are. While GrantsFirst returns true, it grants first
// attempts at once, and Done without a ticket gives nothing back. open must
// return a new budget each time. Run the test with -race.
func Budget(t testing.TB, open func() backoff.Budget) {
	t.Helper()
	within(t, 1, func(int) error { return checkBudget(open) }, "the Budget has not answered after %v: it must not block")
}

// askedRetries is how many retries are asked for.
const askedRetries = 500

// checkBudget returns what is wrong with a budget.
func checkBudget(open func() backoff.Budget) error {
	if err := open().Validate(); err != nil {
		return err
	}
	b := open()
	if t, _, ok := b.Reserve(backoff.Attempt{Number: 1}); ok { // all other fields zero
		b.Done(t, backoff.Result{})
	}
	now := time.Now()
	alone, err := grantRetries(open(), now, 1)
	if err != nil {
		return err
	}
	b = open()
	if t, _, ok := b.Reserve(retry(now)); ok {
		for range 3 {
			b.Done(t, notSent)
		}
	}
	return cmp.Or(
		checkGranted(open(), now, 20, alone, "20 callers at a time are granted more retries than one: looking and granting must be one step"),
		checkGranted(b, now, 1, alone, "a second Done gives back what was given back before"),
		checkGrantsFirst(open(), now, alone),
		checkPace(open),
		checkWaiting(open),
	)
}

// checkGranted returns an error that says wrong if a budget grants more than most
// retries.
func checkGranted(b backoff.Budget, now time.Time, callers, most int, wrong string) error {
	granted, err := grantRetries(b, now, callers)
	return mistake(err, granted > most, wrong)
}

// checkGrantsFirst returns what is wrong with a budget's GrantsFirst. alone is how
// many retries a new budget grants.
func checkGrantsFirst(b backoff.Budget, now time.Time, alone int) error {
	if !b.GrantsFirst() {
		return nil
	}
	if _, wait, ok := b.Reserve(backoff.Attempt{Number: 1, Now: now}); !ok || wait > 0 {
		return errors.New("a Budget whose GrantsFirst returns true does not grant a first attempt at once")
	}
	for _, r := range results.ByName {
		if r.NotSent || !r.Answered() {
			b.Done(backoff.Ticket{}, r)
		}
	}
	return checkGranted(b, now, 1, alone, "a Done without a ticket gives back what was never taken")
}

// notSent is the Result of an attempt that was not made.
var notSent = backoff.Result{NotSent: true}

// retry returns the Attempt of a retry.
func retry(now time.Time) backoff.Attempt {
	return backoff.Attempt{Number: 2, Class: backoff.ClassRetryable, Now: now}
}

// grantRetries asks for retries, whose ends it never reports, and returns how
// many were granted.
func grantRetries(b backoff.Budget, now time.Time, callers int) (int, error) {
	var granted atomic.Int64
	err := concurrently(callers, func(int) error {
		for range askedRetries / callers {
			t, wait, ok := b.Reserve(retry(now))
			switch {
			case ok && wait < 0:
				return errNegative
			case ok && b.Confirm(t):
				granted.Add(1)
			case ok:
				b.Done(t, notSent)
			}
		}
		return nil
	})
	return int(granted.Load()), err
}

// errNegative is the error of a budget whose Reserve or Pace asks for such a wait.
var errNegative = errors.New("a Budget asks for a negative wait")
