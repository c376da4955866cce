// Command observe shows how to watch a client. Watch the page at the address
// that it prints first, or its log: a server is flaky, then slow, then down,
// and then recovers, and the circuit opens and closes.
//
//	go run -C examples ./observe           20 seconds
//	go run -C examples ./observe -for 10m  the same again and again
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffmetrics/page"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/examples/internal/traffic"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

const (
	cycle          = 20 * time.Second       // of the server's phases
	load           = 50                     // calls per second
	attemptTimeout = 200 * time.Millisecond // how long the client waits for a response
)

func main() {
	length := flag.Duration("for", cycle, "how long to run")
	address := flag.String("addr", "127.0.0.1:0", "where to serve the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, cancel := context.WithTimeout(ctx, *length)
	defer cancel()
	run(ctx, os.Stdout, listener, cycle)
}

// run makes calls until ctx ends, and serves the page and the metrics.
func run(ctx context.Context, out io.Writer, listener net.Listener, cycle time.Duration) {
	upstream := httptest.NewServer(&server{began: time.Now(), cycle: cycle})
	defer upstream.Close()
	var metrics backoffmetrics.Metrics
	watching := &http.Server{Handler: page.Handler(&metrics), ReadHeaderTimeout: 10 * time.Second}
	go watching.Serve(listener)
	defer watching.Close()
	fmt.Fprintf(out, "page     http://%s/\nmetrics  http://%[1]s/metrics\n\n", listener.Addr())

	log := slog.New(slog.NewTextHandler(out, nil))
	observer := backoff.JoinObservers(backoffslog.New(log, &backoffslog.Options{PerSecond: 1}), metrics.Observe)
	to := &endpoint.Endpoint{Name: "GET orders"}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: load}}
	defer client.CloseIdleConnections()
	service := newService(observer, &metrics, cycle)
	url := upstream.URL + "/orders?token=hunter2" // the secret is not logged
	traffic.Steady(ctx, load, func() {
		service.Do(endpoint.With(ctx, to), func(ctx context.Context) error {
			return to.Do(ctx, func(ctx context.Context) error { return traffic.Get(ctx, client, url) })
		})
	})
}

// newService returns a policy and what guards the service, which the metrics watch.
// The breaker first opens for a twentieth of a cycle.
func newService(observer backoff.Observer, metrics *backoffmetrics.Metrics, cycle time.Duration) backoff.Doer {
	service := &guard.Service{Budget: new(backoff.RetryBudget), Breaker: &backoff.Breaker{
		Name: "orders", Observer: observer, Classify: backoffhttp.Classify,
		OpenFor: backoff.Exponential{Initial: cycle / 20, Max: cycle / 8}, ConsecutiveSpan: cycle / 40,
	}}
	metrics.WatchBudget("orders", service.Budget)
	metrics.WatchBreaker("orders", service.Breaker)
	return service.With(backoff.Policy{
		Name: "orders", Observer: observer, Classify: backoffhttp.Classify,
		AttemptTimeout: attemptTimeout, Schedule: backoff.Exponential{Initial: 50 * time.Millisecond},
	})
}
