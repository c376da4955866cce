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
	server := faulty.Start(faulty.Status(http.StatusServiceUnavailable), faulty.Status(http.StatusOK))
	defer server.Close()

	var metrics backoffmetrics.Metrics
	http.Handle("/metrics", metrics.Handler())

	var routes http.ServeMux // of the service that is called; it serves nothing here
	for _, pattern := range []string{"/orders/{id}", "/items/{id}"} {
		routes.Handle(pattern, http.NotFoundHandler())
	}
	endpoint := func(r *http.Request) string {
		_, pattern := routes.Handler(r)
		return r.Method + " " + r.URL.Host + pattern // "GET shop.example/orders/{id}"
	}
	client := &http.Client{Transport: &backoffhttp.Transport{
		Policy:   backoff.Policy{Name: "shop", Observer: metrics.Observe},
		Endpoint: endpoint, // names the series
		Key:      endpoint, // a circuit and a budget for each; without it for the host
		// FailFast: true, // else calls to a route that is down wait until their deadline
	}}

	for _, path := range []string{"/orders/17", "/orders/18", "/items/1"} {
		must(client.Get(server.URL + path)).Body.Close()
	}
	scraped := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(scraped, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(scraped.Body.String()) {
		if strings.HasPrefix(line, "backoff_calls_total{") && !strings.Contains(line, `"failed"`) ||
			strings.HasPrefix(line, "backoff_breaker_state{") && strings.Contains(line, `"closed"`) {
			fmt.Print(strings.Replace(line, server.Addr, "shop.example", 1))
		}
	}
	// Output:
	// backoff_calls_total{operation="shop",endpoint="GET shop.example/items/{id}",outcome="first"} 1
	// backoff_calls_total{operation="shop",endpoint="GET shop.example/items/{id}",outcome="retried"} 0
	// backoff_calls_total{operation="shop",endpoint="GET shop.example/orders/{id}",outcome="first"} 1
	// backoff_calls_total{operation="shop",endpoint="GET shop.example/orders/{id}",outcome="retried"} 1
	// backoff_breaker_state{breaker="GET shop.example/items/{id}",state="closed"} 1
	// backoff_breaker_state{breaker="GET shop.example/orders/{id}",state="closed"} 1
}
