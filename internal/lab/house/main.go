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

// A tally counts lines that have a token, by folder at the top, and exported names without methods.
type tally struct {
	code, tests, names map[string]int
	folders, modules   int
	others             int     // lines of SQL, Lua and tables that are not in Go files
	largest            largest // of the core
}

// vet is a tool for any Go code, and no part of the library.
const vet = "cmd/backoffvet"

// beside is the code that is not the core.
var beside = []string{"cmd", vet, "examples", "internal/lab"}

func main() {
	log.SetFlags(0)
	t := tally{code: map[string]int{}, tests: map[string]int{}, names: map[string]int{}}
	if err := errors.Join(os.Chdir("../.."), filepath.WalkDir(".", t.visit)); err != nil {
		log.Fatal(err)
	}
	t.print()
}

func (t *tally) visit(path string, d fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."), path == "dist":
		return filepath.SkipDir
	case d.IsDir() && path != "." && filepath.Dir(path) == ".":
		t.folders++
	case d.Name() == "go.mod":
		t.modules++
	case filepath.Ext(path) == ".go":
		return t.file(filepath.ToSlash(path))
	case slices.Contains([]string{".sql", ".lua", ".txt"}, filepath.Ext(path)) && !strings.Contains(filepath.ToSlash(path), "/testdata/") && isCore(path):
		text, err := os.ReadFile(path)
		t.others += strings.Count(string(text), "\n")
		return err
	}
	return nil
}

func isCore(path string) bool {
	return !slices.ContainsFunc(beside, func(folder string) bool { return strings.HasPrefix(filepath.ToSlash(path), folder+"/") })
}

func (t *tally) file(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	top, _, below := strings.Cut(path, "/")
	if !below {
		top = "."
	}
	for _, folder := range []string{"internal/lab", vet} {
		if strings.HasPrefix(path, folder+"/") {
			top = folder
		}
	}
	if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") {
		t.tests[top] += lines(text)
		return nil
	}
	t.code[top] += lines(text)
	if slices.Contains(beside, top) {
		return nil
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.largest.add(path, files, f)
	if top != "contrib" && !strings.Contains("/"+path, "/internal/") { // users import it with the root module
		t.names[top] += exported(f)
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
	row := func(what string, limit int, is any) { fmt.Printf("%-56s %8d %8v\n", what, limit, is) }
	core := sum(t.code)
	for _, folder := range beside {
		core -= t.code[folder]
	}
	withHTTP, alone := kibibytes()
	fmt.Printf("%-56s %8s %8s\n", "", "at most", "is")
	row("lines of the root package", 3_300, t.code["."])
	row("exported names of the root package", 100, t.names["."])
	row("words of the documentation of the root package", 10_500, words())
	row("lines of code, without cmd, examples, internal/lab", 26_600, core)
	fmt.Printf("%-56s %8s %8d\n", "lines of SQL, Lua and tables beside these", "", t.others)
	row("lines of tests, without "+vet, 68_000, sum(t.tests)-t.tests[vet])
	row("exported names of the root module", 320, sum(t.names))
	row("folders at the top", 20, t.folders)
	row("KiB that Do adds to a program with net/http", 110, withHTTP)
	row("KiB that Do adds to a program that has nothing", 340, alone)
	row("fields of a struct of state of the core", 18, t.largest.state)
	row("lines of a function of the root package", 40, t.largest.function)
	row("cyclomatic complexity of a function of the core", 15, t.largest.complexity)
	fmt.Printf("\n%d modules\n\n%-20s %8s %8s %8s\n", t.modules, "folder", "code", "tests", "names")
	for _, top := range slices.Sorted(maps.Keys(t.code)) {
		fmt.Printf("%-20s %8d %8d %8d\n", top, t.code[top], t.tests[top], t.names[top])
	}
}

func sum(m map[string]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}
