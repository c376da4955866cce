package recipes

import (
	"bufio"
	"bytes"
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

var errFirstEvent = backoff.OfClass(errors.New("the stream begins with an error"), backoff.ClassRetryable)

func firstEvent(resp *http.Response) error { // Transport{Inspect: firstEvent}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return backoffhttp.Check(resp)
	}
	stream := bufio.NewReader(resp.Body)
	start, err := stream.Peek(1)
	for err == nil && len(start) < len(`data: {"error"`) && !bytes.HasSuffix(start, []byte("\n")) {
		start, err = stream.Peek(len(start) + 1) // not beyond the first line: more may come much later
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{stream, resp.Body} // the caller reads it again
	switch {
	case bytes.HasPrefix(start, []byte("event: error")), bytes.HasPrefix(start, []byte(`data: {"error"`)):
		return errFirstEvent
	case err == io.EOF && len(start) > 0:
		return nil // the whole stream is that short
	}
	return err // of a stream that broke off before its first event
}

// Two streams begin with an error, each in its own form, and one breaks off.
// The fourth one is read from its first byte.
func Example_stream() {
	ctx := context.Background()
	server := faulty.Start(
		events("event: error\ndata: {\"type\": \"overloaded_error\"}\n\n"),
		events("data: {\"error\": {\"code\": 503}}\n\n"),
		events(""),
		events("data: {\"text\": \"four\"}\n\n"))
	defer server.Close()

	resp := must(model.Do(must(http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("2 + 2?")))))
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	fmt.Printf("%q %v after %d requests\n", answer, err, server.Requests())
	// Output: "data: {\"text\": \"four\"}\n\n" <nil> after 4 requests
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

type serverFunc func(*http.Request) (*http.Response, error)

func (f serverFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// events answers 200 with a stream.
func events(text string) faulty.Step {
	return func(s *faulty.Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		faulty.Text(text)(s, w, r)
	}
}
