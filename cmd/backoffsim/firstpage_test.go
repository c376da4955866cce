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
	dipOfAll = "$ backoffsim dip -peer all"
	halfFail = "$ backoffsim chain -seeds 3 -no-mark -p 0.5"
)

// onFirstPage has what the first page of docs/simulation.md says.
var onFirstPage = []claim{
	{`a budget of 10 % it does, after (\d+) s`, "budget 10 %", figures{dipOfAll, 4}},
	{`not under strain, it takes (\d+) s`, "Policy + RetryBudget", figures{dipOfAll, 4}},
	{`and without retries (\d+) s`, "none", figures{dipOfAll, 4}},
	{`turns (\d+) % success`, "none", figures{halfFail, 0}},
	{`success into (\d+) %`, "breaker 50 %/30 s", figures{halfFail, 0}},
	{`breakers around them, it is (\d+) %`, "default", figures{halfFail, 0}},
}

// A claim is a figure in a text, which is that of a row.
type claim struct {
	says, row string
	figures
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
