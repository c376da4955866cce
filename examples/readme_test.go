package examples

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gobackoff/backoff/examples/internal/docblocks"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

const (
	readme  = "../README.md"
	recipes = "../docs/recipes.md"
)

var programs = regexp.MustCompile("(?ms)^```go\n(package main.*?)^```$")

func TestTheFirstProgramOfTheREADMERunsAsPasted(t *testing.T) {
	text := programOfREADME(t, 0)
	if got, failed := build(t, text)(); failed || got != "7 <nil> after 3 calls\n" {
		t.Errorf("the call that fails twice: %s", got)
	}
	permanent := strings.Replace(text, `errors.New("connection lost")`, `backoff.Permanent(errors.New("no such item"))`, 1)
	if got, failed := build(t, permanent)(); failed || got != "0 no such item after 1 calls\n" {
		t.Errorf("the permanent error: %s", got)
	}
	hurried := build(t, strings.Replace(text, "2*time.Second", "0*time.Second", 1))
	if got, failed := hurried(); failed || !strings.Contains(got, "context deadline exceeded after 0 calls") {
		t.Errorf("the deadline: %s", got)
	}
	if !strings.Contains(read(t, readme), "`7 <nil> after 3 calls`") {
		t.Error("the README says something else")
	}
}

func TestTheHTTPProgramOfTheREADMERunsAsPasted(t *testing.T) {
	get := build(t, programOfREADME(t, 1))
	for _, c := range []struct {
		script      []faulty.Step
		least, most int // requests
		fails       bool
		says        string
	}{
		{[]faulty.Step{faulty.Status(503), faulty.Status(503), faulty.Text("3.14")}, 3, 3, false, `^3\.14$`},
		{[]faulty.Step{faulty.Status(503)}, 5, 14, true, `gave up after \d+ attempts.*waited .* probes?: status 503 Service Unavailable\n$`},
		{[]faulty.Step{faulty.Status(404)}, 1, 1, true, `status 404 Not Found\n$`},
	} {
		server := faulty.Start(c.script...)
		defer server.Close()
		got, failed := get(server.URL)
		if n := server.Requests(); failed != c.fails || n < c.least || n > c.most || !regexp.MustCompile(c.says).MatchString(got) {
			t.Errorf("after %d requests, want %d to %d: %s", n, c.least, c.most, got)
		}
	}
}

func TestTheFunctionWithGuardsOfTheREADMERuns(t *testing.T) {
	rest := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(rest, []byte(programs.ReplaceAllString(read(t, readme), "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := docblocks.Check(rest, "recipes"); err != nil {
		t.Error(err)
	}
}

// programOfREADME returns the text of a program.
func programOfREADME(t *testing.T, i int) string {
	t.Helper()
	all := programs.FindAllStringSubmatch(read(t, readme), -1)
	if len(all) != 2 {
		t.Fatalf("%d programs, want 2", len(all))
	}
	return all[i][1]
}

// build returns how to run a program, which returns what it printed, and whether it failed.
func build(t *testing.T, text string) func(args ...string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "main.exe")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return func(args ...string) (string, bool) {
		out, err := exec.Command(binary, args...).CombinedOutput()
		return string(out), err != nil
	}
}

func TestTheRecipesShowCodeThatRuns(t *testing.T) {
	if err := docblocks.Check(recipes, "recipes"); err != nil {
		t.Error(err)
	}
}

// A reader has ten minutes.
func TestTheREADMEIsShort(t *testing.T) {
	if n := strings.Count(read(t, readme), "\n"); n > 150 {
		t.Errorf("%d lines, want at most 150", n)
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

// unindented takes away one tab, or what stands before a rule of alerts.yaml.
func unindented(text string) string { return indentation.ReplaceAllString(text, "") }

var indentation = regexp.MustCompile(`(?m)^(\t|      )`)

// read returns the text of a file with Unix line ends.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}

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
