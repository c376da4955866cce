package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	named    = regexp.MustCompile("`((?:Test|Fuzz|Example|Benchmark)[A-Za-z0-9_]*)`")
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example|Benchmark)[A-Za-z0-9_]*)\(`)
)

// A document that says which test holds a promise is worth no more than the test's
// being there.
func TestTheTestsThatDocumentsNameExist(t *testing.T) {
	known := map[string]bool{}
	walk(t, "_test.go", func(text string) {
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			known[m[1]] = true
		}
	})
	count := 0
	walk(t, ".md", func(text string) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			count++
			if !known[m[1]] {
				t.Errorf("no test is called %s", m[1])
			}
		}
	})
	if count < 30 {
		t.Errorf("%d tests are named: are the documents still read?", count)
	}
}

// walk reads the files of the repository with such names.
func walk(t *testing.T, suffix string, read func(text string)) {
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, suffix) {
			return err
		}
		text, err := os.ReadFile(name)
		read(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
