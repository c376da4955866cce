package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/gobackoff/backoff"
)

// The first error is named, and the second one is not.
func Example_only() {
	errFull := errors.New("full")
	attempts := 0
	claim := func(context.Context) error {
		if attempts++; attempts == 1 {
			return errBusy
		}
		return errFull
	}

	policy := backoff.Policy{
		Name:     "claim",
		Classify: backoff.RetryIf(func(err error) bool { return errors.Is(err, errBusy) }),
	}

	err := policy.Do(context.Background(), claim)
	fmt.Println(attempts, "attempts:", err)
	fmt.Println(errors.Is(err, errFull), backoff.Cause(err) == errFull)
	// Output:
	// 2 attempts: full
	// true true
}
