package recipes

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

var webhooks = &http.Client{
	Transport: &backoffhttp.Transport{
		Policy: backoff.Policy{
			Name:           "webhook",
			MaxAttempts:    -1, // the deadline of the call ends it
			Schedule:       backoff.Exponential{Max: time.Minute},
			Jitter:         backoff.EqualJitter, // a wait is from half of the delay to all of it
			MaxRetryAfter:  time.Hour,           // a longer Retry-After than this ends it, too
			AttemptTimeout: 10 * time.Second,
			Idempotency:    backoff.Idempotent, // the receiver knows events by their ids
		},
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func deliver(ctx context.Context, url string, event []byte) error {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(event))
	if err != nil {
		return err
	}
	resp, err := webhooks.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return backoffhttp.Check(resp, backoffhttp.Status2xx)
}

// The first receiver works at the fifth request. With FailFast the budget
// ends the call at the fourth, and without Idempotent the first one does.
func Example_webhook() {
	for _, script := range [][]faulty.Step{
		{faulty.Status(503), faulty.Status(503), faulty.Status(500), faulty.Status(503), faulty.Status(204)},
		{faulty.Status(410), faulty.Status(204)},
	} {
		receiver := faulty.Start(script...)
		err := deliver(context.Background(), receiver.URL, []byte(`{"id": "evt-1"}`))
		fmt.Println(receiver.Requests(), "requests:", err)
		receiver.Close()
	}
	// Output:
	// 5 requests: <nil>
	// 1 requests: status 410 Gone
}
