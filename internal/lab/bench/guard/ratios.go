package main

import (
	"fmt"
	"io"
	"math"
	"path"
	"strings"
	"text/tabwriter"
)

// ratios are how many times the floor the benchmarks cost at the last release.
type ratios []kept

type kept struct {
	name  string // such as "DoSuccess/func/backoff"
	ratio float64
}

// parse reads a line for each benchmark: its name and its ratio.
func parse(text string) (all ratios, err error) {
	for line := range strings.Lines(text) {
		var k kept
		if _, err := fmt.Sscan(line, &k.name, &k.ratio); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		all = append(all, k)
	}
	return all, nil
}

// floor returns the name of the minimal code for a benchmark.
func floor(name string) string { return path.Dir(name) + "/minimal" }

// pattern matches the benchmarks and their floors.
func (r ratios) pattern() string {
	var all []string
	for _, k := range r {
		for _, name := range []string{floor(k.name), k.name} {
			all = append(all, "^Benchmark"+strings.ReplaceAll(name, "/", "$/^")+"$")
		}
	}
	return strings.Join(all, "|")
}

// slow reports whether a benchmark costs too much, or has not run.
func (k kept) slow(f figures) bool {
	now := f.ratio(k.name)
	return math.IsNaN(now) || now > slack*k.ratio
}

// slower returns how many benchmarks cost too much.
func (r ratios) slower(f figures) (n int) {
	for _, k := range r {
		if k.slow(f) {
			n++
		}
	}
	return n
}

func (r ratios) print(out io.Writer, f figures) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "processor time\tx minimal\tlast release\t\t")
	for _, k := range r {
		verdict := ""
		if k.slow(f) {
			verdict = "SLOWER"
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%s\t\n", k.name, f.ratio(k.name), k.ratio, verdict)
	}
	return w.Flush()
}
