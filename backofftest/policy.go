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

const forever = time.Duration(math.MaxInt64)

var (
	retries = []int{1, 2, 3, 4, 5, 10, 31, 32, 33, 62, 63, 64, 65, 100, 1000, 1_000_000, math.MaxInt32, math.MaxInt}
	delays  = []time.Duration{0, 1, 2, 3, time.Millisecond, 100 * time.Millisecond, 30 * time.Second, 1<<53 - 1, 1<<53 + 1, forever / 3, forever/2 + 1, forever - 1, forever}
	draws   = []float64{0, math.SmallestNonzeroFloat64, 0x1p-53, 0.1, 1. / 3, 0.5, 0.75, 1 - 0x1p-53}
)

// Schedule checks that a backoff.Schedule keeps its contract: no delay before the first
// attempt, none that is negative, also where the arithmetic would overflow, and the same
// answer whenever it is asked, by however many at a time. Run it with -race.
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
	err := crowd(16, func(int) error {
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

// Jitter checks that a backoff.Jitter keeps its contract: no wait is negative, whatever the
// delay, the wait before and the draw, and the same three give the same wait, however many
// ask at a time. Run it with -race.
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
	err = crowd(16, func(int) (err error) {
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

// Budget checks that what open returns is a backoff.Budget that keeps its contract, as far
// as that is the same for all: it does not block, asks for no negative wait, uses the
// first word of its tickets only, gives nothing back twice, grants to a crowd no more than to
// one caller, and stands a Done that never comes. open must return a new one each time.
// Run it with -race.
func Budget(t testing.TB, open func() backoff.Budget) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- checkBudget(open) }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(limit):
		t.Fatalf("the Budget has not answered after %v: it must not block", limit)
	}
}

// most is the number of retries that are asked for.
const most = 500

func checkBudget(open func() backoff.Budget) error {
	if v, ok := open().(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	b := open()
	if t, _, ok := b.Reserve(backoff.Attempt{Number: 1}); ok { // all zero but this
		b.Done(t, backoff.Result{})
	}
	now := time.Now()
	alone, err := draw(open(), now, 1)
	if err != nil {
		return err
	}
	crowded, err := draw(open(), now, 20)
	if err == nil && crowded > alone {
		err = errors.New("20 callers at a time are granted more retries than one: it looks first and acts later")
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
	again, err := draw(b, now, 1)
	if err == nil && again > alone {
		err = errors.New("a second Done gives back what was given back before")
	}
	return err
}

func retry(now time.Time) backoff.Attempt {
	return backoff.Attempt{Number: 2, Kind: backoff.AttemptRetry, Class: backoff.ClassRetryable, Now: now}
}

// draw asks for retries, of which no end is ever told, and returns how many were granted.
func draw(b backoff.Budget, now time.Time, callers int) (granted int, err error) {
	var mu sync.Mutex
	err = crowd(callers, func(int) error {
		for range most / callers {
			t, wait, ok := b.Reserve(retry(now))
			switch {
			case !ok:
				continue
			case wait < 0:
				return errors.New("a Budget asks for a negative wait")
			case t != (backoff.Ticket{t[0]}):
				return errors.New("a ticket holds more than its first word: the others are lost within All")
			}
			if d, ok := b.(backoff.Confirmer); ok && !d.Confirm(t) {
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

// Observer checks that a backoff.Observer keeps its contract: it stands every kind of event,
// from many calls at a time and after their contexts have ended, does not panic, returns
// soon, and leaves the event's header alone. Run it with -race.
func Observer(t testing.TB, o backoff.Observer) {
	t.Helper()
	header := map[string][]string{"Retry-After": {"1", "2"}}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	done := make(chan error, 1)
	go func() {
		done <- crowd(16, func(int) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = errors.New("the Observer panicked")
				}
			}()
			for kind := range backoff.EventKind(32) { // a few more than there are
				for _, ctx := range []context.Context{context.Background(), ended} {
					o(ctx, backoff.Event{Kind: kind})
					o(ctx, backoff.Event{Kind: kind, Err: errService, Attempt: math.MaxInt, Elapsed: forever, Wait: forever, Header: header})
				}
			}
			return nil
		})
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(limit):
		t.Fatalf("the Observer has not returned after %v: the call waits for it", limit)
	}
	if !maps.EqualFunc(header, map[string][]string{"Retry-After": {"1", "2"}}, slices.Equal) {
		t.Fatalf("the Observer changed the header of an event: %v", header)
	}
}
