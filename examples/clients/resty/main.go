// Command resty makes calls with resty, whose transport is
// [backoffhttp.Transport]. Watch three calls to a server that is first
// unavailable: the GET and the POST with a key are sent again, the POST without
// a key is not.
//
// Resty's own retries stay off, as they are by default: they have no budget,
// and would repeat every POST.
//
//	go run -C examples/clients ./resty
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/go-resty/resty/v2"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	log := journal.New(out)
	server := httptest.NewServer(&orders{log: log, seen: make(map[string]int)})
	defer server.Close()

	client := resty.New().SetBaseURL(server.URL).SetTransport(&backoffhttp.Transport{Policy: backoff.Policy{
		Name:     "orders",
		Schedule: backoff.Exponential{Initial: 50 * time.Millisecond},
		Observer: log.Observe,
	}})
	for _, call := range []struct{ method, path, key string }{
		{resty.MethodGet, "/orders/1", ""},
		{resty.MethodPost, "/orders/2", ""},
		{resty.MethodPost, "/orders/3", "order 3"},
	} {
		request := client.R().SetContext(ctx)
		if call.key != "" {
			request.SetHeader("Idempotency-Key", call.key)
		}
		log.Say("%s %s, key %q", call.method, call.path, call.key)
		resp, err := request.Execute(call.method, call.path)
		if err != nil {
			return err
		}
		log.Say("the client got: %s", resp.Status())
		if err := backoffhttp.Check(resp.RawResponse); err != nil { // to resty a 503 is no error
			log.Say("%v", err)
		}
	}
	log.Sum()
	return nil
}

// orders is a server that is unavailable at the first request for each order.
type orders struct {
	log  *journal.Journal
	seen map[string]int
}

func (o *orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.seen[r.URL.Path]++
	o.log.Say("    server: request %d for %s", o.seen[r.URL.Path], r.URL.Path)
	if o.seen[r.URL.Path] == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}
