package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// A record is a line of a log.
type record struct {
	Time      time.Time
	Msg       string
	Operation string
	Endpoint  string
	Attempt   int
	Class     string
	Reason    string // of the end of a call
	ErrorType string `json:"error_type"`
	To        string // of a transition
	// Suppressed is how many records like this one were left out before it, or, at
	// the end of a burst, how many of the message Event.
	Suppressed int
	Event      string
	// Control is what was changed while the program runs.
	Control struct{ Change, What, Name, To, Who, Why string }
}

// parseLog reads the log of a process.
func parseLog(text []byte) ([]record, error) {
	var all []record
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%w: %s", err, lines.Text())
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// fewRecords of failed attempts are no trouble.
const fewRecords = 5

// readLog reads a log. It has no record of a call that succeeds at once, and so
// does not say how many calls there are.
func readLog(e evidence, host string) (s symptom) {
	kinds := make(map[string][]record)
	for _, r := range e.log {
		switch {
		case hostOf(r.Endpoint) != host:
			continue
		case r.Msg == "transition":
			if s.open = r.To != "closed"; r.To == "open" {
				s.opened++
			}
			continue
		case r.Msg == "give up":
			s.hurt += 1 + r.Suppressed
		case r.Event == "give up":
			s.hurt += r.Suppressed
		}
		if r.Attempt > 0 && (r.Msg == "retry" || r.Msg == "give up") {
			kind := troubleOf(r.Class, r.ErrorType)
			kinds[kind] = append(kinds[kind], r)
		}
	}
	most := fewRecords
	for trouble, of := range kinds {
		if len(of) > most {
			most = len(of)
			s.trouble, s.since, s.last = trouble, of[0].Time, of[len(of)-1].Time
		}
	}
	return s
}
