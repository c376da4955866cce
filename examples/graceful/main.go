// Command graceful stops at SIGTERM or Ctrl-C as a service should. Watch what
// follows the signal: an attempt under way finishes, a wait ends at once, and
// no new attempt begins. The exit code of the program is 1 if an order was
// given up. (That of go run is always 1 after Ctrl-C.)
//
//	go run -C examples ./graceful         press Ctrl-C during an attempt of 1 s
//	go run -C examples ./graceful -down   press Ctrl-C during a wait
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

func main() {
	down := flag.Bool("down", false, "the server is down")
	flag.Parse()
	stopping, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(stopping, stop) // a second signal kills the program, as by default
	if err := run(stopping, os.Stdout, *down); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run sends one order after another until stopping ends.
func run(stopping context.Context, out io.Writer, down bool) error {
	server := faulty.Start(func(_ *faulty.Server, w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Second)
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	defer server.Close()
	log := journal.New(out)
	defer log.Sum()
	context.AfterFunc(stopping, func() { log.Say("-- the signal") })
	policy := backoff.Policy{Name: "send", Schedule: backoff.Constant(time.Minute), Jitter: backoff.EqualJitter, Observer: log.Observe}
	for order := 1; stopping.Err() == nil; order++ {
		err := policy.Do(stopping, func(ctx context.Context) error { // the signal ends the policy's context,
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // but not the attempt's
			defer cancel()
			log.Say("order %d: an attempt begins", order)
			return send(ctx, server.URL)
		})
		if err != nil {
			return fmt.Errorf("order %d was not sent: %w", order, err)
		}
	}
	return nil
}

// send is one attempt.
func send(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, http.NoBody)
	if err != nil {
		return backoff.Permanent(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return errors.Join(backoffhttp.Check(resp), resp.Body.Close())
}
