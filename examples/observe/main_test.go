package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The test runs one cycle of the server in a fifth of the time. A busy machine
// may spoil one run, but not three.
func TestWhatHappenedIsSeen(t *testing.T) {
	for try := 1; ; try++ {
		problem := watch(t, cycle/5)
		if problem == "" {
			return
		}
		t.Log(problem)
		if try == 3 {
			t.FailNow()
		}
	}
}

// watch runs a client, and says what is wrong. It fails the test if something
// is wrong that does not depend on the machine.
func watch(t *testing.T, cycle time.Duration) string {
	server, err := startServer(cycle)
	if err != nil {
		t.Fatal(err)
	}
	defer server.http.Close()
	var log bytes.Buffer
	c := newClient(&log, server.url, cycle)
	defer c.http.CloseIdleConnections()
	page, err := c.serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()

	ctx, cancel := context.WithTimeout(t.Context(), cycle)
	defer cancel()
	c.run(ctx)
	f := c.tally.read()
	t.Logf("\n%s\n%s", &log, &c.tally)

	if made := int(c.made.Load()); f.attempts != made {
		t.Errorf("%d attempts were told of, %d were made", f.attempts, made)
	}
	if page := fetch(t, "http://"+page.Addr+"/"); !strings.HasPrefix(page, "<!doctype html>") {
		t.Errorf("no page: %s", page)
	}
	text := fetch(t, "http://"+page.Addr+"/metrics")
	for _, line := range []string{
		fmt.Sprintf("backoff_calls_total{operation=\"orders\",endpoint=\"GET orders\",outcome=\"retried\"} %d\n", f.retried),
		fmt.Sprintf("backoff_attempts_total{operation=\"orders\",endpoint=\"GET orders\"} %d\n", f.attempts),
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in the metrics:\n%s", line, text)
		}
	}
	for _, secret := range []string{"hunter2", "token=h"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
	const opened = "backoff_breaker_transitions_total{breaker=\"orders\",from=\"closed\",to=\"open\""
	if !strings.Contains(text, opened) {
		return "no opening is in the metrics"
	}
	return judge(f, log.String())
}

func judge(f figures, log string) string {
	for _, want := range []string{"msg=retry", "msg=success", "msg=\"give up\"", "to=open", "to=closed", "x-request-id=", "suppressed="} {
		if !strings.Contains(log, want) {
			return want + " is not in the log"
		}
	}
	switch {
	case f.openings < 1, f.refused < 1:
		return "the breaker did not open"
	case f.retried < 1:
		return "retries did not rescue a call"
	case f.atOnce < f.calls()/3:
		return "too few calls succeeded at once"
	case f.attempts > (f.calls()-f.refused)*13/10:
		return "retries multiplied the load"
	}
	return ""
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp.Status, err)
	}
	return string(text)
}

func TestItTellsWhereToLookAndEndsWithASummary(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, "127.0.0.1:0", time.Second); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "page     http://127.0.0.1:") || !strings.Contains(out.String(), "breaker   opened 0 times\n") {
		t.Error(out.String())
	}
}

func TestAnAddressThatIsTakenIsAnError(t *testing.T) {
	server, err := startServer(cycle)
	if err != nil {
		t.Fatal(err)
	}
	defer server.http.Close()
	if err := run(t.Context(), io.Discard, strings.TrimPrefix(server.url, "http://"), time.Second); err == nil {
		t.Error("no error")
	}
}
