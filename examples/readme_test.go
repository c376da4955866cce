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

// read returns the text of a file with Unix line ends.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}
