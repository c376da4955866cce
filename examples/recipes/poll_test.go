package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/poll"
)

var errFailed = errors.New("the job failed")

var afterFailure = backoff.ClassLimits{
	Schedule:    backoff.Exponential{Initial: 2 * time.Second, Max: 20 * time.Second},
	MaxAttempts: -1, // failed calls in a row; the default is 4
}

var job = backoff.Policy{
	Name:           "job",
	Schedule:       backoff.Constant(2 * time.Second), // after "not yet"
	Jitter:         backoff.NoJitter,                  // else a wait is between 1 s and 2 s
	MaxElapsed:     time.Minute,
	AttemptTimeout: 10 * time.Second, // of a call, which MaxElapsed does not end
	ByClass: map[backoff.Class]backoff.ClassLimits{ // after a call that failed in any way
		backoff.ClassUnknown:   afterFailure,
		backoff.ClassNotSent:   afterFailure,
		backoff.ClassRetryable: afterFailure,
		backoff.ClassThrottled: afterFailure,
	},
}

// The looks after 4, 6 and 10 seconds fail, and the waits grow until one succeeds.
func TestAPollBacksOffOnlyWhileItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, at := time.Now(), []time.Duration{}
		status := func(context.Context) (string, error) {
			at = append(at, time.Since(began))
			if n := len(at); 3 <= n && n <= 5 {
				return "", errors.New("no connection")
			} else if n == 8 {
				return "failed", nil
			}
			return "running", nil
		}
		ctx := t.Context()

		err := poll.Until(ctx, job, func(ctx context.Context) (done bool, err error) {
			s, err := status(ctx)
			if s == "failed" {
				return true, errFailed // ends the poll, and is its error
			}
			return s == "done", err
		})

		want := []time.Duration{0, 2, 4, 6, 10, 18, 20, 22}
		if err != errFailed || len(at) != len(want) {
			t.Fatal(err, at)
		}
		for i, seconds := range want {
			if at[i] != seconds*time.Second {
				t.Errorf("look %d after %v, want %d s", i+1, at[i], seconds)
			}
		}
	})
}

// jobStatus looks at a job. A 202 may say when to look again.
func jobStatus(ctx context.Context, client *http.Client, url string) (s struct{ State string }, done bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, true, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return s, false, err
	}
	defer resp.Body.Close()
	if d, ok := backoffhttp.RetryAfter(resp); ok && resp.StatusCode == http.StatusAccepted {
		return s, false, backoff.RetryAfter(poll.ErrNotYet, d)
	}
	if err = backoffhttp.Check(resp); err != nil {
		return s, false, err
	}
	if err = json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return s, false, backoff.OfClass(err, backoff.ClassRetryable) // or backoffhttp.Classify ends the poll
	}
	return s, s.State != "running", nil
}

// A jobServer gives one answer after the other, and notes when it was asked.
type jobServer struct {
	answers []string
	at      []time.Duration
	began   time.Time
}

func (j *jobServer) RoundTrip(r *http.Request) (*http.Response, error) {
	j.at = append(j.at, time.Since(j.began))
	text := j.answers[min(len(j.at), len(j.answers))-1]
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}
	if seconds, ok := strings.CutPrefix(text, "after "); ok {
		resp.StatusCode = http.StatusAccepted
		resp.Header.Set("Retry-After", seconds)
	}
	return resp, nil
}

// The job says when to look again. One answer breaks off.
func TestAPollLooksWhenTheServerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &jobServer{answers: []string{"after 5", "after 7", `{"State": "run`, `{"State": "done"}`}, began: time.Now()}
		client := &http.Client{Transport: server}
		policy := job
		policy.Classify = backoffhttp.Classify
		s, err := poll.Value(t.Context(), policy, func(ctx context.Context) (struct{ State string }, bool, error) {
			return jobStatus(ctx, client, "http://jobs.example/7")
		})
		if want := []int{0, 5, 12, 14}; err != nil || s.State != "done" || len(server.at) != len(want) {
			t.Fatalf("%+v, %v: looks at %v", s, err, server.at)
		} else {
			for i, seconds := range want { // and a tenth at most
				least := time.Duration(seconds) * time.Second
				if server.at[i] < least || server.at[i] > least+least/10 {
					t.Errorf("look %d after %v, want %v", i+1, server.at[i], least)
				}
			}
		}
	})
}

// A Retry-After that does not fit into MaxElapsed ends the poll at once.
func TestAPollThatWouldLookTooLateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &jobServer{answers: []string{"after 61"}, began: time.Now()}
		_, err := poll.Value(t.Context(), job, func(ctx context.Context) (struct{ State string }, bool, error) {
			return jobStatus(ctx, &http.Client{Transport: server}, "http://jobs.example/7")
		})
		if !errors.Is(err, poll.ErrNotYet) || len(server.at) != 1 || time.Since(server.began) > 0 {
			t.Errorf("%v, looks at %v", err, server.at)
		}
	})
}

// What is left of a deadline may be nothing. 0 would be refused, and less would be no limit.
func TestAPollWithoutTimeNeedsAMaxElapsedAboveZero(t *testing.T) {
	for limit, looks := range map[time.Duration]int{0: 0, -time.Second: 3600, time.Nanosecond: 2} {
		synctest.Test(t, func(t *testing.T) {
			policy, n := job, 0
			policy.MaxElapsed = limit
			err := poll.Until(t.Context(), policy, func(context.Context) (bool, error) { n++; return n == 3600, nil })
			if n != looks || (err == nil) != (looks == 3600) {
				t.Errorf("MaxElapsed %v: %d looks, %v", limit, n, err)
			}
		})
	}
}
