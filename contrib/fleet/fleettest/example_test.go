package fleettest_test

import (
	"context"
	"fmt"

	"github.com/gobackoff/backoff/contrib/fleet"
	"github.com/gobackoff/backoff/contrib/fleet/fleettest"
)

// This store loses every second call.
func ExampleFaulty() {
	store := &fleettest.Faulty{Store: new(fleet.Memory), Fail: func(n int64) bool { return n%2 == 0 }}
	for range 2 {
		_, err := store.Load(context.Background(), "search")
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// fleettest: the store is gone
}
