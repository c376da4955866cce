package recipes

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// Without guards, so that the requests below are those of its policy alone.
var stock = &http.Client{Transport: &backoffhttp.Unguarded{Policy: backoff.Policy{Name: "stock"}}}

func getStock(ctx context.Context, url string) (string, error) { return textOf(ctx, stock, url) }

var orders = &http.Client{Transport: &backoffhttp.Transport{ // of a caller
	Policy:    backoff.Policy{Name: "order"},
	Propagate: func(u *url.URL) bool { return isOurs(u.Hostname()) }, // nil means to no host
}}

func isOurs(host string) bool { return host == "127.0.0.1" }

// The warehouse is down. A client calls the shop, and both retry: 16 requests
// would arrive if the shop answered by http.Error. The second call is for a
// request that is a retry itself.
func Example_between() {
	warehouse := faulty.Start(faulty.Status(http.StatusServiceUnavailable))
	defer warehouse.Close()

	order := func(w http.ResponseWriter, r *http.Request) {
		stock, err := getStock(r.Context(), warehouse.URL) // retries
		if err != nil {
			backoffhttp.WriteError(w, r, err) // 503, and "do not retry"; log err yourself
			return
		}
		fmt.Fprintln(w, "in stock:", stock)
	}
	handler := backoffhttp.Inbound(http.HandlerFunc(order))

	shop := httptest.NewServer(handler)
	defer shop.Close()
	front := func(_ http.ResponseWriter, r *http.Request) {
		resp := must(orders.Do(must(http.NewRequestWithContext(r.Context(), http.MethodGet, shop.URL, nil))))
		resp.Body.Close()
		fmt.Println(resp.Status, "after", warehouse.Requests(), "requests to the warehouse")
	}

	for _, attempt := range []string{"1", "2"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(backoffhttp.HeaderAttempt, attempt)
		backoffhttp.Inbound(http.HandlerFunc(front)).ServeHTTP(httptest.NewRecorder(), r)
	}
	// Output:
	// 503 Service Unavailable after 4 requests to the warehouse
	// 503 Service Unavailable after 5 requests to the warehouse
}
