//go:build integration

package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// The page, the metrics and the log say what happened, and agree with the users.
func TestTheDrillIsSeenOnThePageInTheMetricsAndInTheLog(t *testing.T) {
	var out, log bytes.Buffer
	must(t, run(t.Context(), &out, &log, 40*time.Second))
	for _, want := range []string{
		`search \(GET search\.internal\) is failing: .* Retries are switched off; look at the service\.`,
		`stock \(GET stock\.internal\) is throttled: `,
		`prices \(GET prices\.internal\) is down: its circuit is open, and `,
		`Overridden by hand: retries of search\.`,
		`prices\.internal: [1-9]\d* of \d+ users got an error`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("it does not say %s:\n%s", want, &out)
		}
	}
	for _, want := range []string{
		`"msg":"override","control":{"change":"set","what":"retries","name":"search","to":"off","who":"ada","why":"it is overloaded"`,
		`"change":"cleared","what":"retries","name":"search","to":"off","who":"ada","why":"they were not the cause"`,
		`"endpoint":"GET prices.internal","from":"closed","to":"open"`,
		`"error_type":"429"`, `"error_type":"connection refused"`, `"error_type":"timeout"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s", want)
		}
	}
}

// A person without a token switches nothing.
func TestOnlyATokenSwitchesRetries(t *testing.T) {
	d := start(io.Discard)
	defer d.service.Close()
	for _, token := range []string{"", "guess", d.token[1:]} {
		if err := d.change(person, token, "to=off&why=x"); err == nil || !strings.Contains(err.Error(), "status 403") {
			t.Errorf("with the token %q: %v, want 403", token, err)
		}
	}
}

// On a busy machine all attempts may time out, and then the circuit opens.
func TestRetriesAreSwitchedOff(t *testing.T) {
	for range 5 {
		if switchesRetries(t) {
			return
		}
	}
	t.Error("in five tries, retries were not made, then not made while they were off, and then made again")
}

// switchesRetries reports whether calls are retried, but not while retries are off.
func switchesRetries(t *testing.T) bool {
	d := start(io.Discard)
	defer d.service.Close()
	search := d.upstreams[slowHost]
	must(t, search.become(slow))
	asWanted := true
	for phase, form := range []string{"", "to=off&why=x", "do=clear&why=x"} {
		if form != "" {
			must(t, d.change(person, d.token, form))
		}
		search.mu.Lock()
		search.attempts = make(map[string]int)
		search.mu.Unlock()
		var calls sync.WaitGroup
		for i := range 30 {
			calls.Go(func() { d.users.ask(slowHost, fmt.Sprint(phase, i)) })
		}
		calls.Wait()
		attempts := 0
		search.mu.Lock()
		for _, made := range search.attempts {
			attempts += made
		}
		search.mu.Unlock()
		t.Logf("phase %d: %d attempts of 30 calls", phase, attempts)
		off := phase == 1
		asWanted = asWanted && off == (attempts == 30) && attempts >= 30
	}
	return asWanted
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
