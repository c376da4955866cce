package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

var consuming = backoff.Policy{
	Name:        "consume",
	MaxAttempts: 5,
	Jitter:      backoff.EqualJitter, // a wait is half of its delay at least, so the waits grow
}

// consume handles messages until ctx ends. The handler returns
// backoff.Permanent(err) for a message that it will never take.
func consume(ctx context.Context, messages <-chan string, handle func(context.Context, string) error,
	ack func(string), bury func(string, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return // the broker is gone
			}
			err := consuming.Do(ctx, func(ctx context.Context) error { return handle(ctx, m) })
			switch {
			case err == nil:
				ack(m)
			case ctx.Err() != nil:
				return // without ack: the broker sends it again
			default:
				bury(m, err) // into the dead letters, and ack it if they have it
			}
		}
	}
}

// One message is taken, one after two failures, one is invalid, one always
// fails, and the program is told to stop while it waits to handle the last.
func TestAConsumerKnowsWhatBecomesOfEachMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		attempts, log := map[string]int{}, []string(nil)
		handle := func(_ context.Context, m string) error {
			switch attempts[m]++; {
			case m == "good", m == "flaky" && attempts[m] == 3:
				return nil
			case m == "invalid":
				return backoff.Permanent(errors.New("invalid"))
			case m == "last":
				time.AfterFunc(time.Millisecond, stop)
			}
			return errors.New("down")
		}
		ack := func(m string) { log = append(log, fmt.Sprint("ack ", m, " after ", attempts[m])) }
		bury := func(m string, why error) { log = append(log, fmt.Sprint("bury ", m, ": ", why)) }
		messages := make(chan string, 6)
		for _, m := range []string{"good", "flaky", "invalid", "bad", "last", "unread"} {
			messages <- m
		}

		consume(ctx, messages, handle, ack, bury)

		want := []string{"ack good after 1", "ack flaky after 3", "bury invalid: invalid",
			"bury bad: backoff: consume: gave up after 5 attempts: down"}
		if !slices.Equal(log, want) || attempts["last"] != 1 || len(messages) != 1 {
			t.Errorf("%q, and %d attempts of the last one", log, attempts["last"])
		}
		consume(ctx, nil, handle, ack, bury) // returns also while no message comes
	})
}
