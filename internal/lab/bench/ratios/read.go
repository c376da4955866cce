package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	floor = "minimal"
	ours  = "backoff"
)

// results are what the output says. Scenarios are in the order of their first
// result.
type results struct {
	scenarios []*scenario
	facts     map[string]string // lines of the form "goos: linux"
	seconds   []float64         // that the runs took
	failed    bool
}

type scenario struct {
	name       string
	procs      string // GOMAXPROCS, as it stands behind the name
	runs       int    // of the candidate that ran most often
	candidates []*candidate
	units      []string
}

type candidate struct {
	name  string
	runs  int
	least map[string]float64 // by unit
}

var (
	result  = regexp.MustCompile(`^Benchmark(\S+)/([^\s/]+?)(?:-(\d+))?\s+\d+\s+(.+)$`)
	fact    = regexp.MustCompile(`^([a-z]+): (.+)$`)
	elapsed = regexp.MustCompile(`^ok\s+\S+\s+([\d.]+)s$`)
)

// read takes one line of output, and ignores what says nothing.
func (r *results) read(line string) {
	r.failed = r.failed || strings.HasPrefix(strings.TrimSpace(line), "--- FAIL") || strings.HasPrefix(line, "FAIL")
	if m := result.FindStringSubmatch(line); m != nil {
		s := r.scenario(m[1], m[3])
		s.take(s.candidate(m[2]), strings.Fields(m[4]))
	} else if m := fact.FindStringSubmatch(line); m != nil {
		r.facts[m[1]] = strings.TrimSpace(m[2])
	} else if m := elapsed.FindStringSubmatch(line); m != nil {
		took, _ := strconv.ParseFloat(m[1], 64)
		r.seconds = append(r.seconds, took)
	}
}

// take notes the figures of one run, in pairs of value and unit.
func (s *scenario) take(c *candidate, fields []string) {
	c.runs++
	s.runs = max(s.runs, c.runs)
	for i := 0; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			continue
		}
		unit := fields[i+1]
		if old, ok := c.least[unit]; !ok || value < old {
			c.least[unit] = value
		}
		if !slices.Contains(s.units, unit) {
			s.units = append(s.units, unit)
		}
	}
}

// scenario returns the scenario of that name, made if need be.
func (r *results) scenario(name, procs string) *scenario {
	s := r.find(name, procs)
	if s.candidates == nil {
		r.scenarios = append(r.scenarios, s)
	}
	return s
}

// find returns the scenario of that name, an empty one if it did not run.
func (r *results) find(name, procs string) *scenario {
	for _, s := range r.scenarios {
		if s.name == name && s.procs == procs {
			return s
		}
	}
	return &scenario{name: name, procs: procs}
}

func (s *scenario) candidate(name string) *candidate {
	for _, c := range s.candidates {
		if c.name == name {
			return c
		}
	}
	c := &candidate{name: name, least: map[string]float64{}}
	s.candidates = append(s.candidates, c)
	return c
}

// value returns what a candidate costs, 0 if it did not run.
func (s *scenario) value(name, unit string) float64 {
	for _, c := range s.candidates {
		if c.name == name {
			return c.least[unit]
		}
	}
	return 0
}

// bestPeer returns the peer that costs least, and what that is; 0 if none ran.
func (s *scenario) bestPeer(unit string) (name string, best float64) {
	for _, c := range s.candidates {
		if !c.peer() {
			continue
		}
		if value, ok := c.least[unit]; ok && (best == 0 || value < best) {
			name, best = c.name, value
		}
	}
	return name, best
}

// peer is neither the floor nor this library, nor a variant of theirs.
func (c *candidate) peer() bool {
	return !strings.HasPrefix(c.name, floor) && !strings.HasPrefix(c.name, ours)
}
