package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"testing"
	"testing/synctest"

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

func TestAMailIsSentAgainOnlyIfTheServerHasDoneNothing(t *testing.T) {
	busy := &textproto.Error{Code: 450, Msg: "try again later"}
	refused := &textproto.Error{Code: 550, Msg: "no such user"}
	for _, c := range []struct {
		replies []error
		calls   int
		want    string
	}{
		{[]error{busy, busy, nil}, 3, "<nil>"},
		{[]error{io.EOF, nil}, 1, "it is unknown whether the mail was sent: EOF"},
		{[]error{busy, io.EOF, nil}, 2, "it is unknown whether the mail was sent: EOF"},
		{[]error{refused, nil}, 1, `550 "no such user"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			err := sendOnce(t.Context(), func(context.Context) error {
				calls++
				return c.replies[calls-1]
			})
			if fmt.Sprint(err) != c.want || calls != c.calls {
				t.Errorf("after %d calls, want %d: %v", calls, c.calls, err)
			}
		})
	}
}
