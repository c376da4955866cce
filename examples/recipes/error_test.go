package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gobackoff/backoff"
)

// The first operation fails each time, and the second one for good.
func Example_error() {
	ctx := context.Background()
	policy := backoff.Policy{Name: "save", MaxAttempts: 3}
	for _, err := range []error{io.ErrUnexpectedEOF, backoff.Permanent(errors.New("no such item"))} {
		save := func(context.Context) error { return err }

		err := policy.Do(ctx, save)
		var gaveUp *backoff.Error
		switch {
		case err == nil:
			fmt.Println("saved")
		case errors.As(err, &gaveUp):
			fmt.Println(gaveUp.Attempts, "attempts:", gaveUp.Reason, "-", gaveUp.Last)
		default:
			fmt.Println("permanent:", err)
		}
	}
	// Output:
	// 3 attempts: attempts - unexpected EOF
	// permanent: no such item
}
