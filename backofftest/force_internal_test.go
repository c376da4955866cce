package backofftest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The line of a range loop is that of the program, though the compiler makes the loop a part of it.
func TestWhatIsInlinedIntoAProgramIsPartOfTheLibrary(t *testing.T) {
	root := strings.TrimSuffix(here, "backofftest/force_call.go")
	for _, f := range []struct {
		function, file string
		own            bool
	}{
		{"github.com/gobackoff/backoff.(*Run).each", root + "run.go", true},
		{"example.com/shop.Order.(*Run).Attempts.func1", root + "run.go", true},
		{"github.com/gobackoff/backoff/examples/guides.Order.(*Run).Attempts.func1", root + "run.go", true},
		{"github.com/gobackoff/backoff/contrib/backoffgrpc.call", "github.com/gobackoff/backoff/contrib/backoffgrpc@v0.1.0/call.go", true},
		{"github.com/gobackoff/backoff/examples/guides.Order", root + "examples/guides/order.go", false},
		{"github.com/gobackoff/backoff_test.TestOrder", root + "order_test.go", false},
		{"example.com/shop.Order", "/shop/order.go", false},
	} {
		_, own := isLibrary(f.function, f.file)
		require.Equal(t, f.own, own, f.function)
	}
}
