// Package docpagetest holds documents to what tests observe.
package docpagetest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Read returns the text of a file, with the line ends of Unix.
func Read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// Table requires that a table of a document has the lines, or writes them there.
func Table(t testing.TB, document, name string, lines []string, write bool) {
	t.Helper()
	from, to, text := "<!-- table: "+name+" -->\n", "<!-- end -->", Read(t, document)
	before, rest, ok := strings.Cut(text, from)
	require.True(t, ok, "no mark for the table %s", name)
	old, after, ok := strings.Cut(rest, to)
	require.True(t, ok, "no end of the table %s", name)
	content := strings.Join(lines, "\n") + "\n"
	if write {
		require.NoError(t, os.WriteFile(document, []byte(before+from+content+to+after), 0o644))
		return
	}
	require.True(t, old == content, "the table %s is not as it was observed: run the tests with -update", name)
}
