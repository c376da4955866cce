package recipes

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/guard"
)

// The database of one tenant is down, so the circuit of that tenant opens. The
// other tenant is served by the same host.
func Example_tenants() {
	ctx := guard.WithFailFast(context.Background()) // to see the refusal
	server := faulty.Start(func(_ *faulty.Server, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Tenant") == "acme" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	defer server.Close()

	client := &http.Client{Transport: &backoffhttp.Transport{
		Policy: backoff.Policy{Name: "reports"},
		Key:    func(r *http.Request) string { return r.URL.Host + "#" + r.Header.Get("X-Tenant") },
	}}

	get := func(tenant string) error {
		req := must(http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil))
		req.Header.Set("X-Tenant", tenant)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp)
	}
	var err error
	for range 100 {
		if err = get("acme"); errors.Is(err, backoff.ErrOpen) {
			break
		}
	}
	fmt.Println("acme is refused:", errors.Is(err, backoff.ErrOpen))
	fmt.Println("zenith:", get("zenith"))
	// Output:
	// acme is refused: true
	// zenith: <nil>
}
