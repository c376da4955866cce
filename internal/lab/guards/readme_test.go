package guards

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of worlds in README.md has columns of the first table of docs/guards.md.
func TestTheREADMESaysOfWorldsWhatThePageSays(t *testing.T) {
	cells := func(row string) []string {
		return regexp.MustCompile(` *\| *`).Split(strings.Trim(strings.ReplaceAll(row, "**", ""), "| \n"), -1)
	}
	page, err := os.ReadFile(docs + "/guards.md")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	worlds := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		if c := cells(line); len(c) > 10 {
			worlds[c[0]] = append(c[:6:6], c[10])
		}
	}
	_, table, _ := strings.Cut(string(readme), "| World | could |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range strings.Split(table, "\n")[2:] {
		require.Equal(t, worlds[cells(row)[0]], cells(row))
	}
}
