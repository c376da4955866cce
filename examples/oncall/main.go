// Command oncall is a drill for the person on call. A service of five processes
// calls three upstreams. One of them becomes slow, one throttles, and one dies
// and is started again. Then retries to the slow one are switched off in all
// processes, and on again. What a person can see of it is on the live pages, in
// the logs and in the metrics: the program prints where they are, and in the end
// what they say. The document docs/oncall.md explains how to read them.
//
//	go run -C examples ./oncall            40 seconds, and a report
//	go run -C examples ./oncall -for 10m   the same, with time to look around
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// childVariable is the environment variable that makes the program a child.
const childVariable = "ONCALL_CHILD"

func main() {
	if os.Getenv(childVariable) != "" {
		signal.Ignore(os.Interrupt) // it is for the parent, which ends its children
		exitIf(runChild(os.Stdin, os.Stdout, os.Stderr))
		return
	}
	length := flag.Duration("for", 40*time.Second, "how long the drill takes")
	logs := flag.String("logs", "", "directory that keeps the logs; by default they are removed in the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exitIf(run(ctx, os.Stdout, *logs, *length))
}

func exitIf(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the drill until it is over or ctx ends, and prints the report.
func run(ctx context.Context, out io.Writer, logs string, length time.Duration) error {
	d, err := start(logs)
	if err != nil {
		return err
	}
	defer d.close()
	d.printPlaces(out)
	stopped := d.play(ctx, out, length)
	return errors.Join(stopped, d.report(out))
}
