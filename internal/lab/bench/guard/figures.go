package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// cpu is the unit of processor time.
const cpu = "cpu-ns/op"

// figures are what the runs of each benchmark have cost, by name and unit.
type figures map[string]map[string][]float64

var processors = regexp.MustCompile(`-\d+$`)

// read takes the output of a run.
func (f figures) read(output string) {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		name := processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		if f[name] == nil {
			f[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, _ := strconv.ParseFloat(fields[i], 64)
			f[name][fields[i+1]] = append(f[name][fields[i+1]], value)
		}
	}
}

// ratio returns the processor time of a benchmark, in times that of its floor.
// It is NaN if one of them has not run.
func (f figures) ratio(name string) float64 {
	ours, minimal := f[name][cpu], f[floor(name)][cpu]
	if len(ours) == 0 || len(minimal) == 0 {
		return math.NaN()
	}
	return slices.Min(ours) / slices.Min(minimal)
}

// print shows the spread of the runs, by the clock and in processor time. What
// times compares is the median.
func (f figures) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tunit\tleast\tmedian\tworst\tx minimal\tworst x minimal\t")
	for _, name := range slices.Sorted(maps.Keys(f)) {
		for _, unit := range []string{"ns/op", cpu} {
			runs := slices.Sorted(slices.Values(f[name][unit]))
			if len(runs) == 0 {
				continue
			}
			median, worst := runs[len(runs)/2], runs[len(runs)-1]
			fmt.Fprintf(w, "%s\t%s\t%.2f\t%.2f\t%.2f\t", name, unit, runs[0], median, worst)
			if base := slices.Sorted(slices.Values(f[floor(name)][unit])); len(base) > 0 {
				floor := base[len(base)/2]
				fmt.Fprintf(w, "%.2f\t%.2f\t", median/floor, worst/floor)
			}
			fmt.Fprintln(w)
		}
	}
	return w.Flush()
}
