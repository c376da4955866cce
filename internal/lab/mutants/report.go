package main

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
)

// A tally counts mutants by their outcome.
type tally [survived + 1]int

func (t tally) tested() int { return t[killed] + t[timedOut] + t[survived] }

// noticed returns the percentage of mutants that did not survive.
func (t tally) noticed() float64 {
	if t.tested() == 0 {
		return 100
	}
	return 100 * float64(t[killed]+t[timedOut]) / float64(t.tested())
}

func count(mutants []*mutant) (t tally) {
	for _, m := range mutants {
		t[m.outcome]++
	}
	return t
}

// report prints a table with a line for each file.
func report(out io.Writer, mutants []*mutant) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, t tally) {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%.1f %%\t  %s\n",
			t.tested(), t[killed], t[timedOut], t[survived], t.noticed(), name)
	}
	fmt.Fprintln(w, "mutants\tkilled\ttimed out\tsurvived\tnoticed\t")
	for from := 0; from < len(mutants); {
		to := from
		for to < len(mutants) && mutants[to].source == mutants[from].source {
			to++
		}
		row(filepath.Base(mutants[from].source.name), count(mutants[from:to]))
		from = to
	}
	row("all", count(mutants))
	_ = w.Flush()
}
