package guards

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inREADME are the columns of the first table of the page that README.md has, too.
var inREADME = []int{0, 1, 2, 3, 4, 5, 10}

func TestTheREADMESaysOfWorldsWhatThePageSays(t *testing.T) {
	page, err := os.ReadFile(docs + "/guards.md")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	worlds := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if cells := cellsOf(line); len(cells) > inREADME[len(inREADME)-1] {
			var row []string
			for _, i := range inREADME {
				row = append(row, cells[i])
			}
			worlds[cells[0]] = strings.Join(row, " | ")
		}
	}
	_, rest, _ := strings.Cut(string(readme), "| World | could |")
	table, _, _ := strings.Cut(rest, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	require.Greater(t, len(rows), 8)
	for _, row := range rows {
		cells := cellsOf(row)
		require.Equal(t, worlds[cells[0]], strings.Join(cells, " | "))
	}
}

// cellsOf returns the cells of a row of a table, without bold.
func cellsOf(row string) (cells []string) {
	for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(row), "|"), "|") {
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), "**", ""))
	}
	return cells
}
