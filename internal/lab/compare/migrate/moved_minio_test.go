package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// The client of MinIO, minio-go v7.4.1: each request is made in a range loop over
// its own jittered waits, and a listener for events in one that never ends.

var minio = []move{
	{
		program: "minio-go", sites: 1, place: "Request, SlowDown again and again",
		script: times(1, answer{status: 503, state: "SlowDown"}), before: rangedRequest, here: s3Request,
		was:    outcome{attempts: exactly(10), gaps: [2]float64{0, 1}, after: [2]float64{0, 1}, sees: "last failure"},
		is:     outcome{attempts: exactly(10), gaps: [2]float64{0, 1}, sees: "last failure, limit"},
		better: []reason{noLastWait, saysWhy},
	},
	{
		program: "minio-go", place: "Request, 503 with Retry-After: 2",
		script: []answer{{status: 503, state: "SlowDown", after: 2 * time.Second}, {status: 200}}, before: rangedRequest, here: s3Request,
		was:    outcome{attempts: exactly(2), gaps: [2]float64{0, 0.2}, sees: "done"},
		is:     outcome{attempts: exactly(2), gaps: [2]float64{2, 2.2}, sees: "done"},
		better: []reason{obeys},
	},
	{
		program: "minio-go", place: "Request, a final response",
		script: times(1, answer{status: 404, state: "NoSuchKey"}), before: rangedRequest, here: s3Request,
		was: outcome{attempts: exactly(1), sees: "last failure"},
	},
	{
		program: "minio-go", place: "Request, the region is wrong once",
		script: []answer{{status: 400, state: wrongRegion}, {status: 200}}, before: rangedRequest, here: s3Request,
		was:    outcome{attempts: exactly(2), gaps: [2]float64{0, 0.2}, sees: "done"},
		is:     outcome{attempts: exactly(2), gaps: exactly(0), sees: "done"},
		better: []reason{goesAtOnce},
	},
	{
		program: "minio-go", place: "Request, a deadline of 100 ms",
		script: times(1, answer{status: 503, state: "SlowDown"}), deadline: 100 * time.Millisecond, before: rangedRequest, here: s3Request,
		was:    outcome{attempts: [2]float64{1, 9}, gaps: [2]float64{0, 0.1}, after: [2]float64{0, 0.1}, sees: "deadline"},
		is:     outcome{attempts: [2]float64{1, 9}, gaps: [2]float64{0, 0.1}, sees: "last failure, deadline"},
		better: []reason{noLastWait, saysWhy},
	},
	{
		program: "minio-go", sites: 1, place: "Listener, cut off after 10 min four times, then refused",
		script: append(times(4, answer{took: 10 * time.Minute}), answer{err: errRefused}), before: rangedListener, here: listener,
		was:    outcome{attempts: exactly(5), gaps: [2]float64{0, 16}, sees: "last failure"},
		is:     outcome{attempts: exactly(5), gaps: [2]float64{0, 2}, sees: "last failure"},
		better: []reason{longRunRests},
	},
	{
		program: "minio-go", place: "Listener, ended while it waits",
		script: times(1, answer{took: 10 * time.Minute}), cancel: 10*time.Minute + 1, before: rangedListener, here: listener,
		was:    outcome{attempts: exactly(1), after: [2]float64{0, 2}, sees: "cancelled"},
		is:     outcome{attempts: exactly(1), sees: "cancelled, cause"},
		better: []reason{endsWithContext, saysWhy},
	},
}

// wrongRegion is the code of an answer that names the right region, which the
// program then uses.
const wrongRegion = "AuthorizationHeaderMalformed"

// An s3Error is the answer of the service. Users of the program ask for it by
// type.
type s3Error struct {
	code   string
	status int
}

func (e *s3Error) Error() string { return fmt.Sprintf("%s (%d)", e.code, e.status) }

func (e *s3Error) again() bool {
	return slices.Contains([]string{"SlowDown", "Throttling", "InternalError", "RequestTimeout", "ExpiredToken", wrongRegion}, e.code) ||
		slices.Contains([]int{408, 429, 499, 500, 502, 503, 504, 520}, e.status)
}

// s3Try makes one attempt. The response is there for its header.
func s3Try(ctx context.Context, r *remote) (*http.Response, error) {
	resp, err := r.post(ctx, &http.Client{Transport: r})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	code, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	return resp, &s3Error{string(code), resp.StatusCode}
}

// spread draws a wait of the program.
func spread(n int, unit, most time.Duration) time.Duration {
	wait := min(most, unit<<min(n, 20))
	return wait - time.Duration(rand.Float64()*float64(wait))
}

// attemptsUntil and attemptsForEver are the range loops of the program.
func attemptsUntil(ctx context.Context, attempts int, unit, most time.Duration) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range attempts {
			if ctx.Err() != nil || !yield(i) {
				return
			}
			select {
			case <-time.After(spread(i, unit, most)):
			case <-ctx.Done():
				return
			}
		}
	}
}

func attemptsForEver(unit, most time.Duration) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range math.MaxInt {
			if !yield(i) {
				return
			}
			time.Sleep(spread(i+1, unit, most))
		}
	}
}

func rangedRequest(ctx context.Context, r *remote) (string, error) {
	var err error
	for range attemptsUntil(ctx, 10, 200*time.Millisecond, time.Second) {
		_, err = s3Try(ctx, r)
		if err == nil {
			return "done", nil
		}
		if answer, ok := err.(*s3Error); ok && !answer.again() {
			break
		}
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return "", err
}

func s3Request(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{
		MaxAttempts: 10,
		Schedule:    backoff.Exponential{Initial: 200 * time.Millisecond, Max: time.Second},
		Classify: func(err error) backoff.Class {
			if answer, ok := errors.AsType[*s3Error](err); ok && !answer.again() {
				return backoff.ClassPermanent
			}
			return backoff.ClassRetryable
		},
	}
	run := policy.Start(ctx)
	for range run.Attempts() {
		resp, err := s3Try(run.Context(), r)
		if err == nil {
			return "done", nil
		}
		if after, ok := backoffhttp.RetryAfter(resp); ok {
			err = backoff.RetryAfter(err, after)
		}
		if answer, ok := errors.AsType[*s3Error](err); ok && answer.code == wrongRegion {
			err = backoff.AtOnce(err)
		}
		run.Fail(err)
	}
	return "", run.Err()
}

// listen reads events until the service ends the stream, or refuses it.
func listen(ctx context.Context, r *remote) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.call(ctx)
}

func rangedListener(ctx context.Context, r *remote) (string, error) {
	for range attemptsForEver(time.Second, 30*time.Second) {
		if err := listen(ctx, r); err != nil {
			return "", err
		}
	}
	return "", nil
}

func listener(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{Schedule: backoff.Exponential{Initial: 2 * time.Second}}
	return "", policy.Supervise(ctx, func(ctx context.Context) error { return backoff.Permanent(listen(ctx, r)) })
}
