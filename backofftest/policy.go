package backofftest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
)

const (
	maxDuration = time.Duration(math.MaxInt64)
	limit       = 20 * time.Second // until a check must have ended
)

var errService = errors.New("backofftest: the service is down")

// The arguments that schedules and jitters are checked with.
var (
	retries = []int{1, 2, 3, 4, 5, 10, 31, 32, 33, 62, 63, 64, 65, 100, 1000, 1_000_000, math.MaxInt32, math.MaxInt}
	delays  = []time.Duration{0, 1, 2, 3, time.Millisecond, 100 * time.Millisecond, 30 * time.Second, 1<<53 - 1, 1<<53 + 1, maxDuration / 3, maxDuration/2 + 1, maxDuration - 1, maxDuration}
	draws   = []float64{0, math.SmallestNonzeroFloat64, 0x1p-53, 0.1, 1. / 3, 0.5, 0.75, 1 - 0x1p-53}
)

// Schedule checks that a backoff.Schedule keeps its contract. It has no delay
// before the first attempt, and no negative delay, even where the arithmetic
// could overflow. It always returns the same delay, to any number of callers
// at the same time. Run the test with -race.
func Schedule(t testing.TB, s backoff.Schedule) {
	t.Helper()
	for _, retry := range []int{0, -1, math.MinInt} {
		if d := s.Delay(retry); d != 0 {
			t.Fatalf("Delay(%d) is %v, want 0: there is no such retry", retry, d)
		}
	}
	first := make([]time.Duration, len(retries))
	for i, retry := range retries {
		if first[i] = s.Delay(retry); first[i] < 0 {
			t.Fatalf("Delay(%d) is %v, want 0 or more: the arithmetic must saturate", retry, first[i])
		}
	}
	err := concurrently(16, func(int) error {
		for i, retry := range retries {
			if s.Delay(retry) != first[i] {
				return errors.New("asked again, it answers otherwise: a Schedule has no state, and no random numbers")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Jitter checks that a backoff.Jitter keeps its contract. No wait is negative,
// for any delay, previous wait and random number. The same arguments give the
// same wait, to any number of callers at the same time. Run the test with
// -race.
func Jitter(t testing.TB, j backoff.Jitter) {
	t.Helper()
	each := func(f func(delay, prev time.Duration, u float64)) {
		for _, delay := range delays {
			for _, prev := range delays {
				for _, u := range draws {
					f(delay, prev, u)
				}
			}
		}
	}
	var first []time.Duration
	var err error
	each(func(delay, prev time.Duration, u float64) {
		d := j(delay, prev, u)
		if d < 0 && err == nil {
			err = fmt.Errorf("a delay of %v after a wait of %v, and a draw of %v, give a wait of %v, want 0 or more: the arithmetic must saturate", delay, prev, u, d)
		}
		first = append(first, d)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = concurrently(16, func(int) (err error) {
		i := 0
		each(func(delay, prev time.Duration, u float64) {
			if j(delay, prev, u) != first[i] {
				err = errors.New("asked again, it answers otherwise: what is random about a Jitter is in its argument u, what it remembers in prev")
			}
			i++
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

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
	within(t, func() error { return checkBudget(open) }, "the Budget has not answered after %v: it must not block")
}

// within fails the test if check fails, or has not returned after the limit.
func within(t testing.TB, check func() error, late string) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- check() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(limit):
		t.Fatalf(late, limit)
	}
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
	crowded, err := grantRetries(open(), now, 20)
	if err == nil && crowded > alone {
		err = errors.New("20 callers at a time are granted more retries than one: looking and granting must be one step")
	}
	if err != nil {
		return err
	}
	b = open()
	if t, _, ok := b.Reserve(retry(now)); ok {
		for range 3 {
			b.Done(t, backoff.Result{Outcome: backoff.OutcomeNotSent})
		}
	}
	again, err := grantRetries(b, now, 1)
	if err == nil && again > alone {
		err = errors.New("a second Done gives back what was given back before")
	}
	if err != nil {
		return err
	}
	if err := checkGrantsFirst(open(), now, alone); err != nil {
		return err
	}
	if err := checkPace(open); err != nil {
		return err
	}
	return checkWaiting(open)
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
	for o := backoff.OutcomeTransient; o <= backoff.OutcomeNotSent; o++ {
		b.Done(backoff.Ticket{}, backoff.Result{Outcome: o})
	}
	again, err := grantRetries(b, now, 1)
	if err == nil && again > alone {
		err = errors.New("a Done without a ticket gives back what was never taken")
	}
	return err
}

// retry returns the Attempt of a retry.
func retry(now time.Time) backoff.Attempt {
	return backoff.Attempt{Number: 2, Class: backoff.ClassRetryable, Now: now}
}

// grantRetries asks for retries, whose ends it never reports, and returns how
// many were granted.
func grantRetries(b backoff.Budget, now time.Time, callers int) (granted int, err error) {
	var mu sync.Mutex
	err = concurrently(callers, func(int) error {
		for range askedRetries / callers {
			t, wait, ok := b.Reserve(retry(now))
			if !ok {
				continue
			}
			if err := checkWait(wait); err != nil {
				return err
			}
			if !b.Confirm(t) {
				b.Done(t, backoff.Result{Outcome: backoff.OutcomeNotSent})
				continue
			}
			mu.Lock()
			granted++
			mu.Unlock()
		}
		return nil
	})
	return granted, err
}

// checkWait returns what is wrong with a wait that Reserve or Pace asks for.
func checkWait(wait time.Duration) error {
	if wait < 0 {
		return errors.New("a Budget asks for a negative wait")
	}
	return nil
}

// Observer checks that a backoff.Observer keeps its contract. It accepts every
// kind of event, from many calls at a time, and after their contexts have
// ended. It does not panic and returns soon. It does not change the event's
// header. Run the test with -race.
func Observer(t testing.TB, o backoff.Observer) {
	t.Helper()
	header := map[string][]string{"Retry-After": {"1", "2"}}
	within(t, func() error {
		return concurrently(16, func(int) error { return observeAll(o, header) })
	}, "the Observer has not returned after %v: the call waits for it")
	if !maps.EqualFunc(header, map[string][]string{"Retry-After": {"1", "2"}}, slices.Equal) {
		t.Fatalf("the Observer changed the header of an event: %v", header)
	}
}

// observeAll gives an Observer events of every kind, and of some that do not
// exist.
func observeAll(o backoff.Observer, header map[string][]string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the Observer panicked")
		}
	}()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for kind := range backoff.EventKind(32) {
		for _, ctx := range []context.Context{context.Background(), ended} {
			o(ctx, backoff.Event{Kind: kind})
			o(ctx, backoff.Event{Kind: kind, Err: errService, Attempt: math.MaxInt, Elapsed: maxDuration, Wait: maxDuration, Header: header})
		}
	}
	return nil
}

// concurrently calls f n times at once, and returns one of the errors.
func concurrently(n int, f func(i int) error) (err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		group.Go(func() {
			if e := f(i); e != nil {
				mu.Lock()
				defer mu.Unlock()
				err = e
			}
		})
	}
	group.Wait()
	return err
}
