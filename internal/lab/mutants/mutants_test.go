package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const known = "testdata/known"

// mutate runs the command, and returns what it prints.
func mutate(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, &out)
	return out.String(), err
}

// requireMutants holds the mutants of the given lines to be exactly those.
func requireMutants(t *testing.T, lines string, want ...string) {
	t.Helper()
	out, err := mutate(t, "-list", "-run", "^known.go:("+lines+")$", known)
	require.NoError(t, err)
	require.Equal(t, want, strings.Split(strings.TrimSpace(out), "\n"))
}

func TestAnOperatorBecomesAnotherOne(t *testing.T) {
	requireMutants(t, "20|23|26",
		"known.go:20: a + b becomes a - b",
		"known.go:23: a < b becomes a <= b",
		"known.go:23: a < b becomes a >= b",
		"known.go:26: a && b becomes (a || b)",
		"known.go:26: a && b becomes a",
		"known.go:26: a && b becomes b",
	)
}

func TestAUnaryOperatorIsLeftOut(t *testing.T) {
	requireMutants(t, "29", "known.go:29: -a becomes a", "known.go:29: !b becomes b")
}

func TestAnIntegerGrowsAndShrinksByOne(t *testing.T) {
	requireMutants(t, "34|36",
		"known.go:34: Most becomes (Most + 1)",
		"known.go:36: 2 becomes 3",
		"known.go:36: 2 becomes 1",
	)
}

func TestAConditionBecomesItsOpposite(t *testing.T) {
	requireMutants(t, "33|61", "known.go:33: ok becomes !ok", "known.go:61: known becomes !known")
	requireMutants(t, "41",
		"known.go:41: len(list) == 0 becomes len(list) != 0",
		"known.go:41: 0 becomes 1",
		"known.go:41: 0 becomes -1",
	)
}

func TestTrueBecomesFalse(t *testing.T) {
	requireMutants(t, "74", "known.go:74: true becomes false")
}

func TestAnErrorBecomesNil(t *testing.T) {
	requireMutants(t, "42", "known.go:42: ErrEmpty becomes nil")
}

func TestAStatementIsLeftOut(t *testing.T) {
	requireMutants(t, "49|50",
		"known.go:49: p.A++ becomes p.A--",
		"known.go:49: leave out p.A++",
		"known.go:50: p.B += len(more) becomes p.B -= len(more)",
		"known.go:50: leave out p.B += len(more)",
	)
}

func TestAFieldIsLeftOut(t *testing.T) {
	requireMutants(t, "55", "known.go:55: leave out A: p.B,", "known.go:55: leave out B: p.A")
}

// In line 65, case 1 would be there twice. In line 44, list[-1] is no element.
func TestWhatDoesNotTypeCheckIsNoMutant(t *testing.T) {
	requireMutants(t, "65|67", "known.go:65: 0 becomes -1", "known.go:67: 1 becomes 2")
	requireMutants(t, "44", "known.go:44: 0 becomes 1")
}

func TestConstantsVariablesAndFunctionsThatRecoverAreNotMutated(t *testing.T) {
	requireMutants(t, "8|11|14|9.", "")
}

// all is what the command prints and returns for all mutants of known, of
// which it wants more to be noticed than are.
var all = sync.OnceValues(func() (string, error) {
	var out bytes.Buffer
	err := run(context.Background(), []string{"-min", "92.2", known}, &out)
	return out.String(), err
})

// row returns the words of a line of the table.
func row(out, name string) []string {
	for line := range strings.Lines(out) {
		if strings.HasSuffix(line, "  "+name+"\n") {
			return strings.Fields(line)
		}
	}
	return nil
}

func TestTheTableCountsWhatTheTestsNotice(t *testing.T) {
	out, _ := all()
	require.Contains(t, out, "  mutants  killed  timed out  survived  noticed\n")
	require.Equal(t, []string{"38", "33", "2", "3", "92.1", "%", "known.go"}, row(out, "known.go"))
	require.Equal(t, []string{"38", "33", "2", "3", "92.1", "%", "all"}, row(out, "all"))
}

func TestMutantsThatSurviveAreListedWithTheirChange(t *testing.T) {
	out, _ := all()
	lines := strings.Split(out, "\n")
	require.Contains(t, lines[0], "38 mutants")
	require.ElementsMatch(t, []string{
		"known.go:87: a * 2 becomes a / 2",
		"known.go:87: 2 becomes 3",
		"known.go:87: 2 becomes 1",
	}, lines[1:4])
	require.Contains(t, lines[4], "survived", "no other one is listed")
}

func TestFewerMutantsNoticedThanTheMinimumIsAnError(t *testing.T) {
	_, err := all()
	require.EqualError(t, err, "the tests notice 92.1 % of the mutants, want 92.2 %")
}

func TestNothingIsWrittenIntoThePackage(t *testing.T) {
	_, _ = all()
	files, err := filepath.Glob(known + "/*")
	require.NoError(t, err)
	require.Equal(t, []string{known + "/known.go", known + "/known_test.go"}, files)
}

func TestAMutantThatHangsTimesOut(t *testing.T) {
	out, err := mutate(t, "-run", "known.go:79", "-factor", "1", "-min", "100", known)
	require.NoError(t, err)
	require.Equal(t, []string{"2", "0", "2", "0", "100.0", "%", "all"}, row(out, "all"))
}

func TestASampleIsTheSameForTheSameSeed(t *testing.T) {
	sample := func(seed string) string {
		out, err := mutate(t, "-list", "-sample", "10", "-seed", seed, known)
		require.NoError(t, err)
		require.Equal(t, 10, strings.Count(out, "\n"))
		return out
	}
	require.Equal(t, sample("1"), sample("1"))
	require.NotEqual(t, sample("1"), sample("2"))
}

func TestTestsThatAreSkippedNoticeNothing(t *testing.T) {
	out, err := mutate(t, "-run", "known.go:2[036]", "-skip", "Operators", known)
	require.NoError(t, err)
	require.Equal(t, []string{"6", "0", "0", "6", "0.0", "%", "all"}, row(out, "all"))
}

func TestTestsThatFailWithoutAChangeAreAnError(t *testing.T) {
	_, err := mutate(t, "testdata/failing")
	require.ErrorContains(t, err, "the tests fail without a change")
	require.ErrorContains(t, err, "it is not two")
}

func TestAnInterruptedRunIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, run(ctx, []string{known}, new(bytes.Buffer)))
}

// All mutants of the root package compile together.
func TestTheRootPackageCompilesWithItsMutants(t *testing.T) {
	p, err := load("../../..")
	require.NoError(t, err)
	mutants, err := p.mutants()
	require.NoError(t, err)
	require.Greater(t, len(mutants), 1000)
	bad, err := p.mistyped(mutants)
	require.NoError(t, err)
	require.Empty(t, bad)
}
