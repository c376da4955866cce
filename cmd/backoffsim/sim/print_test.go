package sim

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func writeDip(t *testing.T, out io.Writer) {
	fmt.Fprintf(out, "\ndip: 800 calls/s, a server of 1000/s, 300/s for 10 s; 20 processes, 20 seeds\n")
	fmt.Fprintf(out, "%-38s %9s %14s %8s %8s %9s %10s %10s\n", "policy", "lost %", "recovery s", "attempts", "peak", "per 100ms", "added p50", "added p99")
	for _, r := range run(t, Dip(), 20, References("dip")...) {
		recovery := fmt.Sprintf("%.1f ± %.1f", r.Recovery.Mean, r.Recovery.SE)
		if r.Never > 0 {
			recovery = recoveryText(r)
		}
		fmt.Fprintf(out, "%-38s %9.1f %14s %8.2f %8.2f %9.0f %8.0fms %8.0fms\n", r.Client, 100*(1-r.Success.Mean), recovery,
			r.Amplification[0].Mean, r.Peak[0].Mean, r.PeakArrivals.Mean, 1000*r.AddedP50.Mean, 1000*r.AddedP99.Mean)
	}
}

func writeChain(t *testing.T, out io.Writer) {
	fmt.Fprintf(out, "\nchain: calls at the service per call of a user through 3 layers, and success, by the share of failures; 3 seeds\n")
	fmt.Fprintf(out, "%-44s %7s %7s %7s %7s   %7s %7s %7s %9s %12s\n", "policy", ".01", ".1", ".5", "1", ".01", ".1", ".5", "onset", "back after s")
	for _, c := range References("chain") {
		var calls, success strings.Builder
		for _, p := range []float64{.01, .1, .5, 1} {
			r := run(t, Chain(p), 3, c)[0]
			fmt.Fprintf(&calls, " %7.3f", r.Amplification[2].Mean)
			if p < 1 {
				fmt.Fprintf(&success, " %7.4f", r.Success.Mean)
			} else {
				fmt.Fprintf(&success, " %9.2f %12s", r.Onset.Mean, recoveryText(r))
			}
		}
		fmt.Fprintf(out, "%-44s%s  %s\n", c.Name, calls.String(), success.String())
	}
}

func writeHerd(t *testing.T, out io.Writer) {
	for _, variant := range []string{"A1", "A2", "A3", "A4", "A5", "A6"} {
		s, err := Herd(variant)
		require.NoError(t, err)
		fmt.Fprintf(out, "\nherd %s: 1000 clients; 50 seeds\n%-22s %12s %12s %14s %8s %10s\n", variant, "policy", "wasted", "peak/100ms", "drain s", "mean s", "lost")
		for i, c := range HerdReferences(variant) {
			seeds := 50
			if i == 0 {
				seeds = 3
			}
			r := run(t, s, seeds, c)[0]
			fmt.Fprintf(out, "%-22s %6.0f ± %3.0f %12.0f %8.2f ± %.2f %8.2f %10.0f\n", r.Client, r.Wasted.Mean, r.Wasted.SE, r.PeakArrivals.Mean, r.Drain.Mean, r.Drain.SE, r.Mean.Mean, r.Lost.Mean)
		}
	}
}

func writeOCC(t *testing.T, out io.Writer) {
	counts := []int{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 150, 200}
	cells, err := RunOCC(OCCReferences(), counts, Options{Seeds: 500})
	require.NoError(t, err)
	fmt.Fprintf(out, "\nocc: calls ± standard error, and seconds; 500 seeds\n%-14s", "clients")
	for _, n := range counts {
		fmt.Fprintf(out, " %14d", n)
	}
	for i, c := range cells {
		if i%len(counts) == 0 {
			fmt.Fprintf(out, "\n%-14s", c.Strategy)
		}
		fmt.Fprintf(out, " %6.0f±%.1f %5.2f", c.Calls.Mean, c.Calls.SE, c.Seconds.Mean)
	}
	fmt.Fprintln(out)
}
