// Command charge sends 10,000 charges through a network that loses one answer
// in five. Watch the columns unknown and double: a client that gives up does
// not know what happened, one that simply tries again charges twice.
//
// With an Idempotency-Key every order is charged exactly once.
//
//	go run -C examples ./charge
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest/fault"
)

const (
	orders  = 10_000
	workers = 16
)

func main() {
	if err := run(context.Background(), os.Stdout, orders); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// transport returns the transport of a client. repeat is the only difference
// between the clients.
func transport(repeat backoff.Idempotency) *backoffhttp.Unguarded {
	return &backoffhttp.Unguarded{ // the default budget would not allow 20 % of retries
		Base: &http.Transport{MaxIdleConnsPerHost: workers},
		Policy: backoff.Policy{
			Name:        "charge",
			MaxAttempts: 12, // 0.2^12 of the orders get no answer
			Schedule:    backoff.Exponential{Initial: time.Millisecond, Max: 50 * time.Millisecond},
			Idempotency: repeat,
		},
	}
}

func run(ctx context.Context, out io.Writer, n int) error {
	fmt.Fprintf(out, "%d orders, and a network that loses the answer to one request in five, after the charge was made.\n\n", n)
	fmt.Fprintf(out, "%-31s %9s %9s %9s %9s %9s %9s\n", "", "requests", "dropped", "confirmed", "unknown", "lost", "double")
	for _, way := range []struct {
		name   string
		repeat backoff.Idempotency
		keyed  bool
	}{
		{"not sent again (the default)", backoff.NonIdempotent, false},
		{"sent again", backoff.Idempotent, false},
		{"sent again under a key", backoff.Keyed, true},
	} {
		result, err := charge(ctx, transport(way.repeat), way.keyed, n)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-31s %v\n", way.name, result)
	}
	return nil
}

// A result counts what happened to the orders.
type result struct {
	orders, confirmed int // by an answer
	once, double      int // charged once, and more than once
	unanswered        int // the client does not know
	lost              int // confirmed, but not charged
	requests, dropped int // by the network
}

// String returns the columns of the table.
func (r result) String() string {
	return fmt.Sprintf("%9d %9d %9d %9d %9d %9d", r.requests, r.dropped, r.confirmed, r.unanswered, r.lost, r.double)
}

// charge sends n orders to a service, through a network that drops answers.
func charge(ctx context.Context, t *backoffhttp.Unguarded, keyed bool, n int) (result, error) {
	service := startService(keyed)
	defer service.Close()
	var requests, dropped atomic.Int64
	dropping := &fault.Injector{Plan: func(a fault.Attempt) fault.Fault {
		requests.Add(1)
		if rand.New(rand.NewPCG(1, uint64(a.Number))).Float64() >= 0.2 {
			return fault.OK()
		}
		dropped.Add(1)
		return fault.Lost()
	}}
	network, err := dropping.Proxy(service.Listener.Addr().String())
	if err != nil {
		return result{}, err
	}
	defer network.Close()
	defer t.CloseIdleConnections()

	confirmed := send(ctx, &http.Client{Transport: t}, network.URL(), n)
	r := service.audit(confirmed)
	r.requests, r.dropped = int(requests.Load()), int(dropped.Load())
	return r, ctx.Err()
}

// send places orders 0 to n-1, and returns which of them were confirmed.
func send(ctx context.Context, client *http.Client, url string, n int) []bool {
	confirmed := make([]bool, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				confirmed[i] = place(ctx, client, url, fmt.Sprint("order ", i)) == nil
			}
		})
	}
	all.Wait()
	return confirmed
}

// place sends one order. It leaves retries to the client's transport.
func place(ctx context.Context, client *http.Client, url, order string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(order))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := backoffhttp.Check(resp); err != nil {
		return err
	}
	receipt, err := io.ReadAll(resp.Body)
	if err == nil && string(receipt) != "charged "+order {
		err = errors.New("somebody else's receipt")
	}
	return err
}
