// Command house prints how large the project is, beside its limits. Run it in internal/lab.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
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
}

// vet is a tool for any Go code, and no part of the library.
const vet = "cmd/backoffvet"

func main() {
	log.SetFlags(0)
	t := tally{code: map[string]int{}, tests: map[string]int{}, names: map[string]int{}}
	if err := errors.Join(os.Chdir("../.."), filepath.WalkDir(".", t.visit)); err != nil {
		log.Fatal(err)
	}
	beside, alone := kibibytes()
	t.print(beside, alone)
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
	}
	return nil
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
	for _, apart := range []string{"internal/lab", vet} {
		if strings.HasPrefix(path, apart+"/") {
			top = apart
		}
	}
	if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") {
		t.tests[top] += lines(text)
		return nil
	}
	t.code[top] += lines(text)
	if slices.Contains([]string{"cmd", vet, "contrib", "examples"}, top) || strings.Contains("/"+path, "/internal/") {
		return nil // not a package of the root module that users import
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err == nil {
		t.names[top] += exported(f)
	}
	return err
}

func lines(text []byte) int {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	with := map[int]bool{}
	for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
		for i := range 1 + strings.Count(strings.TrimPrefix(lit, "\n"), "\n") {
			with[file.Line(pos)+i] = true
		}
	}
	return len(with)
}

func exported(f *ast.File) (n int) {
	for _, decl := range f.Decls {
		var names []*ast.Ident
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name)
				case *ast.ValueSpec:
					names = append(names, s.Names...)
				}
			}
		}
		n += len(names) - len(slices.DeleteFunc(names, (*ast.Ident).IsExported))
	}
	return n
}

// kibibytes asks the tests of package size, which build programs.
func kibibytes() (beside, alone string) {
	out, _ := exec.Command("go", "test", "-C=internal/lab", "-v", "-count=1", "-run=Growth", "./bench/size").CombinedOutput()
	found := regexp.MustCompile(`(?s)Policy\.Do beside net/http: (\d+) KiB.*Policy\.Do alone: (\d+) KiB`).FindSubmatch(out)
	if found == nil {
		log.Fatalf("the size is not known: %s", out)
	}
	return string(found[1]), string(found[2])
}

func (t *tally) print(beside, alone string) {
	row := func(what string, limit int, is any) { fmt.Printf("%-56s %8d %8v\n", what, limit, is) }
	core := sum(t.code)
	for _, apart := range []string{"cmd", vet, "examples", "internal/lab"} {
		core -= t.code[apart]
	}
	fmt.Printf("%-56s %8s %8s\n", "", "at most", "is")
	row("lines of the root package", 3_400, t.code["."])
	row("exported names of the root package", 108, t.names["."])
	row("lines of code, without cmd, examples, internal/lab", 25_600, core)
	row("lines of tests, without "+vet, 70_000, sum(t.tests)-t.tests[vet])
	row("exported names of the root module", 325, sum(t.names))
	row("folders at the top", 20, t.folders)
	row("KiB that Do adds to a program with net/http", 114, beside)
	row("KiB that Do adds to a program that has nothing", 340, alone)
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
