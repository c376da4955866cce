package recipes

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// Each server is unavailable for one request. The POST without a key is sent
// once, and the POST with one twice.
func Example_post() {
	client := backoffhttp.Client(backoff.Policy{Name: "orders"})

	post := func(url, key string) (*http.Response, error) {
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader("an order"))
		if err != nil {
			return nil, err
		}
		if key != "" { // the server knows such keys, and makes one order of two requests
			req.Header.Set("Idempotency-Key", key)
		}
		return client.Do(req)
	}

	for _, key := range []string{"", "order-4711"} {
		server, err := faulty.Start(faulty.Status(503), faulty.Text("created"))
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := post(server.URL, key)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Printf("key %q: %s after %d requests\n", key, resp.Status, server.Requests())
		server.Close()
	}
	// Output:
	// key "": 503 Service Unavailable after 1 requests
	// key "order-4711": 200 OK after 2 requests
}
