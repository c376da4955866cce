package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const source = `package p

// A comment is no code.
type state struct {
	a, b int
	Embedded
	inner struct{ c int }
}

type Error struct{ a, b, c, d, e int }

type Options struct{ a, b, c, d, e, f, g int }

const Text, hidden = "" + ` + "`two\nlines`" + `, 1

func (s *state) Method() {}

func F(c chan bool) {
	for ok := range c {
		if ok && true || <-c {
			continue
		}
		for {
		}
	}
}

func branches(c chan bool) {

	select {
	case <-c:
	default:
	}
	switch {
	case true, false:
	case func() bool { return true || false }():
	default:
	}
}
`

func TestCounters(t *testing.T) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "p.go", source, 0)
	require.NoError(t, err)
	assert.Equal(t, 31, lines([]byte(source)))
	assert.Equal(t, 4, exported(f), "Error, Options, Text and F")

	ways := map[string]int{}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			ways[d.Name.Name] = complexity(d)
		}
	}
	assert.Equal(t, map[string]int{"Method": 1, "F": 6, "branches": 5}, ways)

	var root, below, apart largest
	root.add("p.go", files, f)
	below.add("p/p.go", files, f)
	apart.add(model+"p.go", files, f)
	assert.Equal(t, largest{
		state:      most{5, "p.go Error"},
		function:   most{12, "p.go branches"},
		complexity: most{6, "p.go F"},
	}, root)
	assert.Equal(t, largest{
		state:      most{4, "p/p.go state"},
		complexity: most{6, "p/p.go F"},
	}, below, "the limit of lines is of the root package")
	assert.Zero(t, apart.state, "a model has its state in one struct")
}

func TestWhatALimitLeavesOutIsSaidBesideIt(t *testing.T) {
	n, left := without(map[string]int{".": 1, "docs": 20, results: 300, "cmd": 0}, results, "cmd")
	assert.Equal(t, 21, n)
	assert.Equal(t, "docs/results 300", left)
}

func TestEachFileCountsForOneFolderAndKind(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, text := range map[string]string{
		"a.go": "package p\n\nfunc F() {}\n", "a_test.go": "package p\n", "README.md": "one\ntwo\n", "Makefile": "all:\n",
		"docs/a.md": "one\n", "docs/results/a.md": "one\n\nthree\n", "docs/results/a.svg": "<svg/>\n",
		"cmd/backoffvet/docs/a.md": "one\n", "cmd/backoffvet/testdata/a.go": "package p\n", "cmd/backoffvet/testdata/a.txt": "one\n",
		"internal/lab/a/a.go": "package p\n", "internal/a.sql": "SELECT 1\n", ".ci/run": "true\n", ".git/a.txt": "one\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	m := func() map[string]int { return map[string]int{} }
	is := tally{code: m(), tests: m(), names: m(), pages: m(), others: m()}
	require.NoError(t, filepath.WalkDir(".", is.visit))
	assert.Equal(t, map[string]int{".": 2, lab: 1}, is.code)
	assert.Equal(t, map[string]int{".": 1, vet: 1}, is.tests)
	assert.Equal(t, map[string]int{".": 2, "docs": 1, results: 3, vet: 1}, is.pages)
	assert.Equal(t, map[string]int{".": 1, ".ci": 1, "internal": 1}, is.others)
	assert.Equal(t, 3, is.folders, "docs, cmd and internal")
}
