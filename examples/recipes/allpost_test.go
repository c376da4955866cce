package recipes

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// A server that says 429 has not sent the message. One that says 503 may have.
func Example_allPOST() {
	client := backoffhttp.Client(backoff.Policy{Name: "slack", Idempotency: backoffhttp.RepeatAfter429})

	for _, failure := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		server := faulty.Start(faulty.Status(failure), faulty.Text("sent"))
		resp := must(client.Post(server.URL, "text/plain", strings.NewReader("hello")))
		resp.Body.Close()
		fmt.Printf("after a %d: %s, %d requests\n", failure, resp.Status, server.Requests())
		server.Close()
	}
	// Output:
	// after a 429: 200 OK, 2 requests
	// after a 503: 503 Service Unavailable, 1 requests
}
