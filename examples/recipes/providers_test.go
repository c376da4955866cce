package recipes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/guard"
)

// The first provider fails in some way, and the second one answers, unless the question is wrong.
func TestTheSecondProviderAnswersForTheFirst(t *testing.T) {
	status := func(code int, after time.Duration) func(context.Context) error {
		return func(context.Context) error {
			time.Sleep(50 * time.Millisecond)
			return backoff.RetryAfter(&backoffhttp.StatusError{Code: code}, after)
		}
	}
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, row := range map[string]struct {
		ask     func(context.Context) error
		second  int           // calls of the second
		most    int           // attempts of the first in 100 calls
		slowest time.Duration // call
	}{
		"down":                   {ask: status(503, 0), second: 100, most: 100, slowest: 100 * time.Millisecond},
		"hangs":                  {ask: hangs, second: 100, most: 100, slowest: 4 * time.Second},
		"overloaded":             {ask: status(529, 0), second: 100, most: 50, slowest: 100 * time.Millisecond},
		"throttled":              {ask: status(429, 0), second: 100, most: 50, slowest: 100 * time.Millisecond},
		"throttled for a second": {ask: status(429, time.Second), second: 100, most: 50, slowest: 100 * time.Millisecond},
		"throttled for an hour":  {ask: status(429, time.Hour), second: 100, most: 1, slowest: 100 * time.Millisecond},
		"bad key":                {ask: status(401, 0), second: 100, most: 20, slowest: time.Second},
		"question":               {ask: status(400, 0), most: 100, slowest: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts, answered, slowest := 0, 0, time.Duration(0)
			providers := []provider{
				{"first", guards(), func(ctx context.Context, _ string) (string, error) {
					attempts++
					return "", row.ask(ctx)
				}},
				{"second", guards(), func(context.Context, string) (string, error) { return "42", nil }},
			}
			for range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				began := time.Now()
				answer, err := firstAnswer(ctx, providers, "why")
				cancel()
				slowest = max(slowest, time.Since(began))
				if answer == "42" && err == nil {
					answered++
				}
				time.Sleep(500 * time.Millisecond)
			}
			if answered != row.second || attempts > row.most || slowest > row.slowest {
				t.Errorf("%s: %d answers, %d attempts of the first, the slowest call took %v", name, answered, attempts, slowest)
			}
		})
	}
}

// A hundred calls in ten seconds succeed. Then the first provider hangs for a minute, or our key is
// wrong: some callers wait 4 s before the circuit opens, and then one in ten seconds.
func TestAProviderThatHangsIsSoonLeftOut(t *testing.T) {
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	wrongKey := func(context.Context) error { return &backoffhttp.StatusError{Code: 401} }
	for name, row := range map[string]struct {
		fail        func(context.Context) error
		early, late int // attempts that fail within 5.5 s, and afterwards
		slowest     time.Duration
	}{
		"hangs":     {fail: hangs, early: 55, late: 7, slowest: 4 * time.Second},
		"wrong key": {fail: wrongKey, early: 20, late: 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			var early, late, wrong atomic.Int32
			down := time.Now().Add(10 * time.Second)
			providers := []provider{
				{"first", guards(), func(ctx context.Context, _ string) (string, error) {
					switch since := time.Since(down); {
					case since < 0:
						return "42", nil
					case since < 5500*time.Millisecond:
						early.Add(1)
					default:
						late.Add(1)
					}
					return "", row.fail(ctx)
				}},
				{"second", guards(), func(context.Context, string) (string, error) { return "42", nil }},
			}
			var all sync.WaitGroup
			for range 700 {
				all.Go(func() {
					began := time.Now()
					answer, err := firstAnswer(t.Context(), providers, "why")
					if answer != "42" || err != nil || time.Since(began) > row.slowest {
						wrong.Add(1)
					}
				})
				time.Sleep(100 * time.Millisecond)
			}
			all.Wait()
			if int(early.Load()) > row.early || int(late.Load()) > row.late || wrong.Load() > 0 {
				t.Errorf("%s: the first was asked %d times, and later %d times; %d calls were too slow, or failed", name, early.Load(), late.Load(), wrong.Load())
			}
		})
	}
}

func TestTheErrorNamesAllProviders(t *testing.T) {
	down := func(context.Context, string) (string, error) { return "", backoff.Permanent(errors.New("closed")) }
	_, err := firstAnswer(t.Context(), []provider{{"first", &guard.Service{}, down}, {"second", &guard.Service{}, down}}, "why")
	if err == nil || err.Error() != "first: closed\nsecond: closed" {
		t.Error(err)
	}
}

// The first provider answers with a stream that begins with an error, or says when it may be asked
// again. The first stream of the second one lasts longer than all limits.
func TestTheSecondProviderSendsAStreamForTheFirst(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		header http.Header
		text   string
		most   int // requests to the first in 100 calls
	}{
		"error":      {200, http.Header{"Content-Type": {"text/event-stream"}}, "event: error\n\n", 20},
		"an hour":    {429, http.Header{"Retry-After": {"3600"}}, "", 1},
		"wrong key":  {401, nil, "", 20},
		"overloaded": {529, nil, "", 50},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			first, second := streaming("first"), streaming("second")
			first.Transport.(*backoffhttp.Transport).Base = serverFunc(func(r *http.Request) (*http.Response, error) {
				asked++
				time.Sleep(50 * time.Millisecond)
				return &http.Response{StatusCode: row.status, Header: row.header.Clone(), Body: io.NopCloser(strings.NewReader(row.text)), Request: r}, nil
			})
			pause := 20 * time.Second // of the first stream
			second.Transport.(*backoffhttp.Transport).Base = serverFunc(func(r *http.Request) (*http.Response, error) {
				defer func() { pause = time.Second / 2 }()
				return slowStream(r, pause), nil
			})
			for range 100 {
				resp, err := firstStream([]*http.Client{first, second}, func(i int) (*http.Request, error) {
					body := strings.NewReader("2 + 2?") // for each provider its own
					return http.NewRequestWithContext(t.Context(), http.MethodPost, []string{"http://first", "http://second"}[i], body)
				})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if text, err := io.ReadAll(resp.Body); string(text) != "data: 4\n\ndata: 2\n\n" || err != nil {
					t.Fatalf("%s: %q %v", name, text, err)
				}
				resp.Body.Close()
			}
			if t.Log(name, asked); asked > row.most {
				t.Errorf("%s: the first was asked %d times", name, asked)
			}
		})
	}
}

// slowStream pauses after its first event.
func slowStream(r *http.Request, pause time.Duration) *http.Response {
	body, stream := io.Pipe()
	go func() {
		io.WriteString(stream, "data: 4\n\n")
		select {
		case <-time.After(pause):
			io.WriteString(stream, "data: 2\n\n")
			stream.Close()
		case <-r.Context().Done():
			stream.CloseWithError(r.Context().Err())
		}
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}
}

// The first provider says that its token limit ends soon, or late, in either of two headers.
func TestAStreamWaitsForATokenLimitThatEndsSoon(t *testing.T) {
	for name, row := range map[string]struct {
		header http.Header
		wants  string
		within time.Duration
	}{
		"2 s":           {http.Header{"Retry-After": {"2"}}, "http://first", 2300 * time.Millisecond},
		"2 s in tokens": {http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"1.9s"}}, "http://first", 2300 * time.Millisecond},
		"20 min":        {http.Header{"Retry-After": {"1200"}}, "http://second", 0},
		"20 min tokens": {http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"20m0s"}}, "http://second", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			first, second := streaming("first"), streaming("second")
			asked := 0
			first.Transport.(*backoffhttp.Transport).Base = serverFunc(func(r *http.Request) (*http.Response, error) {
				if asked++; asked > 1 {
					return slowStream(r, time.Second), nil
				}
				return &http.Response{StatusCode: 429, Header: row.header, Body: http.NoBody, Request: r}, nil
			})
			second.Transport.(*backoffhttp.Transport).Base = serverFunc(func(r *http.Request) (*http.Response, error) {
				return slowStream(r, time.Second), nil
			})
			began := time.Now()
			resp, err := firstStream([]*http.Client{first, second}, func(i int) (*http.Request, error) {
				return http.NewRequestWithContext(t.Context(), http.MethodPost, []string{"http://first", "http://second"}[i], strings.NewReader("2 + 2?"))
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			took := time.Since(began)
			if from := resp.Request.URL.String(); from != row.wants || took > row.within {
				t.Errorf("%s: a stream of %s after %v", name, from, took)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(name, err)
			}
			resp.Body.Close()
		})
	}
}

// A short Retry-After is better than the second provider, and a long one is not.
func TestAShortRetryAfterMayBeWaitedFor(t *testing.T) {
	defer func(before backoff.Policy) { oneProvider = before }(oneProvider)
	oneProvider.MaxElapsed, oneProvider.MaxRetryAfter = 3*time.Second, 2*time.Second
	oneProvider.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: 2}}
	for after, want := range map[time.Duration]string{time.Second: "first", time.Minute: "second"} {
		synctest.Test(t, func(t *testing.T) {
			began, calls := time.Now(), 0
			first := func(context.Context, string) (string, error) {
				if calls++; calls == 1 {
					return "", backoff.RetryAfter(&backoffhttp.StatusError{Code: 429}, after)
				}
				return "first", nil
			}
			second := func(context.Context, string) (string, error) { return "second", nil }
			got, err := firstAnswer(t.Context(), []provider{{"first", guards(), first}, {"second", guards(), second}}, "why")
			if took := time.Since(began); got != want || err != nil || took > 2*time.Second || want == "second" && took > 0 {
				t.Errorf("%v: %q %v in %v", after, got, err, took)
			}
		})
	}
}

func TestTheFirstAnswerIsTaken(t *testing.T) {
	ctx, question := t.Context(), "why"
	askFirst := func(context.Context, string) (string, error) { return "", &backoffhttp.StatusError{Code: 503} }
	askSecond := func(context.Context, string) (string, error) { return "42", nil }

	providers := []provider{
		{"first", guards(), askFirst}, // by a plain http.Client and backoffhttp.Check; reads the answer to its end
		{"second", guards(), askSecond},
	}
	answer, err := firstAnswer(ctx, providers, question) // one call; the providers are made once

	if answer != "42" || err != nil {
		t.Error(answer, err)
	}
}

func TestTheFirstGoodStreamIsTaken(t *testing.T) {
	bad := faulty.Start(events("event: error\n\n"))
	defer bad.Close()
	good := faulty.Start(events("data: 4\n\n"))
	defer good.Close()
	ctx, question, urls := t.Context(), "2 + 2?", []string{bad.URL, good.URL}

	clients := []*http.Client{streaming("first"), streaming("second")}

	resp, err := firstStream(clients, func(i int) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodPost, urls[i], strings.NewReader(question)) // with the key of each
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); string(text) != "data: 4\n\n" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}
