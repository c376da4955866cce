// Command poll starts a job on a server, and waits until the job is done. The
// server says "pending" twice, fails once, and says when to come back.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/poll"
)

var policy = backoff.Policy{
	Name:           "export",
	Schedule:       backoff.Constant(50 * time.Millisecond), // between two looks
	MaxElapsed:     10 * time.Second,                        // with a last look at the end
	AttemptTimeout: time.Second,                             // of each look
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	server := httptest.NewServer(&jobs{answers: []answer{pending(20), failing, later(40), pending(80), finished}})
	defer server.Close()
	job, err := wait(ctx, server.URL+"/jobs/7", out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "result:", job.Result)
	return err
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
func wait(ctx context.Context, url string, out io.Writer) (job, error) {
	return poll.Value(ctx, policy, func(ctx context.Context) (j job, done bool, err error) {
		j, later, err := status(ctx, url)
		switch {
		case err != nil:
			fmt.Fprintln(out, "look again:", err)
			return j, false, err // a failed look: at most 4 in a row
		case j.Status == "failed":
			return j, true, errFailed // the end, with this error
		}
		fmt.Fprintf(out, "%s, %d %%\n", j.Status, j.Percent)
		if later > 0 {
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
