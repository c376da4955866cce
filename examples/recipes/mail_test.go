package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"time"

	"github.com/gobackoff/backoff"
)

var mailing = backoff.Policy{Name: "mail", Idempotency: backoff.NonIdempotent}

// sendOnce sends a mail. Nobody gets it twice.
func sendOnce(ctx context.Context, send func(context.Context) error) error {
	err := mailing.Do(ctx, func(ctx context.Context) error {
		err := send(ctx)
		if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code/100 == 4 {
			return backoff.OfClass(err, backoff.ClassNotSent) // the server says that it did nothing
		}
		return err
	})
	if gaveUp, ok := errors.AsType[*backoff.Error](err); ok && gaveUp.Reason == backoff.ReasonNotIdempotent {
		return fmt.Errorf("it is unknown whether the mail was sent: %w", gaveUp.Last)
	}
	return err
}

// A full mailbox may have room later. After a reply that was lost the mail may have been sent.
func Example_sendOnce() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, failure := range []error{&textproto.Error{Code: 452, Msg: "mailbox full"}, io.ErrUnexpectedEOF, &textproto.Error{Code: 550, Msg: "no such user"}} {
		attempts := 0
		err := sendOnce(ctx, func(context.Context) error {
			if attempts++; attempts == 1 {
				return failure
			}
			return nil
		})
		fmt.Println(attempts, "attempts:", err)
	}
	// Output:
	// 2 attempts: <nil>
	// 1 attempts: it is unknown whether the mail was sent: unexpected EOF
	// 1 attempts: 550 "no such user"
}
