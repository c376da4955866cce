package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

var (
	mailing    = backoff.Policy{Name: "mail", Idempotency: backoff.NonIdempotent}
	errUnknown = errors.New("it is unknown whether the mail was sent")
)

// sendOnce sends a mail. Nobody gets it twice.
func sendOnce(ctx context.Context, send func(context.Context) error) error {
	err := mailing.Do(ctx, func(ctx context.Context) error {
		err := send(ctx) // which marks in the same way whatever fails before the end of DATA
		if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code/100 == 4 {
			return backoff.OfClass(err, backoff.ClassNotSent) // the server says that it did nothing
		}
		return err
	})
	gaveUp, tried := errors.AsType[*backoff.Error](err)
	_, rejected := errors.AsType[*textproto.Error](err)
	if err == nil || tried && gaveUp.Repeatable() || !tried && rejected {
		return err
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

const lost = "it is unknown whether the mail was sent: "

func unknown(err error) bool { return strings.HasPrefix(fmt.Sprint(err), lost) }

func TestAMailIsSentAgainOnlyIfTheServerHasDoneNothing(t *testing.T) {
	busy := &textproto.Error{Code: 450, Msg: "try again later"}
	refused := &textproto.Error{Code: 550, Msg: "no such user"}
	for _, c := range []struct {
		replies []error
		want    string
	}{
		{[]error{busy, busy, nil}, "<nil>"},
		{[]error{busy, busy, busy, busy}, `backoff: mail: gave up after 4 attempts: 450 "try again later"`},
		{[]error{io.EOF}, lost},
		{[]error{busy, io.EOF}, lost},
		{[]error{busy, busy, busy, io.EOF}, lost},
		{[]error{context.Canceled}, lost}, // of the mail's own, and permanent
		{[]error{context.DeadlineExceeded}, lost},
		{[]error{refused}, `550 "no such user"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			err := sendOnce(t.Context(), func(context.Context) error {
				calls++
				return c.replies[calls-1]
			})
			if !strings.HasPrefix(fmt.Sprint(err), c.want) || calls != len(c.replies) {
				t.Errorf("%v: %v after %d calls", c.replies, err, calls)
			}
		})
	}
}

func TestAMailIsUnknownIfItsContextEndsMeanwhile(t *testing.T) {
	for _, before := range []int{0, 1} { // attempts that the server refused
		for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				calls := 0
				err := sendOnce(ctx, func(ctx context.Context) error {
					if calls++; calls <= before {
						return &textproto.Error{Code: 450}
					}
					if end == context.Canceled {
						cancel()
					}
					<-ctx.Done()
					return ctx.Err()
				})
				if !errors.Is(err, end) || !unknown(err) {
					t.Error(err)
				}
				if err := sendOnce(ctx, nil); !strings.HasPrefix(err.Error(), "backoff: mail: not started") {
					t.Error(err)
				}
			})
		}
	}
}

func TestTheOnlyAttemptOfAMailMayHaveBeenMade(t *testing.T) {
	defer func(before backoff.Policy) { mailing = before }(mailing)
	mailing.MaxAttempts = 1
	if err := sendOnce(t.Context(), func(context.Context) error { return io.EOF }); !unknown(err) {
		t.Error(err)
	}
}

// A call that waited for a server that was down is its probe, and makes one attempt.
func TestAProbeMayHaveHadItsEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server guard.Service
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go server.Do(ctx, backoff.Policy{}, func(context.Context) error { return syscall.ECONNREFUSED })
		time.Sleep(10 * time.Second)
		began := time.Now()
		err := server.Do(ctx, mailing, func(context.Context) error {
			if time.Since(began) < 10*time.Second {
				return syscall.ECONNREFUSED
			}
			return io.EOF
		})
		gaveUp, ok := errors.AsType[*backoff.Error](err)
		if !ok || gaveUp.Reason == backoff.ReasonNotIdempotent || gaveUp.Repeatable() {
			t.Error(err)
		}
	})
}
