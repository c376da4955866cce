// Command observe shows how to watch a client. Watch the page at the address
// that it prints first, or its log: a server is flaky, then slow, then down,
// and then recovers, and the circuit opens and closes.
//
//	go run -C examples ./observe           20 seconds, and a summary
//	go run -C examples ./observe -for 10m  the same again and again
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

const (
	cycle = 20 * time.Second // of the server's phases
	load  = 50               // calls per second
)

func main() {
	length := flag.Duration("for", cycle, "how long to run")
	address := flag.String("addr", "127.0.0.1:0", "where to serve the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *address, *length); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, address string, length time.Duration) error {
	server, err := startServer(cycle)
	if err != nil {
		return err
	}
	defer server.http.Close()
	c := newClient(out, server.url, cycle)
	defer c.http.CloseIdleConnections()
	page, err := c.serve(address)
	if err != nil {
		return err
	}
	defer page.Close()
	fmt.Fprintf(out, "page     http://%s/\nmetrics  http://%s/metrics\n\n", page.Addr, page.Addr)

	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	c.run(ctx)
	fmt.Fprintf(out, "\n%s", &c.tally)
	return nil
}
