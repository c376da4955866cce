package chart

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
)

// named returns f with the given title if f has none.
func (f Frame) named(title string) Frame {
	if f.Title == "" {
		f.Title = title
	}
	return f
}

// policiesOf returns the policy of each line.
func policiesOf[L any](lines []L, policy func(L) Policy) []Policy {
	all := make([]Policy, len(lines))
	for i, l := range lines {
		all[i] = policy(l)
	}
	return all
}

// highest returns the largest value of all lines and their bands, and at least
// the given one.
func highest(lines []curve, least float64) float64 {
	for _, v := range everything(lines) {
		least = max(least, v)
	}
	return least
}

// everything returns all values of lines and their bands.
func everything(lines []curve) []float64 {
	var all []float64
	for _, k := range lines {
		all = slices.Concat(all, k.Mean, k.Low, k.High)
	}
	return all
}

// banded reports whether a line has a band.
func banded(lines []curve) bool {
	return slices.ContainsFunc(lines, func(k curve) bool { return len(k.Low) > 0 })
}

// bandText describes the bands, if there are any.
func bandText(lines []curve) string {
	if banded(lines) {
		return "; the areas span 5 % to 95 % of the runs"
	}
	return ""
}

// linePanel returns a panel with lines, drawn over the plotters of below.
func linePanel(heading, xlabel string, lines []curve, tags int, below ...plot.Plotter) *panel {
	p := ruled(newPlot(xlabel))
	p.Add(below...)
	p.Add(curves{lines, tags})
	return &panel{heading: heading, plot: p, aside: labels(p, lines)}
}

// sample picks at most n of the points of an axis, in equal steps, and always
// the last.
func sample(places, n int) []int {
	var at []int
	step := max(1, (places+n-3)/(n-1))
	for i := 0; i < places-1; i += step {
		at = append(at, i)
	}
	return append(at, places-1)
}

// tableOf returns a table with a row for each line and a column for each point
// of the x axis, or for 13 of them.
func tableOf(caption, corner string, x []float64, lines []curve) table {
	at := sample(len(x), 13)
	t := table{Caption: caption, Head: []string{corner}}
	for _, i := range at {
		t.Head = append(t.Head, number(x[i]))
	}
	for _, k := range lines {
		row := []string{k.name}
		for _, i := range at {
			row = append(row, number(k.Mean[i]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// lowest returns the smallest positive value of all lines and their bands.
func lowest(lines []curve) float64 {
	least := math.Inf(1)
	for _, v := range everything(lines) {
		if v > 0 {
			least = min(least, v)
		}
	}
	return least
}
