package backofftest_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
)

// A tenRetries is a Budget that grants ten retries.
type tenRetries struct {
	backoff.BudgetDefaults

	asked atomic.Int64
}

func (b *tenRetries) Reserve(a backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	return t, 0, a.First() || b.asked.Add(1) <= 10
}

// testTenRetries is the test. Call yours TestTenRetries.
func testTenRetries(t *testing.T) {
	backofftest.Budget(t, func() backoff.Budget { return new(tenRetries) })
}

// This is the test of a Budget.
func ExampleBudget() {
	var t testing.T // go test passes one to a test, but not to an example
	testTenRetries(&t)
	fmt.Println("failed:", t.Failed())
	// Output: failed: false
}
