// Command house prints how large the project is, beside its limits. Run it in internal/lab.
package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A tally counts lines by folder: of Go files those that have a token, of others all. It counts
// exported names without methods.
type tally struct {
	code, tests, names map[string]int
	pages              map[string]int // Markdown
	others             map[string]int // what else people wrote, such as SQL, Lua, HTML and YAML
	folders, modules   int
	largest            largest // of the core
}

// vet is a tool for any Go code, and no part of the library. Commands write the pages of results.
const (
	vet     = "cmd/backoffvet"
	results = "docs/results"
	lab     = "internal/lab"
)

// beside is the code that is not the core.
var beside = []string{"cmd", vet, "examples", lab}

// written are the ends of the names of other files that people wrote.
var written = []string{".sql", ".lua", ".txt", ".html", ".js", ".css", ".json", ".yaml", ".yml", ".tmpl", "Makefile", ".ci/run", ".ci/setup"}

func main() {
	log.SetFlags(0)
	t := tally{code: map[string]int{}, tests: map[string]int{}, names: map[string]int{}, pages: map[string]int{}, others: map[string]int{}}
	if err := errors.Join(os.Chdir("../.."), filepath.WalkDir(".", t.visit)); err != nil {
		log.Fatal(err)
	}
	t.print()
}

func (t *tally) visit(path string, d fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case d.IsDir():
		return t.folder(path, d.Name())
	case d.Name() == "go.mod":
		t.modules++
		return nil
	}
	return t.file(filepath.ToSlash(path))
}

func (t *tally) folder(path, name string) error {
	hidden := path != "." && strings.HasPrefix(name, ".")
	switch {
	case hidden && name != ".ci" && name != ".github", path == "dist":
		return filepath.SkipDir
	case path != "." && !hidden && filepath.Dir(path) == ".":
		t.folders++
	}
	return nil
}

// top returns the folder that a file counts for.
func top(path string) string {
	for _, folder := range []string{lab, vet, results} {
		if strings.HasPrefix(path, folder+"/") {
			return folder
		}
	}
	folder, _, below := strings.Cut(path, "/")
	if !below {
		return "."
	}
	return folder
}

func (t *tally) file(path string) error {
	text, err := os.ReadFile(path)
	all := strings.Count(string(text), "\n")
	inTestdata := strings.Contains(path, "/testdata/")
	switch ext := filepath.Ext(path); {
	case err != nil:
		return err
	case ext == ".go" && (inTestdata || strings.HasSuffix(path, "_test.go")):
		t.tests[top(path)] += lines(text)
	case ext == ".go":
		return t.source(path, text)
	case inTestdata:
	case ext == ".md":
		t.pages[top(path)] += all
	case slices.ContainsFunc(written, func(end string) bool { return strings.HasSuffix(path, end) }):
		t.others[top(path)] += all
	}
	return nil
}

// source counts a file that is no test.
func (t *tally) source(path string, text []byte) error {
	folder := top(path)
	t.code[folder] += lines(text)
	if slices.Contains(beside, folder) {
		return nil
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.largest.add(path, files, f)
	if folder != "contrib" && !strings.Contains("/"+path, "/internal/") { // users import it with the root module
		t.names[folder] += exported(f)
	}
	return nil
}

// kibibytes asks the tests of package size, which build programs.
func kibibytes() (withHTTP, alone string) {
	out, _ := exec.Command("go", "test", "-C=internal/lab", "-v", "-count=1", "-run=Growth", "./bench/size").CombinedOutput()
	found := regexp.MustCompile(`(?s)Policy\.Do beside net/http: (\d+) KiB.*Policy\.Do alone: (\d+) KiB`).FindSubmatch(out)
	if found == nil {
		log.Fatalf("the size is not known: %s", out)
	}
	return string(found[1]), string(found[2])
}

// words counts what go doc says of the root package.
func words() int {
	out, err := exec.Command("go", "doc", "-all", ".").Output()
	if err != nil {
		log.Fatalf("go doc: %v", err)
	}
	return len(strings.Fields(string(out)))
}

func (t *tally) print() {
	row := func(what string, limit, is any, more string) {
		fmt.Println(strings.TrimRight(fmt.Sprintf("%-50s %8v %8v  %s", what, limit, is, more), " "))
	}
	core, coreLeft := without(t.code, beside...)
	tests, testsLeft := without(t.tests, vet)
	docs, docsLeft := without(map[string]int{"docs": t.pages["docs"], results: t.pages[results]}, results)
	pages, pagesLeft := without(t.pages, "docs", results, vet)
	others, othersLeft := without(t.others, beside...)
	withHTTP, alone := kibibytes()
	row("", "at most", "is", "left out, with its lines")
	row("lines of the root package", 3_300, t.code["."], "")
	row("exported names of the root package", 100, t.names["."], "")
	row("words of the documentation of the root package", 10_500, words(), "")
	row("lines of code", 27_600, core, coreLeft)
	row("lines of tests", 68_000, tests, testsLeft)
	row("lines of documents, in docs", 3_000, docs, docsLeft)
	row("lines of other pages, such as README.md", "", pages, pagesLeft)
	row("lines of other files, such as SQL and HTML", "", others, othersLeft)
	row("exported names of the root module", 345, sum(t.names), "")
	row("folders at the top", 20, t.folders, "")
	row("KiB that Do adds to a program with net/http", 110, withHTTP, "")
	row("KiB that Do adds to a program that has nothing", 340, alone, "")
	row("fields of a struct of state of the core", 18, t.largest.state.number, t.largest.state.of)
	row("lines of a function of the root package", 40, t.largest.function.number, t.largest.function.of)
	row("cyclomatic complexity of a function of the core", 15, t.largest.complexity.number, t.largest.complexity.of)
	t.printFolders()
}

// printFolders prints all that was counted, also what the limits leave out.
func (t *tally) printFolders() {
	const format = "%-16s %8v %8v %8v %8v %8v\n"
	fmt.Printf("\n%d modules\n\n"+format, t.modules, "folder", "code", "tests", "pages", "others", "names")
	folders := map[string]bool{}
	for _, m := range []map[string]int{t.code, t.tests, t.pages, t.others} {
		for folder := range m {
			folders[folder] = true
		}
	}
	for _, f := range slices.Sorted(maps.Keys(folders)) {
		fmt.Printf(format, f, t.code[f], t.tests[f], t.pages[f], t.others[f], t.names[f])
	}
	fmt.Printf(format, "all", sum(t.code), sum(t.tests), sum(t.pages), sum(t.others), sum(t.names))
}

// without sums up what is not in some folders, and says what these have.
func without(m map[string]int, folders ...string) (n int, left string) {
	n = sum(m)
	var said []string
	for _, f := range folders {
		n -= m[f]
		if m[f] > 0 {
			said = append(said, fmt.Sprintf("%s %d", f, m[f]))
		}
	}
	return n, strings.Join(said, ", ")
}

func sum(m map[string]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}
