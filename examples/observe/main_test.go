package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The test runs one cycle of the server in a fifth of the time. A busy machine
// may spoil one run, but not three.
func TestWhatHappenedIsOnThePageInTheMetricsAndInTheLog(t *testing.T) {
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

// watch runs a client, and says what is missing.
func watch(t *testing.T, cycle time.Duration) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), cycle)
	defer cancel()
	var page, metrics string
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		time.Sleep(cycle * 9 / 10)
		page = fetch(t, "http://"+listener.Addr().String()+"/")
		metrics = fetch(t, "http://"+listener.Addr().String()+"/metrics")
	}()
	var log bytes.Buffer
	run(ctx, &log, listener, cycle)
	<-fetched

	for _, secret := range []string{"hunter2", "token=h"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
	if !strings.HasPrefix(page, "<!doctype html>") {
		return "no page: " + page
	}
	for _, want := range []string{
		`backoff_calls_total{operation="orders",endpoint="GET orders",outcome="retried"} `,
		`backoff_attempts_total{operation="orders",endpoint="GET orders"} `,
		`backoff_breaker_transitions_total{breaker="orders",from="closed",to="open"`,
	} {
		if !strings.Contains(metrics, want) {
			return want + " is not in the metrics"
		}
	}
	for _, want := range []string{"msg=retry", "msg=success", "msg=\"give up\"", "to=open", "to=closed", "x-request-id=", "suppressed="} {
		if !strings.Contains(log.String(), want) {
			return want + " is not in the log"
		}
	}
	return ""
}

// fetch returns what is at a URL, or the error.
func fetch(t *testing.T, url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
