package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// A step is what happens after a part of the drill's time.
type step struct {
	after float64
	text  string
	do    func() error
}

// steps are the drill.
func (d *drill) steps() []step {
	return []step{
		{0.10, slowHost + " becomes slow", func() error { return d.upstreams[slowHost].order(slow) }},
		{0.25, person + " switches retries to " + slowHost + " off", func() error {
			return d.change(retriesOff(slowHost, "it is overloaded"))
		}},
		{0.30, throttledHost + " throttles", func() error { return d.upstreams[throttledHost].order(throttled) }},
		{0.45, dyingHost + " dies", func() error { d.upstreams[dyingHost].kill(); return nil }},
		{0.60, person + " switches retries to " + slowHost + " on", func() error {
			return d.change(retriesOn(slowHost, "they were not the cause"))
		}},
		{0.65, dyingHost + " is started again", func() error { return d.restart(dyingHost) }},
		{1.00, "the drill is over", func() error { return nil }},
	}
}

// play runs the drill, and says what happens, until it is over or ctx ends.
func (d *drill) play(ctx context.Context, out io.Writer, length time.Duration) error {
	began := time.Now()
	for _, s := range d.steps() {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(began.Add(time.Duration(s.after * float64(length))))):
		}
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.text, err)
		}
		fmt.Fprintf(out, "%s  %s\n", time.Now().Format(time.TimeOnly), s.text)
	}
	return nil
}

// printPlaces prints where to look, and how to switch retries off and on.
func (d *drill) printPlaces(out io.Writer) {
	for _, p := range d.services {
		fmt.Fprintf(out, "%s  page http://%s/debug/backoff/  metrics http://%[2]s/debug/backoff/metrics  log %s\n", p.task.Process, p.address, p.log)
	}
	fmt.Fprintf(out, "\nretries to %s off, in all processes, and on again:\n", slowHost)
	for _, fields := range []string{
		`-d what=retries -d name=search -d to=off -d for=30m -d why="it is overloaded"`,
		`-d do=clear -d what=retries -d name=search -d why="it is well again"`,
	} {
		fmt.Fprintf(out, "  for p in %s; do curl --fail-with-body -sSu %s:%s %s http://$p/debug/control; done\n", strings.Join(d.users.services, " "), person, d.token, fields)
	}
	fmt.Fprintln(out)
}
