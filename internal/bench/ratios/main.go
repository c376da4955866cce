// Command ratios copies the output of go test -bench from standard input to standard
// output, and then prints a table for each scenario: what every candidate costs, as
// a multiple of the floor, of the best peer, and of what is promised.
//
// Of repeated runs the least figure counts: noise only adds.
//
//	go test -bench . | go run ./ratios
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// bars are the promises: by how much, at most, the library may exceed the floor.
// Allocations may never.
var bars = map[string]map[string]float64{
	"DoSuccess/func":        {"ns/op": 1.5},
	"DoSuccess/closure":     {"ns/op": 1.5},
	"DoSuccess/configured":  {"ns/op": 1.5},
	"DoValueSuccess":        {"ns/op": 1.5},
	"LoopSuccess":           {"ns/op": 2.5},
	"Fail3Zero":             {"ns/op": 5},
	"Fail3":                 {"ns/op": 1.2},
	"Permanent/new":         {"ns/op": 1.5},
	"Permanent/sentinel":    {"ns/op": 1.5},
	"Delay":                 {"ns/op": 1.5},
	"DelayParallel":         {"ns/op": 1.5},
	"BudgetSuccess":         {"ns/op": 2},
	"BudgetSuccessParallel": {"ns/op": 2},
	"BudgetBothSides":       {"ns/op": 2},
	"BreakerClosed":         {"ns/op": 1.5},
	"BreakerClosedParallel": {"ns/op": 2},
	"BreakerOpen":           {"ns/op": 1.5},
	"Stack":                 {"ns/op": 2.5},
	"Hedge":                 {"ns/op": 1.3},
	"Wait100k":              {"bytes/waiter": 1.15, "ms-to-release": 2},
}

const (
	floor = "minimal"
	ours  = "backoff"
)

// counts are units that are shown without ratios.
var counts = []string{"B/op", "allocs/op", "stack-bytes/waiter"}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var all scenarios
	failed := false
	lines := bufio.NewScanner(io.TeeReader(in, out))
	for lines.Scan() {
		failed = failed || strings.HasPrefix(strings.TrimSpace(lines.Text()), "--- FAIL") || strings.HasPrefix(lines.Text(), "FAIL")
		all.read(lines.Text())
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for _, s := range all.list {
		fmt.Fprintln(out)
		if err := s.print(out); err != nil {
			return err
		}
	}
	if failed {
		return fmt.Errorf("the benchmarks failed")
	}
	return nil
}

// scenarios are in the order of their first result.
type scenarios struct{ list []*scenario }

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

var result = regexp.MustCompile(`^Benchmark(\S+)/([^\s/]+?)(?:-(\d+))?\s+\d+\s+(.+)$`)

// read takes one line of output, and ignores what is not a result.
func (all *scenarios) read(line string) {
	m := result.FindStringSubmatch(line)
	if m == nil {
		return
	}
	s := all.scenario(m[1], m[3])
	c := s.candidate(m[2])
	c.runs++
	s.runs = max(s.runs, c.runs)
	fields := strings.Fields(m[4])
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

func (all *scenarios) scenario(name, procs string) *scenario {
	for _, s := range all.list {
		if s.name == name && s.procs == procs {
			return s
		}
	}
	s := &scenario{name: name, procs: procs}
	all.list = append(all.list, s)
	return s
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

func (s *scenario) print(out io.Writer) error {
	fmt.Fprintf(out, "%s, %s, least of %d\n", s.name, processors(s.procs), s.runs)
	slices.SortFunc(s.units, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(counts, a), slices.Index(counts, b)), cmp.Compare(a, b))
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, unit := range s.units {
		fmt.Fprintf(w, "%s\t", unit)
		if !slices.Contains(counts, unit) {
			fmt.Fprint(w, "x minimal\tx peer\tbar\t")
		}
	}
	fmt.Fprintln(w)
	for _, c := range s.candidates {
		s.row(w, c)
	}
	return w.Flush()
}

func processors(procs string) string {
	if procs == "" {
		return "1 processor"
	}
	return procs + " processors"
}

func (s *scenario) row(w io.Writer, c *candidate) {
	fmt.Fprintf(w, "%s\t", c.name)
	for _, unit := range s.units {
		value, ok := c.least[unit]
		if !ok {
			fmt.Fprint(w, "\t")
		} else {
			fmt.Fprintf(w, "%s\t", short(value))
		}
		if !slices.Contains(counts, unit) {
			toFloor := s.ratio(value, s.floor(unit))
			fmt.Fprintf(w, "%s\t%s\t%s\t", toFloor, s.ratio(value, s.bestPeer(unit)), s.verdict(c, unit))
		}
	}
	fmt.Fprintln(w)
}

// verdict says whether c keeps what is promised of it, if anything is.
func (s *scenario) verdict(c *candidate, unit string) string {
	bar, promised := bars[s.name][unit]
	base := s.floor(unit)
	if c.name != ours || !promised || base == 0 {
		return ""
	}
	if c.least[unit] > bar*base {
		return fmt.Sprintf("> %g MISSED", bar)
	}
	if c.least["allocs/op"] > s.floor("allocs/op") {
		return "allocs MISSED"
	}
	return fmt.Sprintf("<= %g", bar)
}

func (s *scenario) ratio(value, base float64) string {
	if value == 0 || base == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", value/base)
}

// floor returns what the minimal code costs, 0 if it did not run.
func (s *scenario) floor(unit string) float64 {
	for _, c := range s.candidates {
		if c.name == floor {
			return c.least[unit]
		}
	}
	return 0
}

// bestPeer returns what the best peer costs, 0 if none ran.
func (s *scenario) bestPeer(unit string) float64 {
	best := 0.0
	for _, c := range s.candidates {
		if strings.HasPrefix(c.name, floor) || strings.HasPrefix(c.name, ours) {
			continue
		}
		if value, ok := c.least[unit]; ok && (best == 0 || value < best) {
			best = value
		}
	}
	return best
}

// short prints three significant digits, and whole numbers whole.
func short(value float64) string {
	if value == float64(int64(value)) || value >= 100 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}
