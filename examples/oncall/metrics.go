package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A series is a line of the metrics.
type series struct {
	name   string
	labels map[string]string
	value  float64
}

// parseMetrics reads the text for Prometheus. It is enough for the labels of
// this drill, which have neither quotes nor commas in them.
func parseMetrics(text string) ([]series, error) {
	var all []series
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", line, err)
		}
		name, labels, _ := strings.Cut(strings.TrimSuffix(line[:at], "}"), "{")
		s := series{name: name, labels: make(map[string]string), value: value}
		for label := range strings.SplitSeq(labels, ",") {
			key, quoted, _ := strings.Cut(label, "=")
			s.labels[key] = strings.Trim(quoted, `"`)
		}
		all = append(all, s)
	}
	return all, nil
}

// sum adds up the series of a host and a name that have all of the labels, which
// are pairs.
func sum(all []series, host, name string, labels ...string) (total float64) {
next:
	for _, s := range all {
		if s.name != name || hostOf(s.labels["endpoint"]+s.labels["breaker"]) != host {
			continue
		}
		for i := 0; i < len(labels); i += 2 {
			if s.labels[labels[i]] != labels[i+1] {
				continue next
			}
		}
		total += s.value
	}
	return total
}

const (
	fewFailures = 0.05 // of the attempts are no trouble
	takesLong   = 0.1  // seconds; an attempt that fails after that has timed out
)

// readMetrics reads the latest metrics, and those before for the moments.
func readMetrics(e evidence, host string) symptom {
	last := e.latest().metrics
	s := symptom{
		calls:  int(sum(last, host, "backoff_calls_total")),
		hurt:   int(sum(last, host, "backoff_calls_total", "outcome", "failed")),
		opened: int(sum(last, host, "backoff_breaker_transitions_total", "to", "open")),
		open:   sum(last, host, "backoff_breaker_state", "state", "closed") == 0,
	}
	if sum(last, host, "backoff_failed_attempts_total") > fewFailures*sum(last, host, "backoff_attempts_total") {
		s.trouble = troubleInMetrics(last, host)
		s.since, s.last = growth(e.snapshots, host, "backoff_failed_attempts_total")
	}
	return s
}

// troubleInMetrics returns what the failed attempts say about an upstream.
func troubleInMetrics(all []series, host string) string {
	const failed, took = "backoff_failed_attempts_total", "backoff_attempt_duration_seconds"
	half := sum(all, host, failed) / 2
	switch {
	case sum(all, host, failed, "class", "throttled") > half:
		return throttled
	case sum(all, host, failed, "class", "not sent") > half:
		return down
	case sum(all, host, took+"_sum", "outcome", "failure") > takesLong*sum(all, host, took+"_count", "outcome", "failure"):
		return slow
	}
	return ""
}

// growth returns when a counter was seen to grow first and last.
func growth(snapshots []snapshot, host, name string) (first, last time.Time) {
	before := 0.
	for _, s := range snapshots {
		if now := sum(s.metrics, host, name); now > before {
			before, last = now, s.at
			if first.IsZero() {
				first = last
			}
		}
	}
	return first, last
}
