package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
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

// A storeError is what the SDK of an object store returns.
type storeError struct {
	Code   string
	Status int
}

func (e *storeError) Error() string { return e.Code }

func classify(err error) backoff.Class {
	failed, ok := errors.AsType[*storeError](err)
	switch {
	case !ok:
		return backoff.ClassUnknown // DefaultClassifier decides, and an error that it does not know is retried
	case failed.Code == "SlowDown":
		return backoff.ClassThrottled
	case failed.Code == "InternalError":
		return backoff.ClassRetryable
	case failed.Code == "NoSuchKey":
		return backoff.ClassPermanent
	}
	return backoffhttp.StatusClass(failed.Status) // a 500 is retried, and a 404 is not
}

func Example_classify() {
	policy := backoff.Policy{Classify: classify}
	for _, err := range []error{
		&storeError{"SlowDown", 503}, &storeError{"NoSuchKey", 404}, &storeError{"InternalError", 200},
		&storeError{"Unheard", 403}, errors.New("connection lost"), context.Canceled,
	} {
		fmt.Println(err, policy.Retryable(err))
	}
	// Output:
	// SlowDown true
	// NoSuchKey false
	// InternalError true
	// Unheard false
	// connection lost true
	// context canceled false
}
