package recipes

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

var billing guard.Service // one for all accounts

var nightly = backoff.Policy{
	Name:           "bill",
	MaxAttempts:    8, // with those of a call that waits: an account that always fails must not hold up the job
	AttemptTimeout: 2 * time.Second,
	Classify:       backoffhttp.Classify,
}

// billAll bills accounts with eight workers until the window ends, and then those that failed once
// more. It returns an error for each account, which is nil if it was billed.
func billAll(window context.Context, accounts []string, bill func(context.Context, string) error) []error {
	errs := make([]error, len(accounts))
	for round := range 2 {
		var workers errgroup.Group
		workers.SetLimit(8)
		for i, account := range accounts { // also after the window: then Do returns at once
			if round == 1 && outcome(errs[i]) != "failed" {
				continue
			}
			workers.Go(func() error {
				err := billing.Do(window, nightly, func(ctx context.Context) error { return bill(ctx, account) })
				if round == 0 || outcome(err) != "not tried" {
					errs[i] = err
				}
				return nil
			})
		}
		_ = workers.Wait()
	}
	return errs
}

// outcome says what became of an account.
func outcome(err error) string {
	gaveUp, transient := errors.AsType[*backoff.Error](err)
	switch {
	case err == nil:
		return "done"
	case !transient:
		return "rejected" // such as a 404
	case gaveUp.Attempts == 0:
		return "not tried" // the window ended before its turn
	}
	return "failed" // it may have been billed, and only the response was lost
}

// A biller is a service that is down for 20 minutes. Two of its accounts fail always.
type biller struct {
	begin time.Time
}

func (b biller) bill(ctx context.Context, account string) error {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	now := time.Since(b.begin)
	switch {
	case account == "unknown":
		return &backoffhttp.StatusError{Code: 404, Status: "404 Not Found"}
	case account == "broken", now > 2*time.Second && now < 20*time.Minute:
		return &backoffhttp.StatusError{Code: 503, Status: "503 Service Unavailable"}
	}
	return nil
}

// runBilling returns how many accounts had each outcome, and how long the job took.
func runBilling(t *testing.T, window time.Duration) (counts map[string]int, took time.Duration) {
	counts = map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		billing = guard.Service{}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), window)
		defer cancel()
		accounts := []string{"unknown", "broken"}
		for i := range 298 {
			accounts = append(accounts, strconv.Itoa(i))
		}
		for _, err := range billAll(ctx, accounts, biller{begin}.bill) {
			counts[outcome(err)]++
		}
		took = time.Since(begin)
	})
	return counts, took
}

func TestANightlyJobBillsAllAccountsThatCanBeBilled(t *testing.T) {
	counts, took := runBilling(t, time.Hour)
	if want := map[string]int{"done": 298, "rejected": 1, "failed": 1}; !maps.Equal(counts, want) || took > 22*time.Minute {
		t.Errorf("%v after %v, want %v", counts, took, want)
	}
}

func TestANightlyJobEndsWithItsWindow(t *testing.T) {
	counts, took := runBilling(t, 10*time.Minute)
	if took != 10*time.Minute || counts["done"] < 100 || counts["not tried"] < 100 || counts["rejected"] != 1 {
		t.Errorf("%v after %v", counts, took)
	}
}
