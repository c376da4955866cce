// Command poll waits until a job of a server is done. Watch four looks end
// without a result: the job is pending, a look fails, and the server asks for a
// wait of a second. The fifth look finds the result.
//
//	go run -C examples ./poll
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
	"github.com/gobackoff/backoff/poll"
)

var policy = backoff.Policy{
	Name:           "export",
	Schedule:       backoff.Constant(50 * time.Millisecond), // between two looks
	MaxElapsed:     10 * time.Second,                        // with a last look at the end
	AttemptTimeout: time.Second,                             // of each look
}

func main() { journal.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	server := faulty.Start(pending(20), failing, later(40), pending(80), finished)
	defer server.Close()
	log := journal.New(out)
	job, err := wait(ctx, server.URL+"/jobs/7", log)
	if err != nil {
		return err
	}
	log.Say("result: %s", job.Result)
	return nil
}

// A job is what the server says of it.
type job struct {
	Status  string `json:"status"`
	Percent int    `json:"percent"`
	Result  string `json:"result"`
}

var errFailed = errors.New("the job failed")

// wait returns the job when it is done. If it takes too long, the job tells how
// far it was.
func wait(ctx context.Context, url string, log *journal.Journal) (job, error) {
	look := 0
	return poll.Value(ctx, policy, func(ctx context.Context) (j job, done bool, err error) {
		j, later, err := status(ctx, url)
		look++
		switch {
		case err != nil:
			log.Say("look %d failed: %v", look, err)
			return j, false, err // a failed look: at most 4 in a row
		case j.Status == "failed":
			return j, true, errFailed // the end, with this error
		}
		log.Say("look %d: %s, %d %%", look, j.Status, j.Percent)
		if later > 0 {
			log.Say("the server asks for a wait of %v", later)
			return j, false, backoff.RetryAfter(poll.ErrNotYet, later)
		}
		return j, j.Status == "done", nil
	})
}

// status asks the server, which may also say when to come back.
func status(ctx context.Context, url string) (j job, later time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return j, 0, backoff.Permanent(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return j, 0, err
	}
	defer response.Body.Close()
	if err := backoffhttp.Check(response); err != nil {
		return j, 0, err
	}
	later, _ = backoffhttp.RetryAfter(response)
	return j, later, json.NewDecoder(response.Body).Decode(&j)
}
