package recipes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// tokens goes around a Transport: all attempts of a call have the same token.
type tokens struct {
	host string // with its port; a redirect to another one gets no token
	next http.RoundTripper
	get  func(ctx context.Context, rejected string) (string, error) // fetches one if the current one was rejected
}

func (t *tokens) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != t.host {
		return t.next.RoundTrip(req)
	}
	if req.GetBody != nil {
		defer req.Body.Close() // send takes others
	}
	token, err := t.get(req.Context(), "")
	if err != nil {
		return nil, err
	}
	resp, err := t.send(req, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || req.Body != nil && req.GetBody == nil {
		return resp, err
	}
	io.CopyN(io.Discard, resp.Body, 4<<10) // or its connection would be lost
	resp.Body.Close()
	if token, err = t.get(req.Context(), token); err != nil {
		return nil, err
	}
	return t.send(req, token)
}

func (t *tokens) send(req *http.Request, token string) (resp *http.Response, err error) {
	req = req.Clone(req.Context())
	if req.GetBody != nil {
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return t.next.RoundTrip(req)
}

// The first token has expired, and then the server is unavailable for a request.
// The other server accepts no token.
func Example_token() {
	for _, script := range [][]faulty.Step{
		{faulty.Status(401), faulty.Status(503), faulty.Text("created")},
		{faulty.Status(401)},
	} {
		server := faulty.Start(script...)
		host, current := server.Addr, "expired"
		get := func(_ context.Context, rejected string) (string, error) {
			if rejected == current {
				current = "fetched"
			}
			return current, nil
		}

		client := &http.Client{Transport: &tokens{host: host, get: get, next: &backoffhttp.Transport{
			Policy: backoff.Policy{Name: "orders"},
			Key:    func(r *http.Request) string { return r.URL.Host }, // each token is not another tenant
		}}}

		resp := must(client.Do(must(http.NewRequest(http.MethodPut, server.URL, strings.NewReader("an order")))))
		resp.Body.Close()
		fmt.Println(server.Requests(), "requests:", backoffhttp.Check(resp))
		server.Close()
	}
	// Output:
	// 3 requests: <nil>
	// 2 requests: status 401 Unauthorized
}
