package main

import (
	"go/ast"
	"go/parser"
	"go/token"
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
