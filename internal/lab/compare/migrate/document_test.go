package migrate

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
)

const (
	document, libraries = "../../../../docs/migrating.md", "../../../../docs/library-authors.md"
	beside              = "cmd/backoffvet/docs/moving/" // the pages of the libraries, which stand beside the tool
)

// The first page and those of the libraries.
var pages = []string{document, "../../../../" + beside + "*.md"}

// A block of the documents, and where it must be found: the files are named
// after the language, and for the blocks of this library all those with here in
// their names.
type block struct {
	text  string
	files []string
}

var fence = regexp.MustCompile("(?ms)^```go( [^\n]*)?\n(.*?)^```$")

func blocks(t *testing.T) []block {
	var all []block
	for _, match := range fence.FindAllStringSubmatch(written(t, append(pages, libraries)...), -1) {
		files := strings.Fields(match[1])
		for i := range files {
			files[i] += "_test.go"
		}
		all = append(all, block{match[2], files})
	}
	return all
}

// What is written there is the code that the tests here run. It may be indented
// by a function around it.
func TestEveryBlockIsCodeThatRuns(t *testing.T) {
	all := blocks(t)
	require.Greater(t, len(all), 40)
	for _, b := range all {
		if len(b.files) == 0 {
			require.True(t, foundInAny(t, b.text), "in no file *here*_test.go:\n%s", b.text)
		}
		for _, file := range b.files {
			require.True(t, holds(docpagetest.Read(t, file), b.text), "not in %s:\n%s", file, b.text)
		}
	}
}

// The pages are short, and the first one leads to all others.
func TestEveryPageIsShortAndCanBeFound(t *testing.T) {
	all := files(t, pages...)
	require.Greater(t, len(all), 10)
	first := docpagetest.Read(t, document)
	for _, page := range all {
		require.LessOrEqual(t, strings.Count(docpagetest.Read(t, page), "\n"), 190, page)
		if page != filepath.FromSlash(document) && page != document {
			require.Contains(t, first, "](../"+beside+filepath.Base(page))
		}
	}
}

func foundInAny(t *testing.T, text string) bool {
	for _, file := range files(t, "*here*_test.go") {
		if holds(docpagetest.Read(t, file), text) {
			return true
		}
	}
	return false
}

func holds(file, text string) bool {
	return strings.Contains(file, "\n"+text) || strings.Contains(file, "\n"+indented(text))
}

func indented(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			lines[i] = "\t" + line
		}
	}
	return strings.Join(lines, "")
}

// files returns the names of the files that the patterns match.
func files(t *testing.T, patterns ...string) (all []string) {
	for _, pattern := range patterns {
		some, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, some, pattern)
		all = append(all, some...)
	}
	return all
}

// written returns the texts of the files that the patterns match.
func written(t *testing.T, patterns ...string) string {
	var text strings.Builder
	for _, file := range files(t, patterns...) {
		text.WriteString(docpagetest.Read(t, file))
	}
	return text.String()
}
