package fault_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/fault"
)

// The table of docs/architecture.md is read from there.
func TestTheTableInTheDocsIsTheOneThatGuardsAsk(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "| Whose fault ")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	require.Len(t, rows, len(fault.Table))
	words := [...]string{
		fault.Nothing: "nothing", fault.Answer: "answer", fault.TooMuch: "too much", fault.Slow: "slow",
		fault.Failure: "failure", fault.Unsent: "unsent", fault.Unmade: "unmade",
	}
	for i, row := range fault.Table {
		var want []string
		for _, says := range []fault.Says{row.Breaker, row.Budget, row.Pacer, row.Line, row.Hedge} {
			want = append(want, words[says])
		}
		var cells []string
		for _, cell := range strings.Split(strings.Trim(rows[i], "|"), "|")[1:] {
			cells = append(cells, strings.TrimSpace(cell))
		}
		require.Equal(t, append(want, fault.Fault(i).Word()), cells, rows[i])
	}
}
