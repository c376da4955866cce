package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const output = `goos: linux
BenchmarkFail3/minimal-2     	 100	  900 ns/op	  0 B/op	  0 allocs/op
BenchmarkFail3/backoff-2     	 100	 1000 ns/op	  0 B/op	  0 allocs/op
BenchmarkFail3/avast-ctx-2   	 100	 1600 ns/op	744 B/op	  9 allocs/op
BenchmarkFail3/minimal-2     	 100	  800 ns/op	  0 B/op	  0 allocs/op
BenchmarkPermanent/new/minimal  	 100	 20.0 ns/op	  16 B/op	  1 allocs/op
BenchmarkPermanent/new/backoff  	 100	 25.0 ns/op	  64 B/op	  2 allocs/op
PASS
ok  	github.com/gobackoff/backoff/internal/lab/bench	1.5s
`

const tables = `
Fail3, 2 processors, least of 2
             ns/op  x minimal  x peer           bar  B/op  allocs/op
    minimal    800       1.00    0.50                   0          0
    backoff   1000       1.25    0.62  > 1.2 MISSED     0          0
  avast-ctx   1600       2.00    1.00                 744          9

Permanent/new, 1 processor, least of 1
           ns/op  x minimal  x peer            bar  B/op  allocs/op
  minimal     20       1.00                           16          1
  backoff     25       1.25          allocs MISSED    64          2
`

func TestTables(t *testing.T) {
	var got strings.Builder
	require.NoError(t, run(strings.NewReader(output), &got, ""))
	require.Equal(t, output+tables, got.String())
}

func TestFailureIsReported(t *testing.T) {
	for _, in := range []string{"--- FAIL: BenchmarkFail3\n", "FAIL\tpkg [build failed]\n"} {
		require.Error(t, run(strings.NewReader(in), &strings.Builder{}, ""), in)
	}
}

// judged returns what the table of the first scenario in lines says of this
// library's bars.
func judged(t *testing.T, lines string) string {
	t.Helper()
	r, err := read(strings.NewReader(lines))
	require.NoError(t, err)
	s := r.scenarios[0]
	var all []string
	for _, v := range r.verdicts(s) {
		all = append(all, v.String())
	}
	return strings.Join(all, ", ")
}

func TestBarsThatAreADifference(t *testing.T) {
	const lines = "BenchmarkBreakerShared/minimal 1 10 ns/op\nBenchmarkBreakerShared/backoff 1 "
	require.Equal(t, "<= +5", judged(t, lines+"15 ns/op\n"))
	require.Equal(t, "> +5 MISSED", judged(t, lines+"15.1 ns/op\n"))
}

func TestBarsAgainstAnotherCandidate(t *testing.T) {
	const lines = "BenchmarkObservedLog/minimal 1 90 ns/op\nBenchmarkObservedLog/backoff-unobserved 1 6 ns/op\nBenchmarkObservedLog/backoff 1 "
	require.Equal(t, "<= +10 over backoff-unobserved", judged(t, lines+"16 ns/op\n"))
	require.Equal(t, "> +10 over backoff-unobserved MISSED", judged(t, lines+"17 ns/op\n"))
}

func TestBarsAgainstAnotherScenario(t *testing.T) {
	const lines = "BenchmarkObservedParallel/backoff-2 1 20 ns/op\nBenchmarkObserved/backoff-2 1 "
	require.Equal(t, "<= 1 x Observed", judged(t, lines+"21 ns/op\n"))
	require.Equal(t, "> 1 x Observed MISSED", judged(t, lines+"19 ns/op\n"))
}
