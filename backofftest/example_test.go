package backofftest_test

import (
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
)

// This is the test of a Schedule.
func ExampleSchedule() {
	_ = func(t *testing.T) {
		backofftest.Schedule(t, backoff.ScheduleFunc(func(retry int) time.Duration {
			return time.Duration(min(retry, 10)) * time.Second
		}))
	}
}
