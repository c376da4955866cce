package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
)

// A maintenanceWindow is a budget of the user's own. Attempts may be made while
// it is open. It must know that when they are made, not when the sleep before
// them begins.
type maintenanceWindow struct{ open bool }

func (w *maintenanceWindow) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, a.Kind == backoff.AttemptRetry || w.open
}

func (w *maintenanceWindow) Confirm(backoff.Ticket) bool { return w.open }

func (w *maintenanceWindow) Done(_ backoff.Ticket, r backoff.Result) {
	if r.Outcome == backoff.OutcomeNotSent {
		fmt.Println("not sent")
	}
}

func ExampleConfirmer() {
	window := &maintenanceWindow{open: true}
	policy := backoff.Policy{Name: "upload", Schedule: backoff.Constant(time.Millisecond), Budget: window}

	err := policy.Do(context.Background(), func(context.Context) error {
		window.open = false // while this attempt runs
		return errors.New("connection reset")
	})
	fmt.Println(errors.Is(err, backoff.ErrBudget))
	// Output:
	// not sent
	// true
}
