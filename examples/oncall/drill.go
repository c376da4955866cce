package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A drill is the service, its upstreams and its users.
type drill struct {
	token     string // of ada, who is on call
	upstreams map[string]*process
	services  []*process
	users     users
	watch     watcher

	logs     string
	keepLogs bool

	leave func() // ends the users' requests
	asked sync.WaitGroup
}

// person is who is on call.
const person = "ada"

// start starts everything. If logs is empty, the logs are removed in the end.
func start(logs string) (d *drill, err error) {
	d = &drill{token: rand.Text(), upstreams: make(map[string]*process), logs: logs, keepLogs: logs != "", leave: func() {}}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.keepLogs {
		err = os.MkdirAll(logs, 0o755)
	} else {
		d.logs, err = os.MkdirTemp("", "oncall")
	}
	if err != nil {
		return d, err
	}
	addresses := make(map[string]string)
	for _, host := range hosts {
		if err := d.startUpstream(host, "127.0.0.1:0"); err != nil {
			return d, err
		}
		addresses[host] = d.upstreams[host].address
	}
	for n := range processes {
		name := fmt.Sprintf("service-%d", n+1)
		p, err := launch(task{Address: "127.0.0.1:0", Process: name, Upstreams: addresses, Tokens: map[string]string{person: d.token}}, d.logOf(name))
		if err != nil {
			return d, err
		}
		d.services = append(d.services, p)
		d.users.services = append(d.users.services, p.address)
		d.watch.services = append(d.watch.services, p.address)
	}
	ctx, leave := context.WithCancel(context.Background())
	d.leave = leave
	d.asked.Go(func() { d.users.run(ctx) })
	d.asked.Go(func() { d.watch.run(ctx) })
	return d, nil
}

// logOf returns the file for the log of a process.
func (d *drill) logOf(name string) string { return filepath.Join(d.logs, name+".log") }

// startUpstream starts an upstream.
func (d *drill) startUpstream(host, address string) (err error) {
	p, err := launch(task{Address: address, Process: host}, d.logOf(host))
	if err == nil {
		d.upstreams[host] = p
	}
	return err
}

// restart starts an upstream that was killed, at its former address. Until the
// system has released that, it tries again.
func (d *drill) restart(host string) (err error) {
	address := d.upstreams[host].address
	for range 50 {
		if err = d.startUpstream(host, address); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// settle ends the users' requests, and waits for the last answer.
func (d *drill) settle() {
	d.leave()
	d.asked.Wait()
}

// close ends all processes.
func (d *drill) close() {
	d.settle()
	for _, p := range d.services {
		p.kill()
	}
	for _, p := range d.upstreams {
		p.kill()
	}
	if !d.keepLogs {
		_ = os.RemoveAll(d.logs)
	}
}

// change sends a form to all processes of the service: an override holds in one
// process alone.
func (d *drill) change(form url.Values) error {
	var failed []error
	for _, p := range d.services {
		status, text, err := post("http://"+p.address+"/debug/control", d.token, form)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s: status %d: %s", p.task.Process, status, text)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// retriesOff is the form that switches the retries to a host off, and retriesOn
// the one that ends it.
func retriesOff(host, why string) url.Values {
	return url.Values{"what": {"retries"}, "name": {nameOf(host)}, "to": {"off"}, "for": {"30m"}, "why": {why}}
}

func retriesOn(host, why string) url.Values {
	return url.Values{"do": {"clear"}, "what": {"retries"}, "name": {nameOf(host)}, "why": {why}}
}

// post sends a form as the person on call does with curl.
func post(url, token string, form url.Values) (status int, text string, err error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", err
	}
	req.SetBasicAuth(person, token)
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
