package recipes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffmetrics/page"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/guard"
)

var (
	metrics backoffmetrics.Metrics
	hosts   = &guard.Services{New: func(host string) *guard.Service { // such as "http://example.com"
		return &guard.Service{Name: host, Observer: metrics.Observe}
	}}
)

func clientFor(policy backoff.Policy) *http.Client {
	policy.Observer = metrics.Observe
	return &http.Client{Timeout: 5 * time.Second, Transport: &backoffhttp.Transport{
		Policy:   policy,
		Services: hosts,
	}}
}

func debug(mux *http.ServeMux) {
	mux.Handle("/debug/backoff/", page.Handler(&metrics)) // not for users
}

// Two clients find that the host is down. The third one sends it no request, but for a probe
// now and then.
func Example_shared() {
	host := faulty.Start(faulty.Status(http.StatusServiceUnavailable))
	defer host.Close()
	mux := http.NewServeMux()
	debug(mux)
	get := func(name string) error {
		req, err := http.NewRequestWithContext(guard.WithFailFast(context.Background()), "GET", host.URL, nil)
		resp, err := clientFor(backoff.Policy{Name: name}).Do(must(req, err))
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for began := time.Now(); time.Since(began) < 10*time.Second && !errors.Is(get("orders"), backoff.ErrOpen); {
		_ = get("users")
		time.Sleep(200 * time.Millisecond)
	}
	before := host.Requests()
	for range 15 {
		_ = get("reports")
	}

	fmt.Println("15 calls of reports, hardly a request:", host.Requests()-before < 4)
	shown := httptest.NewRecorder()
	mux.ServeHTTP(shown, httptest.NewRequest("GET", "http://localhost/debug/backoff/metrics", nil))
	for line := range strings.Lines(shown.Body.String()) {
		if strings.HasPrefix(line, "backoff_breaker_transitions_total") && strings.Contains(line, `from="closed"`) {
			fmt.Print(strings.Replace(line, host.URL, "http://host", 1))
		}
	}
	// Output:
	// 15 calls of reports, hardly a request: true
	// backoff_breaker_transitions_total{breaker="http://host",from="closed",to="open",trigger="consecutive"} 1
}
