package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// hosts are the upstreams. Each process of the service calls all of them.
var hosts = []string{slowHost, throttledHost, dyingHost}

const (
	slowHost      = "search.internal"
	throttledHost = "stock.internal"
	dyingHost     = "prices.internal"

	processes = 5
	person    = "ada" // who is on call
)

// A drill is the service, its upstreams, its users, and the person on call.
type drill struct {
	logs      string // directory
	token     string // of the person
	upstreams map[string]*process
	services  []*process
	users     users
	reader    reader
	happened  map[string]period // by the text of the step

	stop    func() // ends the users' requests and the reading
	running sync.WaitGroup
}

// A period is when a step began and ended.
type period struct{ began, ended time.Time }

// start starts everything, with the logs in a directory.
func start(logs string) (d *drill, err error) {
	ctx, stop := context.WithCancel(context.Background())
	d = &drill{logs: logs, token: rand.Text(), upstreams: make(map[string]*process), happened: make(map[string]period), stop: stop}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	addresses := make(map[string]string)
	for _, host := range hosts {
		if err := d.startUpstream(host, "127.0.0.1:0"); err != nil {
			return d, err
		}
		addresses[host] = d.upstreams[host].address
	}
	for n := range processes {
		p, err := d.launch(fmt.Sprintf("service-%d", n+1), task{Address: "127.0.0.1:0", Upstreams: addresses, Tokens: map[string]string{person: d.token}})
		if err != nil {
			return d, err
		}
		d.services = append(d.services, p)
	}
	d.users.services, d.reader.services = d.services, d.services
	d.running.Go(func() { d.users.run(ctx) })
	d.running.Go(func() { d.reader.run(ctx) })
	return d, nil
}

// launch starts a process with a log file of its name.
func (d *drill) launch(name string, t task) (*process, error) {
	t.Process = name
	return launch(t, filepath.Join(d.logs, name+".log"))
}

// startUpstream starts an upstream.
func (d *drill) startUpstream(host, address string) error {
	p, err := d.launch(host, task{Address: address})
	if err == nil {
		d.upstreams[host] = p
	}
	return err
}

// What happens in a drill, in this order.
const (
	becomesSlow   = slowHost + " becomes slow"
	turnedOff     = person + " switches retries to " + slowHost + " off"
	throttles     = throttledHost + " throttles"
	dies          = dyingHost + " dies"
	turnedOn      = person + " switches retries to " + slowHost + " on"
	startsAgain   = dyingHost + " is started again"
	everythingEnd = "the drill is over"
)

// runSteps executes the steps, and prints each, until the drill is over or ctx ends.
func (d *drill) runSteps(ctx context.Context, out io.Writer, length time.Duration) error {
	began := time.Now()
	for _, step := range []struct {
		after float64 // of length
		text  string
		do    func() error
	}{
		{0.14, becomesSlow, func() error { return d.upstreams[slowHost].send(slow) }},
		{0.29, turnedOff, func() error { return d.change(retriesOff) }},
		{0.33, throttles, func() error { return d.upstreams[throttledHost].send(throttled) }},
		{0.45, dies, func() error { d.upstreams[dyingHost].kill(); return nil }},
		{0.57, turnedOn, func() error { return d.change(retriesOn) }},
		{0.64, startsAgain, func() error { return d.restart(dyingHost) }},
		{1.00, everythingEnd, func() error { return nil }}, // a circuit is open for up to 6 s
	} {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(began.Add(time.Duration(step.after * float64(length))))):
		}
		before := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.text, err)
		}
		d.happened[step.text] = period{before, time.Now()}
		fmt.Fprintf(out, "%s  %s\n", time.Now().Format(time.TimeOnly), step.text)
	}
	return nil
}

// restart starts an upstream that was killed, at its former address. Until the
// system has released that, it tries again.
func (d *drill) restart(host string) (err error) {
	for range 50 {
		if err = d.startUpstream(host, d.upstreams[host].address); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// finish ends the users' requests, waits for the last response, and returns what
// can be read then.
func (d *drill) finish() ([]evidence, error) {
	d.stop()
	d.running.Wait()
	return d.reader.finish()
}

// close ends all processes.
func (d *drill) close() {
	d.stop()
	d.running.Wait()
	for _, p := range d.services {
		p.kill()
	}
	for _, p := range d.upstreams {
		p.kill()
	}
}

// The forms that switch retries to slowHost off, and on again.
var (
	retriesOff = map[string]string{"what": "retries", "name": nameOf(slowHost), "to": "off", "for": "30m", "why": "it is overloaded"}
	retriesOn  = map[string]string{"what": "retries", "name": nameOf(slowHost), "do": "clear", "why": "they were not the cause"}
)

// change sends a form to each process, since an override holds in one process.
func (d *drill) change(form map[string]string) error {
	var failed []error
	for _, p := range d.services {
		status, text, err := post(p, person, d.token, form)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s: status %d: %s", p.name, status, text)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// post sends a form to a process, as a person does with curl.
func post(p *process, who, token string, form map[string]string) (status int, text string, err error) {
	fields := make(url.Values)
	for key, value := range form {
		fields.Set(key, value)
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+p.address+"/debug/control", strings.NewReader(fields.Encode()))
	if err != nil {
		return 0, "", err
	}
	req.SetBasicAuth(who, token)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}
