package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const output = `goos: linux
BenchmarkLoop/minimal-2   100   9.0 ns/op   5.0 cpu-ns/op   0 B/op
BenchmarkLoop/backoff-2   100   9.0 ns/op  11.0 cpu-ns/op   0 B/op
BenchmarkLoop/minimal-2   100   9.5 ns/op   4.0 cpu-ns/op   0 B/op
BenchmarkLoop/backoff-2   100   8.0 ns/op  12.0 cpu-ns/op   0 B/op
PASS
`

func TestTheLeastOfTheRoundsCounts(t *testing.T) {
	f := figures{}
	f.read(output)
	require.Equal(t, 11./4, f.ratio("Loop/backoff"))
}

func TestSlowIsHalfAsMuchAgain(t *testing.T) {
	f := figures{}
	f.read(output)
	require.False(t, kept{"Loop/backoff", 1.84}.slow(f))
	require.True(t, kept{"Loop/backoff", 1.83}.slow(f))
	require.True(t, kept{"Do/backoff", 100}.slow(f), "it has not run")

	var out strings.Builder
	all := ratios{{"Loop/backoff", 2}, {"Loop/backoff", 1}}
	require.NoError(t, all.print(&out, f))
	require.Equal(t, 1, strings.Count(out.String(), "SLOWER"))
	require.Equal(t, 1, all.slower(f))
}

func TestSpreadOfTheRuns(t *testing.T) {
	f := figures{}
	f.read(output)
	var out strings.Builder
	require.NoError(t, f.print(&out))
	require.Contains(t, strings.Join(strings.Fields(out.String()), " "), "Loop/backoff cpu-ns/op 11.00 12.00 12.00 2.40 2.40")
}

func TestTheKeptRatiosAreRead(t *testing.T) {
	text, err := os.ReadFile("last.txt")
	require.NoError(t, err)
	kept, err := parse(string(text))
	require.NoError(t, err)
	require.Contains(t, kept.pattern(), "^BenchmarkLoopSuccess$/^minimal$|^BenchmarkLoopSuccess$/^backoff$")
	_, err = parse("Loop/backoff\n")
	require.Error(t, err)
}
