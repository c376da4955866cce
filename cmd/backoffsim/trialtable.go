package main

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// print prints the tables, the verdicts and the warnings.
func (t *trial) print(term *terminal) {
	if len(t.results) > 0 {
		if t.scenario.Calls > 0 {
			t.jobTable().print(term.out)
		} else {
			t.table().print(term.out)
		}
		if len(t.results[0].Amplification) > 1 {
			fmt.Fprintln(term.out)
			t.hopTable().print(term.out)
		}
		if t.scenario.Failed {
			fmt.Fprintln(term.out)
			t.herdTable().print(term.out)
		}
		fmt.Fprintln(term.out)
	}
	lines(term.out, "", t.verdicts)
	lines(term.out, "warning: ", t.warnings)
}

func lines(w io.Writer, prefix string, all []string) {
	for _, line := range all {
		fmt.Fprintln(w, prefix+line)
	}
}

// table returns a row for each policy, with means and standard errors.
func (t *trial) table() *table {
	rows := &table{left: 1}
	rows.add("policy", "success %", "amplification", "peak", "peak/100ms", "recovery s", "lost", "wasted",
		"added p50 ms", "added p99 ms")
	for _, r := range t.results {
		rows.add(r.Client, figure(r.Success, 100), last(r.Amplification), t.peak(r), figure(r.PeakArrivals, 1),
			t.recovery(r),
			figure(r.Lost, 1), figure(r.Wasted, 1), latency(r, r.AddedP50), latency(r, r.AddedP99))
	}
	return rows
}

// hopTable returns the amplification of each hop: the mean and the worst
// second.
func (t *trial) hopTable() *table {
	rows := &table{left: 1}
	head := []string{"attempts per call"}
	for hop := range t.results[0].Amplification {
		head = append(head, "hop "+strconv.Itoa(hop+1), "peak")
	}
	rows.add(head...)
	for _, r := range t.results {
		row := []string{r.Client}
		for hop := range r.Amplification {
			row = append(row, figure(r.Amplification[hop], 1), figure(r.Peak[hop], 1))
		}
		rows.add(row...)
	}
	return rows
}

// herdTable returns how long the calls of a herd took.
func (t *trial) herdTable() *table {
	rows := &table{left: 1}
	rows.add("policy", "last served s", "mean s", "p99 s")
	for _, r := range t.results {
		rows.add(r.Client, figure(r.Drain, 1), figure(r.Mean, 1), figure(r.P99, 1))
	}
	return rows
}

// last returns the figure of the last hop.
func last(hops []sim.Figure) string {
	if len(hops) == 0 {
		return "-"
	}
	return figure(hops[len(hops)-1], 1)
}

// peak returns the peak amplification. A herd has none: all its calls come in
// one second.
func (t *trial) peak(r sim.Result) string {
	if t.scenario.Failed {
		return "-"
	}
	return last(r.Peak)
}

// recovery returns the recovery time, "never", or "-" if there is no fault to
// recover from.
func (t *trial) recovery(r sim.Result) string {
	switch {
	case !recovers(&t.scenario):
		return "-"
	case r.Never == r.Seeds:
		return "never"
	case r.Never > 0:
		return fmt.Sprintf("%s, never in %d of %d", figure(r.Recovery, 1), r.Never, r.Seeds)
	}
	return figure(r.Recovery, 1)
}

// latency returns an added latency in milliseconds, and "-" if no call
// succeeded.
func latency(r sim.Result, f sim.Figure) string {
	if r.Success.Mean == 0 {
		return "-"
	}
	return figure(f, 1000)
}

// figure formats a mean with its standard error. The error has two digits, and
// the mean has as many decimals. A negligible error is left out.
func figure(f sim.Figure, scale float64) string {
	mean, se := f.Mean*scale, f.SE*scale
	if !(se > 1e-4*math.Abs(mean)) {
		return strconv.FormatFloat(rounded(mean, 4), 'f', -1, 64)
	}
	maxDecimals := 4
	if math.Abs(mean) < 0.01 {
		maxDecimals = 6
	}
	decimals := min(maxDecimals, max(0, 1-int(math.Floor(math.Log10(se)))))
	return strconv.FormatFloat(mean, 'f', decimals, 64) + " ± " + strconv.FormatFloat(se, 'f', decimals, 64)
}

// rounded rounds x to the given number of digits after the first.
func rounded(x float64, digits int) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, float64(digits)-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*unit) / unit
}
