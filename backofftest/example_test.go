package backofftest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/fleet"
)

// This store loses every second call.
func ExampleFaulty() {
	store := &backofftest.Faulty{Store: new(fleet.Memory), Fail: func(n int64) bool { return n%2 == 0 }}
	for range 2 {
		_, err := store.Load(context.Background(), "search")
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// backofftest: the store is gone
}

// This is the test of a Schedule.
func ExampleSchedule() {
	_ = func(t *testing.T) {
		backofftest.Schedule(t, backoff.ScheduleFunc(func(retry int) time.Duration {
			return time.Duration(min(retry, 10)) * time.Second
		}))
	}
}
