package recipes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

var errPart = errors.New("the index took a part only")

// index sends the items until the service has taken all. It returns those that are left.
func index(ctx context.Context, policy backoff.Policy, bulk func(context.Context, []string) (refused []string, err error), items []string) ([]string, error) {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		refused, err := bulk(ctx, items)
		switch {
		case err != nil: // nobody knows what was taken: all of it again
		case len(refused) == 0:
			return nil, nil
		default:
			if len(refused) < len(items) {
				r.Progress() // attempts, waits and MaxElapsed begin again
			}
			items, err = refused, backoff.OfClass(errPart, backoff.ClassThrottled) // only these again
		}
		r.Fail(err)
	}
	return items, r.Err()
}

// The service takes 10 items of each request, but never the bad one, and is down twice.
func TestOnlyThePartThatFailedIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var items []string
		for range 95 {
			items = append(items, "good")
		}
		items = append([]string{"bad"}, items...)
		requests, taken := 0, 0
		began := time.Now()
		bulk := func(_ context.Context, items []string) (refused []string, err error) {
			if requests++; requests == 4 || requests == 5 {
				return nil, &backoffhttp.StatusError{Code: 503}
			}
			room := 10
			for _, item := range items {
				if item == "bad" || room == 0 {
					refused = append(refused, item)
					continue
				}
				room--
				taken++
			}
			return refused, nil
		}

		left, err := index(t.Context(), backoff.Policy{Name: "index", Classify: backoffhttp.Classify}, bulk, items)

		if taken != 95 || len(left) != 1 || left[0] != "bad" || !errors.Is(err, backoff.ErrExhausted) {
			t.Errorf("%d of 95 items taken, %q left: %v", taken, left, err)
		}
		if took := time.Since(began); requests != 10+2+3 || took > 3*time.Second {
			t.Errorf("%d requests in %v, want 10, 2 while it was down, and 3 for the bad item", requests, took)
		}
	})
}
