package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// counts are units that are shown without ratios.
var counts = []string{"B/op", "allocs/op", "stack-bytes/waiter"}

// print writes the scenario as aligned text.
func (s *scenario) print(out io.Writer, r *results) error {
	fmt.Fprintf(out, "%s, %s, least of %d\n", s.name, processors(s.procs), s.runs)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range s.table(r) {
		fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
	}
	return w.Flush()
}

func processors(procs string) string {
	if procs == "" {
		return "1 processor"
	}
	return procs + " processors"
}

// table returns a row of names, and one for each candidate.
func (s *scenario) table(r *results) [][]string {
	names := []string{""}
	for _, unit := range s.sorted() {
		names = append(names, unit)
		if !slices.Contains(counts, unit) {
			names = append(names, "x minimal", "x peer", "bar")
		}
	}
	rows := [][]string{names}
	for _, c := range s.candidates {
		rows = append(rows, s.row(c, r.verdicts(s)))
	}
	return rows
}

// sorted returns the units, those that are counts last.
func (s *scenario) sorted() []string {
	return slices.SortedFunc(slices.Values(s.units), func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(counts, a), slices.Index(counts, b)), cmp.Compare(a, b))
	})
}

func (s *scenario) row(c *candidate, verdicts []verdict) []string {
	cells := []string{c.name}
	for _, unit := range s.sorted() {
		value, ok := c.least[unit]
		if ok {
			cells = append(cells, short(value))
		} else {
			cells = append(cells, "")
		}
		if !slices.Contains(counts, unit) {
			_, best := s.bestPeer(unit)
			cells = append(cells, ratio(value, s.value(floor, unit)), ratio(value, best), c.bars(unit, verdicts))
		}
	}
	return cells
}

// bars says whether c keeps what is promised of it, if anything is.
func (c *candidate) bars(unit string, verdicts []verdict) string {
	var all []string
	for _, v := range verdicts {
		if c.name == ours && v.bar.unit == unit && v.ran {
			all = append(all, v.String())
		}
	}
	return strings.Join(all, ", ")
}

func ratio(value, base float64) string {
	if value == 0 || base == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", value/base)
}

// short prints three significant digits, and whole numbers whole.
func short(value float64) string {
	if value == float64(int64(value)) || value >= 100 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}
