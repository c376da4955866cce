package recipes

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// Both routes are of one host, and the first answer of one of them is a 503.
func Example_metrics() {
	server, err := faulty.Start(faulty.Status(http.StatusServiceUnavailable), faulty.Status(http.StatusOK))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	var metrics backoffmetrics.Metrics
	http.Handle("/metrics", metrics.Handler())

	client := &http.Client{Transport: &backoffhttp.Transport{
		Policy: backoff.Policy{Name: "shop", Observer: metrics.Observe},
		Endpoint: func(r *http.Request) string {
			route, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // "orders" of /orders/17
			return r.Method + " " + r.URL.Host + "/" + route
		},
	}}

	for _, path := range []string{"/orders/17", "/orders/18", "/items/1"} {
		resp, err := client.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	scraped := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(scraped, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(scraped.Body.String()) {
		if strings.HasPrefix(line, "backoff_calls_total{") && !strings.Contains(line, `"failed"`) {
			fmt.Print(strings.Replace(line, server.Addr, "shop", 1))
		}
	}
	// Output:
	// backoff_calls_total{operation="shop",endpoint="GET shop/items",outcome="first"} 1
	// backoff_calls_total{operation="shop",endpoint="GET shop/items",outcome="retried"} 0
	// backoff_calls_total{operation="shop",endpoint="GET shop/orders",outcome="first"} 1
	// backoff_calls_total{operation="shop",endpoint="GET shop/orders",outcome="retried"} 1
}
