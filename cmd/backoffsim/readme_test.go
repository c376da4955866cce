package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// figures are those of a column that docs/simulation.md has below a command.
type figures struct {
	command string
	number  int
}

const (
	dipOfAll    = "$ backoffsim dip -peer all"
	allFail     = "$ backoffsim chain -seeds 3 -no-mark -peer "
	halfFail    = "$ backoffsim chain -seeds 3 -no-mark -p 0.5"
	dipOf4000   = "$ backoffsim dip -seeds 3 -processes 4000 -policy doubling.json"
	notInREADME = "–"
)

// inREADME has the columns of the README's table.
var inREADME = []figures{{dipOfAll, 0}, {dipOfAll, 4}, {allFail, 1}, {halfFail, 0}}

// named has, for each row of the README's table, the names of its policy in the
// dip and in the chain.
var named = map[string][2]string{
	"no retries":                   {"none", "none"},
	"full jitter, 3 retries":       {"full jitter", "naive"},
	"budget 10 % of requests":      {"budget 10 %", "budget 10 % per layer"},
	"quota of the AWS SDKs":        {"AWS quota", "500-5-1"},
	"breaker, open for 5 s":        {"breaker 50 %/5 s", ""},
	"`RetryBudget`":                {"Policy + RetryBudget", "RetryBudget, no mark"},
	"`RetryBudget` in a `Breaker`": {"default", "default, Breaker at the top layer, no mark"},
}

func TestTheREADMERoundsWhatTheDocumentSays(t *testing.T) {
	rows := rowsOf(t, "../../README.md", "| Policy ", regexp.MustCompile(` *\| *`))
	for i, c := range inREADME {
		printed := rowsOf(t, "../../docs/simulation.md", c.command, regexp.MustCompile(`  +`))
		for row, names := range named {
			require.Contains(t, rows, row)
			said, name := rows[row][i], names[min(i/2, 1)]
			if said == notInREADME {
				require.NotContains(t, printed, name, row)
				continue
			}
			require.Contains(t, printed, name, row)
			requireRounded(t, row, said, printed[name][c.number])
		}
	}
	require.Len(t, rows, len(named)+1, "a row of the README is not checked, besides the rule")
}

// inText has what the text below the table says, and whose figures these are.
var inText = []claim{
	{`at its peak it sends (\d\.\d) times`, "breaker 50 %/5 s", figures{dipOfAll, 2}},
	{`and not (\d\.\d) times`, "default", figures{dipOfAll, 2}},
	{`never recovers: (\d\.\d) %`, "breaker 50 %/5 s", figures{dipOf4000, 0}},
	{`instead of (\d+\.\d) %`, "default", figures{dipOf4000, 0}},
	{`inside the policy recovers faster \((\d\.\d) s\)`, "Policy + RetryBudget, Breaker inside", figures{dipOfAll, 4}},
	{`services (\d+) % of the calls succeed`, "default", figures{halfFail, 0}},
}

// onFirstPage has what the first page of docs/simulation.md says.
var onFirstPage = []claim{
	{`a budget of 10 % it does, after (\d+) s`, "budget 10 %", figures{dipOfAll, 4}},
	{`successes pay for, it takes (\d+) s`, "Policy + RetryBudget", figures{dipOfAll, 4}},
	{`and without retries (\d+) s`, "none", figures{dipOfAll, 4}},
	{`turns (\d+) % success`, "none", figures{halfFail, 0}},
	{`success into (\d+) %`, "default", figures{halfFail, 0}},
	{`With one at the top it is (\d+) %`, "default, Breaker at the top layer, no mark", figures{halfFail, 0}},
	{`With one at the top it is (\d+) %, as without`, "RetryBudget, no mark", figures{halfFail, 0}},
}

// A claim is a figure in a text, which is that of a row.
type claim struct {
	says, row string
	figures
}

func TestTheTextOfTheREADMERoundsWhatTheDocumentSays(t *testing.T) {
	requireClaims(t, "../../README.md", inText)
}

func TestTheFirstPageOfTheDocumentRoundsWhatItsTablesSay(t *testing.T) {
	requireClaims(t, "../../docs/simulation.md", onFirstPage)
}

func requireClaims(t *testing.T, path string, claims []claim) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, c := range claims {
		said := regexp.MustCompile(c.says).FindStringSubmatch(strings.Join(strings.Fields(string(text)), " "))
		require.Len(t, said, 2, "%s does not say %s", path, c.says)
		printed := rowsOf(t, "../../docs/simulation.md", c.command, regexp.MustCompile(`  +`))
		requireRounded(t, c.says, said[1], printed[c.row][c.number])
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
