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

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

var model = &http.Client{Transport: &backoffhttp.Transport{
	Policy:  backoff.Policy{Name: "ask", Idempotency: backoff.Idempotent}, // twice costs money, and does no harm
	Inspect: firstEvent,
}}

var errFirstEvent = backoff.OfClass(errors.New("the stream begins with an error"), backoff.ClassRetryable)

func firstEvent(resp *http.Response) error { // Transport{Inspect: firstEvent}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return backoffhttp.Check(resp)
	}
	stream := bufio.NewReader(resp.Body)
	start, err := stream.Peek(len(`data: {"error"`)) // the longer of the two below
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

// events answers 200 with a stream.
func events(text string) faulty.Step {
	return func(s *faulty.Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		faulty.Text(text)(s, w, r)
	}
}
