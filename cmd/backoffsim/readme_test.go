package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inREADME has the rows of the README's table by their names in the table of
// "backoffsim dip -peer all".
var inREADME = map[string]string{
	"none":                 "no retries",
	"full jitter":          "full jitter, 3 retries",
	"budget 10 %":          "budget 10 % of requests",
	"AWS quota":            "AWS quota (500, 5, 1)",
	"breaker 50 %/30 s":    "breaker 50 %, 30 s",
	"Policy + RetryBudget": "`RetryBudget`",
	"default":              "and `Breaker` at the top",
}

func TestTheREADMERoundsWhatTheDocumentSays(t *testing.T) {
	rows := rowsOf(t, "../../README.md", "| Policy ", regexp.MustCompile(` *\| *`))
	printed := rowsOf(t, "../../docs/simulation.md", "$ backoffsim dip -peer all", regexp.MustCompile(`  +`))
	for name, row := range inREADME {
		require.Contains(t, rows, row)
		said := strings.Split(rows[row][0], ", ")
		requireRounded(t, row, said[0], printed[name][0])
		requireRounded(t, row, said[1], printed[name][4])
	}
}

// rowsOf reads the table after a line with a prefix, up to an empty line or a
// fence. It returns the rows by their first cells.
func rowsOf(t *testing.T, path, begin string, between *regexp.Regexp) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n"+begin)
	require.True(t, found, "%s has no %q", path, begin)
	rows := map[string][]string{}
	for _, line := range strings.Split(table, "\n")[1:] {
		if line == "" || line == "```" {
			break
		}
		cells := between.Split(strings.Trim(line, "| "), -1)
		rows[cells[0]] = cells[1:]
	}
	return rows
}

// requireRounded requires that said is the figure of printed, rounded to as
// many digits as said has.
func requireRounded(t *testing.T, row, said, printed string) {
	t.Helper()
	said = strings.Trim(said, "* %s")
	if printed == "never" {
		require.Equal(t, printed, said, row)
		return
	}
	_, decimals, _ := strings.Cut(said, ".")
	half := 0.5001
	for range decimals {
		half /= 10
	}
	require.InDelta(t, number(t, strings.Fields(printed)[0]), number(t, said), half, row)
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return f
}
