// Command oncall is a drill for the person on call. A service calls three
// upstreams. One of them becomes slow, one throttles, and one dies and is started
// again. Retries to the slow one are switched off, and on again. The program
// prints the address of the live page, and what the page says. The document
// docs/oncall.md explains how to read the page, the log and the metrics.
//
//	go run -C examples ./oncall            40 seconds
//	go run -C examples ./oncall -for 10m   the same, with time to look around
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	length := flag.Duration("for", 40*time.Second, "how long the drill takes")
	log := flag.String("log", os.DevNull, "file that the service logs to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	file, err := os.Create(*log)
	if err == nil {
		err = run(ctx, os.Stdout, file, *length)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The upstreams.
const (
	slowHost      = "search.internal"
	throttledHost = "stock.internal"
	dyingHost     = "prices.internal"

	person = "ada" // who is on call
)

var hosts = [...]string{slowHost, throttledHost, dyingHost}

// A drill is the service, its upstreams, its users, and the person on call.
type drill struct {
	upstreams map[string]*upstream
	service   *httptest.Server
	token     string // of the person
	users     users
}

// start starts the upstreams and the service.
func start(log io.Writer) *drill {
	d := &drill{upstreams: make(map[string]*upstream), token: rand.Text()}
	addresses := make(map[string]string)
	for _, host := range hosts {
		u := newUpstream()
		d.upstreams[host], addresses[host] = u, u.Addr
	}
	d.service = httptest.NewServer(newService(addresses, map[string]string{person: d.token}, slog.New(slog.NewJSONHandler(log, nil))))
	d.users.service = d.service.URL
	return d
}

// run runs the drill until it is over or ctx ends.
func run(ctx context.Context, out, log io.Writer, length time.Duration) error {
	d := start(log)
	defer d.service.Close()
	fmt.Fprintf(out, "page     %s/debug/backoff/\nmetrics  %[1]s/debug/backoff/metrics\n\n", d.service.URL)
	fmt.Fprintf(out, "curl --fail-with-body -sSu %s:%s -d what=retries -d name=%s -d to=off -d why=drill %s/debug/control\n\n", person, d.token, nameOf(slowHost), d.service.URL)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); d.users.run(ctx) }()
	err := d.runSteps(ctx, out, length)
	stop()
	<-ended
	for _, host := range hosts {
		fmt.Fprintf(out, "%s: %d of %d users got an error\n", host, d.users.hurt[host], d.users.all[host])
	}
	return err
}

// runSteps executes the steps, and prints each, and what the page said before.
func (d *drill) runSteps(ctx context.Context, out io.Writer, length time.Duration) error {
	began := time.Now()
	for _, step := range []struct {
		after float64 // of length
		text  string
		do    func() error
	}{
		{0.14, slowHost + " becomes slow", func() error { return d.upstreams[slowHost].become(slow) }},
		{0.29, person + " switches retries to " + slowHost + " off", func() error {
			return d.change(person, d.token, "to=off&for=30m&why=it+is+overloaded")
		}},
		{0.33, throttledHost + " throttles", func() error { return d.upstreams[throttledHost].become(throttled) }},
		{0.45, dyingHost + " dies", func() error { return d.upstreams[dyingHost].become(dead) }},
		{0.57, person + " switches retries to " + slowHost + " on", func() error {
			return d.change(person, d.token, "do=clear&why=they+were+not+the+cause")
		}},
		{0.64, dyingHost + " is started again", func() error { return d.upstreams[dyingHost].become(healthy) }},
		{1.00, "the drill is over", func() error { return nil }}, // a circuit is open for up to 6 s
	} {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(began.Add(time.Duration(step.after * float64(length))))):
		}
		if err := errors.Join(d.printHeadline(out), step.do()); err != nil {
			return fmt.Errorf("%s: %w", step.text, err)
		}
		fmt.Fprintf(out, "%s  %s\n", time.Now().Format(time.TimeOnly), step.text)
	}
	return nil
}

// printHeadline prints what the page says first.
func (d *drill) printHeadline(out io.Writer) error {
	resp, err := http.Get(d.service.URL + "/debug/backoff/data")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var page struct {
		Headline struct {
			Sentences []struct{ Text string }
		}
	}
	err = json.NewDecoder(resp.Body).Decode(&page)
	for _, s := range page.Headline.Sentences {
		fmt.Fprintln(out, "         ", s.Text)
	}
	return err
}

// change changes the retries to slowHost, as a person does with curl.
func (d *drill) change(who, token, form string) error {
	fields, err := url.ParseQuery("what=retries&name=" + nameOf(slowHost) + "&" + form)
	if err != nil {
		return err
	}
	address := strings.Replace(d.service.URL, "://", "://"+who+":"+token+"@", 1) + "/debug/control"
	resp, err := http.PostForm(address, fields)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	return err
}
