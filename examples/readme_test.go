package examples

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gobackoff/backoff/examples/internal/docblocks"
)

const (
	readme  = "../README.md"
	recipes = "../docs/recipes.md"
)

func TestTheREADMEAndTheRecipesShowCodeThatRuns(t *testing.T) {
	for _, document := range []string{readme, recipes} {
		if err := docblocks.Check(document, "recipes"); err != nil {
			t.Error(err)
		}
	}
}

// A block that is not from the package recipes names its file.
var elsewhere = regexp.MustCompile("(?ms)^```\\w+ (\\S+)\n(.*?)^```$")

func TestBlocksFromOtherFilesAreThere(t *testing.T) {
	found := elsewhere.FindAllStringSubmatch(read(t, recipes), -1)
	if len(found) < 2 {
		t.Errorf("%d blocks, want a transaction and a file", len(found))
	}
	for _, block := range found {
		text := read(t, "../"+block[1])
		if !strings.Contains(text, block[2]) && !strings.Contains(unindented(text), block[2]) {
			t.Errorf("not in %s:\n%s", block[1], block[2])
		}
	}
}

func unindented(text string) string { return strings.ReplaceAll(text, "\n\t", "\n") }

var (
	shortForm = regexp.MustCompile(`(?m)^\| \[[^\n]*\]\(docs/recipes\.md#[^\n]* \| ([^\n]*) \|$`)
	span      = regexp.MustCompile("`([^`]+)`")
)

// What the README's table of recipes says to write is code of the recipes.
func TestTheShortFormsOfTheREADMEAreFromTheRecipes(t *testing.T) {
	rows := shortForm.FindAllStringSubmatch(read(t, readme), -1)
	if len(rows) < 10 {
		t.Errorf("%d recipes, want ten", len(rows))
	}
	document := oneSpaced(read(t, recipes))
	for _, row := range rows {
		for _, form := range span.FindAllStringSubmatch(row[1], -1) {
			if !strings.Contains(document, form[1]) {
				t.Errorf("no recipe has %s", form[1])
			}
		}
	}
}

// oneSpaced returns text without the spaces that align fields.
func oneSpaced(text string) string { return regexp.MustCompile(" +").ReplaceAllString(text, " ") }

func TestARecipeHasAtMost8Lines(t *testing.T) {
	for _, block := range blocks(read(t, recipes)) {
		if n := strings.Count(block.text, "\n"); n > 8 {
			t.Errorf("%d lines:\n%s", n, block.text)
		}
	}
}

func TestTheREADMEBeginsWithAnExample(t *testing.T) {
	text := read(t, readme)
	if n := strings.Count(text, "\n"); n > 150 {
		t.Errorf("it has %d lines, want at most 150", n)
	}
	first := blocks(text)[0]
	if n := strings.Count(first.text, "\n"); first.line > 12 || n > 12 {
		t.Errorf("the first example has %d lines from line %d on, want at most 12 from line 12", n, first.line)
	}
}

// A block is a block of Go in a document.
type block struct {
	line int // of its first line, from 1
	text string
}

func blocks(text string) []block {
	var found []block
	inside := false
	for i, line := range strings.SplitAfter(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```go"):
			inside = true
			found = append(found, block{line: i + 2})
		case line == "```\n":
			inside = false
		case inside:
			found[len(found)-1].text += line
		}
	}
	return found
}

// read returns the text of a file with Unix line ends.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}
