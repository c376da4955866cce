package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// sources are what a person reads. Each says the same of the calls of a process to
// a host.
var sources = []struct {
	name string
	read func(e evidence, host string) symptom
}{
	{"page", readPage},
	{"logs", readLog},
	{"metrics", readMetrics},
}

// A symptom is what a source says about the calls to an upstream.
type symptom struct {
	trouble string // slow, throttled, down, or "" if there is none
	since   time.Time
	last    time.Time // when an attempt failed
	calls   int       // 0 if the source does not say
	hurt    int       // calls that failed, refused ones included
	opened  int       // how often the circuit opened
	open    bool      // it is open now, or half-open
}

const down = "down"

// summarize sums up what a source says of a host in all processes. The upstream
// has the trouble that most processes have with it, since the moment that half of
// them name.
func summarize(seen []evidence, host string, read func(e evidence, host string) symptom) (all symptom) {
	troubled := make(map[string][]symptom)
	for _, process := range seen {
		s := read(process, host)
		all.calls, all.hurt, all.opened, all.open = all.calls+s.calls, all.hurt+s.hurt, all.opened+s.opened, all.open || s.open
		troubled[s.trouble] = append(troubled[s.trouble], s)
	}
	for trouble, of := range troubled {
		if trouble != "" && len(of) > len(seen)/2 {
			slices.SortFunc(of, func(a, b symptom) int { return a.since.Compare(b.since) })
			all.trouble, all.since = trouble, of[len(of)/2].since
			all.last = slices.MaxFunc(of, func(a, b symptom) int { return a.last.Compare(b.last) }).last
		}
	}
	return all
}

// troubleOf returns what the error of an attempt says about the upstream. The
// page and the logs show the class and the type.
func troubleOf(class, typ string) string {
	switch {
	case class == "throttled":
		return throttled
	case class == "not sent": // no connection, so it is not there
		return down
	case strings.Contains(strings.ToLower(typ), "timeout"):
		return slow
	}
	return ""
}

// hostOf returns the host of an endpoint such as "GET search.internal", or of a
// breaker such as "http://search.internal".
func hostOf(name string) string {
	return name[max(strings.LastIndexByte(name, ' '), strings.LastIndexByte(name, '/'))+1:]
}

// Evidence is what can be read of a process.
type evidence struct {
	log       []record
	snapshots []snapshot // the latest is the last
}

// A snapshot is what the page and the metrics of a process say at a moment.
type snapshot struct {
	at      time.Time
	page    pageJSON
	metrics []series
}

func (e evidence) latest() snapshot { return e.snapshots[len(e.snapshots)-1] }

// A reader reads the pages and the metrics of all processes once a second, as a
// person and a Prometheus do, and the logs in the end.
type reader struct {
	services []*process
	seen     [processes]evidence
}

// run reads until ctx ends.
func (r *reader) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = r.readAll() // if one does not respond, the next second counts
		}
	}
}

// readAll takes a snapshot of each process, or of none.
func (r *reader) readAll() error {
	var all [processes]snapshot
	now := time.Now()
	for i, p := range r.services {
		text, err := get("http://" + p.address + "/debug/backoff/data")
		if err != nil {
			return err
		}
		all[i].at = now
		if err := json.Unmarshal(text, &all[i].page); err != nil {
			return err
		}
		if text, err = get("http://" + p.address + "/debug/backoff/metrics"); err != nil {
			return err
		}
		if all[i].metrics, err = parseMetrics(string(text)); err != nil {
			return err
		}
	}
	for i, s := range all {
		r.seen[i].snapshots = append(r.seen[i].snapshots, s)
	}
	return nil
}

// finish reads once more, now the logs too, and returns all that was read.
func (r *reader) finish() ([]evidence, error) {
	if err := r.readAll(); err != nil {
		return nil, err
	}
	for i, p := range r.services {
		text, err := os.ReadFile(p.log)
		if err != nil {
			return nil, err
		}
		if r.seen[i].log, err = parseLog(text); err != nil {
			return nil, fmt.Errorf("%s: %w", p.log, err)
		}
	}
	return r.seen[:], nil
}

// get returns the body of a response.
func get(url string) ([]byte, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
