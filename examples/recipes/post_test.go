package recipes

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// Each server is unavailable for one request. The POST without a key is sent
// once, and the POST with one twice.
func Example_post() {
	client := backoffhttp.Client(backoff.Policy{Name: "orders"})

	post := func(url, key string) error {
		req := must(http.NewRequest(http.MethodPost, url, strings.NewReader("an order")))
		if key != "" { // the server knows such keys, and makes one order of two requests
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err // no response
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp) // an error for a response such as a 503
	}

	for _, key := range []string{"", "order-4711"} {
		server := faulty.Start(faulty.Status(503), faulty.Text("created"))
		err := post(server.URL, key)
		fmt.Printf("key %q, %d requests: %v\n", key, server.Requests(), err)
		server.Close()
	}
	// Output:
	// key "", 1 requests: backoff: orders: gave up after 1 attempt: not idempotent (Idempotency); a POST without Idempotency-Key: status 503 Service Unavailable
	// key "order-4711", 2 requests: <nil>
}

// Whatever ended the call, the server may have taken the order.
func TestAPostWithoutAKeyThatMayHaveArrivedIsNotRepeatable(t *testing.T) {
	answers := []http.HandlerFunc{
		func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
	}
	for n, answer := range answers {
		for _, limit := range []int{0, 1} {
			server := httptest.NewServer(answer)
			client := backoffhttp.Client(backoff.Policy{MaxAttempts: limit})
			client.Timeout = 500 * time.Millisecond
			resp, err := client.Post(server.URL, "text/plain", strings.NewReader("an order"))
			if err == nil {
				err = backoffhttp.Check(resp)
				resp.Body.Close()
			}
			gaveUp, ok := errors.AsType[*backoff.Error](err)
			if n > 0 && !ok || ok && gaveUp.Repeatable() { // net/http mostly puts a text of its own around its Timeout
				t.Errorf("%d, at most %d attempts: %v", n, limit, err)
			}
			server.CloseClientConnections()
			server.Close()
		}
	}
}
