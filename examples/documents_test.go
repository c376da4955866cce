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
	code     = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	pointing = regexp.MustCompile(`\]\(([^):\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unlinked = regexp.MustCompile(`[^\pL\pN _-]`)
)

// The test does not check links to other sites.
func TestLinksWithinTheDocumentsLeadSomewhere(t *testing.T) {
	count := 0
	walk(t, ".md", func(name, text string) {
		for _, m := range pointing.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			count++
			file, anchor, _ := strings.Cut(m[1], "#")
			if file = filepath.Join(filepath.Dir(name), file); strings.HasPrefix(m[1], "#") {
				file = name
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if anchor != "" && !anchors(t, file)[anchor] {
				t.Errorf("%s: there is no heading for %s", name, m[1])
			}
		}
	})
	if count < 50 {
		t.Errorf("%d links: are the documents still read?", count)
	}
}

var named = regexp.MustCompile("([\\w/]+\\.go): ((?:`\\w+`(?:, )?)+)")

func TestTheNamesInTheArchitectureExist(t *testing.T) {
	all := named.FindAllStringSubmatch(read(t, "../docs/architecture.md"), -1)
	if len(all) < 10 {
		t.Errorf("%d files with names: is the table still read?", len(all))
	}
	for _, m := range all {
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(m[2], -1) {
			if !regexp.MustCompile(`(?m)^(func|type|func \(.*\)) ` + name + `\b`).MatchString(read(t, "../"+m[1])) {
				t.Errorf("%s has no %s", m[1], name)
			}
		}
	}
}

// anchors returns the headings of a document in the form that links use.
func anchors(t *testing.T, name string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(read(t, name), ""), -1) {
		all[strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// walk reads the files of the repository whose names end in suffix.
func walk(t *testing.T, suffix string, read func(name, text string)) {
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, suffix) {
			return err
		}
		text, err := os.ReadFile(name)
		read(name, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
