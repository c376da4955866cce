package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A watcher looks at the page and at the metrics of each process once a second,
// as a person does, and a Prometheus.
type watcher struct {
	services []string // addresses

	mu    sync.Mutex
	looks []look
}

// A look is what the processes show at one moment.
type look struct {
	at      time.Time
	pages   []page
	metrics [][]series
}

// run looks until ctx ends.
func (w *watcher) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = w.look() // a process that does not answer is looked at again
		}
	}
}

// look looks once.
func (w *watcher) look() error {
	l := look{at: time.Now()}
	for _, address := range w.services {
		var p page
		text, err := get("http://" + address + "/debug/backoff/data")
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &p); err != nil {
			return err
		}
		if text, err = get("http://" + address + "/debug/backoff/metrics"); err != nil {
			return err
		}
		s, err := parseMetrics(string(text))
		if err != nil {
			return err
		}
		l.pages, l.metrics = append(l.pages, p), append(l.metrics, s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks = append(w.looks, l)
	return nil
}

// all returns all looks.
func (w *watcher) all() []look {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.looks)
}

// get returns the body of an answer.
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
