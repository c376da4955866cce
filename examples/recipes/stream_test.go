package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

var model = &http.Client{Transport: &backoffhttp.Transport{
	Policy:  backoff.Policy{Name: "ask", AttemptTimeout: 10 * time.Second, Idempotency: backoff.Idempotent},
	Inspect: firstEvent,
}}

// Three streams begin with an error, in two forms and behind comments, and one breaks off. The last
// one is read from its first byte.
func Example_stream() {
	ctx := context.Background()
	server := faulty.Start(
		events("event: error\ndata: {\"type\": \"overloaded_error\"}\n\n"),
		events("data: {\"error\": {\"code\": 503}}\n\n"),
		events(""),
		events(": ping\n\n: ping\r\n\r\nevent: error\n\n"),
		events(": ping\n\ndata: {\"text\": \"four\"}\n\n"))
	defer server.Close()

	resp := must(model.Do(must(http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("2 + 2?")))))
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	fmt.Printf("%q %v after %d requests\n", answer, err, server.Requests())
	// Output: ": ping\n\ndata: {\"text\": \"four\"}\n\n" <nil> after 5 requests
}

// The first event is shorter than the beginning of an error, and the second one
// comes later than the timeout allows.
func TestAShortFirstEventBeginsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		client := &http.Client{Transport: &backoffhttp.Transport{
			Policy:  backoff.Policy{AttemptTimeout: 2 * time.Second},
			Inspect: firstEvent,
			Base: serverFunc(func(*http.Request) (*http.Response, error) {
				requests++
				body, stream := io.Pipe()
				go func() {
					io.WriteString(stream, "data: Hi\n\n")
					time.Sleep(3 * time.Second)
					io.WriteString(stream, "data: Ann\n\n")
					stream.Close()
				}()
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
			}),
		}}
		resp, err := client.Get("http://model")
		if err != nil {
			t.Fatalf("%d requests: %v", requests, err)
		}
		defer resp.Body.Close()
		if answer, err := io.ReadAll(resp.Body); string(answer) != "data: Hi\n\ndata: Ann\n\n" || err != nil || requests != 1 {
			t.Errorf("%q %v after %d requests", answer, err, requests)
		}
	})
}

func readAll(client *http.Client, req *http.Request, print func(string)) error {
	ctx, stop := context.WithCancelCause(req.Context())
	defer stop(nil)
	resp, err := client.Do(req.WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return eachLine(resp.Body, 30*time.Second, func() { stop(errors.New("the stream stalls")) }, print)
}

// The server sends an event each second, then none.
func TestAStreamThatStallsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		print := func(string) {}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model", strings.NewReader("2 + 2?"))
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: serverFunc(func(r *http.Request) (*http.Response, error) {
			body, stream := io.Pipe()
			go func() {
				for range 100 {
					io.WriteString(stream, "data: more\n\n")
					time.Sleep(time.Second)
				}
				<-r.Context().Done()
				stream.CloseWithError(context.Cause(r.Context()))
			}()
			return &http.Response{StatusCode: 200, Body: body}, nil
		})}
		began := time.Now()
		err = readAll(client, req, print)
		if took := time.Since(began); err == nil || err.Error() != "the stream stalls" || took != 129*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

type serverFunc func(*http.Request) (*http.Response, error)

func (f serverFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// events answers 200 with a stream.
func events(text string) faulty.Step {
	return func(s *faulty.Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		faulty.Text(text)(s, w, r)
	}
}
