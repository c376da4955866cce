// Package world is what the call sites of the corpus call, and what becomes of their calls.
package world

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Errors of the service.
var (
	ErrDown   = errors.New("down")
	ErrGone   = errors.New("gone")
	ErrGaveUp = errors.New("gave up")
)

// A Site is a call site of the corpus. It is given a service that fails.
type Site func(ctx context.Context, s *Service) error

// A Service answers calls as it is told to. The last answer is that of all further calls.
type Service struct {
	Answers []error
	at      []time.Time
}

// Call makes a call.
func (s *Service) Call(ctx context.Context) error {
	s.at = append(s.at, time.Now())
	if len(s.at) > 3000 {
		panic("a site retries without an end")
	}
	return s.Answers[min(len(s.at), len(s.Answers))-1]
}

// Fetch is a call that returns a value.
func (s *Service) Fetch(ctx context.Context) (string, error) {
	if err := s.Call(ctx); err != nil {
		return "", err
	}
	return "page", nil
}

// Ping is a call without a context.
func (s *Service) Ping() error { return s.Call(context.Background()) }

// RoundTrip makes a call over HTTP. A failure is a 503, and what is gone a 404.
func (s *Service) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	code := http.StatusOK
	switch err := s.Call(req.Context()); {
	case errors.Is(err, ErrGone):
		code = http.StatusNotFound
	case err != nil:
		code = http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: code, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader("body"))}, nil
}

// An Outcome is the mean of what many runs of a site did.
type Outcome struct {
	Attempts float64
	Waits    []float64      // in seconds, of the first retries that all runs made
	Errors   map[string]int // how many runs ended with an error that matches
}

// A Scenario is how a service behaves.
type Scenario struct {
	Answers []error
	Cancel  time.Duration // when the caller gives up; 0 is never
}

// Scenarios are those in which each site is run.
func Scenarios() map[string]Scenario {
	return map[string]Scenario{
		"works":     {Answers: []error{nil}},
		"recovers":  {Answers: []error{ErrDown, ErrDown, nil}},
		"down":      {Answers: []error{ErrDown}},
		"gone":      {Answers: []error{ErrDown, ErrGone}},
		"cancelled": {Answers: []error{ErrDown}, Cancel: 1700 * time.Millisecond},
	}
}

// So many runs keep chance out of the comparison: the waits of full jitter, which vary most, would
// differ by the 15 % that it allows only at 5.8 standard deviations.
const runs = 1000

// Run runs a site in a scenario, in virtual time.
func Run(t *testing.T, site Site, c Scenario) Outcome {
	out := Outcome{Errors: map[string]int{}}
	var waits [][]float64
	for range runs {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if c.Cancel > 0 {
				ctx, cancel = context.WithCancel(ctx)
				time.AfterFunc(c.Cancel, cancel)
				defer cancel()
			}
			s := &Service{Answers: c.Answers}
			for _, kind := range kinds(site(ctx, s)) {
				out.Errors[kind]++
			}
			out.Attempts += float64(len(s.at)) / runs
			waits = append(waits, s.waits())
		})
	}
	out.Waits = means(waits)
	return out
}

func (s *Service) waits() []float64 {
	var all []float64
	for i := 1; i < len(s.at); i++ {
		all = append(all, s.at[i].Sub(s.at[i-1]).Seconds())
	}
	return all
}

// kinds says what a caller can tell about an error.
func kinds(err error) []string {
	if err == nil {
		return []string{"nil"}
	}
	all := []string{"failed"}
	for name, target := range map[string]error{
		"gaveUp": ErrGaveUp, "gone": ErrGone, "down": ErrDown,
		"canceled": context.Canceled, "deadline": context.DeadlineExceeded,
	} {
		if errors.Is(err, target) {
			all = append(all, name)
		}
	}
	return all
}

func means(all [][]float64) []float64 {
	var sums []float64
	for i := range 6 {
		sum := 0.0
		for _, waits := range all {
			if len(waits) <= i {
				return sums
			}
			sum += waits[i] / float64(len(all))
		}
		sums = append(sums, sum)
	}
	return sums
}
