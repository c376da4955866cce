// Command chi is the server side of retries, with the router chi. Watch a charge
// that is sent twice, because an answer is lost, and made once. Then watch the
// server call another one 4 times, and the client not repeat that.
//
//	go run -C examples/clients ./chi
package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/examples/internal/journal"
	"github.com/gobackoff/backoff/idempotency"
)

func main() { journal.Main(run) }

// routes are the server. prices is a client of the third server.
func routes(log *journal.Journal, prices *http.Client, url string) http.Handler {
	r := chi.NewRouter()
	r.Use(backoffhttp.Inbound) // reads what the client says about its retries
	once := idempotency.Middleware(idempotency.SingleTenant, idempotency.Options{})
	r.With(once).Post("/charges/{customer}", func(w http.ResponseWriter, r *http.Request) {
		log.Say("    server: charges %s", chi.URLParam(r, "customer"))
		w.WriteHeader(http.StatusCreated)
	})
	r.Get("/price", func(w http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
		resp, err := prices.Do(req)
		if err == nil {
			defer resp.Body.Close()
			err = backoffhttp.Check(resp)
		}
		log.Say("    server: no price: %v", err)
		backoffhttp.WriteError(w, r, err) // has retried, so it says "do not retry"
	})
	return r
}

func run(ctx context.Context, out io.Writer) error {
	log := journal.New(out)
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer down.Close()
	prices := &http.Client{Transport: &backoffhttp.Transport{Policy: backoff.Policy{Name: "price"}, FailFast: true}}
	server := httptest.NewServer(routes(log, prices, down.URL))
	defer server.Close()
	network, err := (&fault.Injector{Plan: fault.Script(fault.Lost())}).Proxy(server.Listener.Addr().String())
	if err != nil {
		return err
	}
	defer network.Close()
	client := backoffhttp.Client(backoff.Policy{Name: "client", Observer: log.Observe, Idempotency: backoff.Keyed})
	for _, call := range [][2]string{{http.MethodPost, "/charges/ada"}, {http.MethodGet, "/price"}} {
		log.Say("%s %s", call[0], call[1])
		req, _ := http.NewRequestWithContext(ctx, call[0], network.URL()+call[1], http.NoBody)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		log.Say("the client got: %s", resp.Status)
	}
	log.Sum()
	return nil
}
