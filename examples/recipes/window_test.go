package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

var billing guard.Service // one for all workers

var nightly = backoff.Policy{Name: "bill", AttemptTimeout: 2 * time.Second, Classify: backoffhttp.Classify}

// billAll bills the accounts that come, until the window ends. Eight workers may share them.
func billAll(window context.Context, accounts <-chan string, bill func(context.Context, string) error, report func(account, outcome string)) {
	for a := range accounts { // also after the window: then Do returns at once
		err := billing.Do(window, nightly, func(ctx context.Context) error { return bill(ctx, a) })
		gaveUp, transient := errors.AsType[*backoff.Error](err)
		switch {
		case err == nil:
			report(a, "done")
		case !transient:
			report(a, "rejected: "+err.Error()) // such as a 404
		case gaveUp.Attempts == 0:
			report(a, "not tried: "+err.Error()) // the window ended before its turn
		default:
			report(a, "failed: "+err.Error()) // it may have been billed, and only the response was lost
		}
	}
}

// Account b does not exist, and the service is down from account c on.
func Example_window() {
	accounts := make(chan string, 4)
	for _, a := range []string{"a", "b", "c", "d"} {
		accounts <- a
	}
	close(accounts)
	bill := func(_ context.Context, account string) error {
		switch account {
		case "a":
			return nil
		case "b":
			return &backoffhttp.StatusError{Code: 404, Status: "404 Not Found"}
		}
		return &backoffhttp.StatusError{Code: 503, Status: "503 Service Unavailable"}
	}
	window, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	billAll(window, accounts, bill, func(account, outcome string) {
		what, _, _ := strings.Cut(outcome, ":")
		fmt.Println(account, what)
	})
	// Output:
	// a done
	// b rejected
	// c failed
	// d not tried
}
