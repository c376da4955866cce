package main

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// A most is the greatest of some numbers, and what has it.
type most struct {
	number int
	of     string
}

func (m *most) add(number int, of string) {
	if number > m.number {
		*m = most{number, of}
	}
}

// largest is what is hardest to read.
type largest struct {
	state      most // fields of a struct that is not exported, or of Run and Error
	function   most // lines of a function of the root package
	complexity most // of a function
}

// add looks at the declarations of a file.
func (l *largest) add(path string, files *token.FileSet, f *ast.File) {
	root := !strings.Contains(path, "/")
	ast.Inspect(f, func(node ast.Node) bool {
		switch d := node.(type) {
		case *ast.FuncDecl:
			name := path + " " + d.Name.Name
			l.complexity.add(complexity(d), name)
			if root {
				l.function.add(files.Position(d.End()).Line-files.Position(d.Pos()).Line+1, name)
			}
		case *ast.TypeSpec:
			s, ok := d.Type.(*ast.StructType)
			state := !d.Name.IsExported() || root && (d.Name.Name == "Run" || d.Name.Name == "Error")
			if ok && state && !strings.HasPrefix(path, model) {
				l.state.add(fields(s), path+" "+d.Name.Name)
			}
		}
		return true
	})
}

// model is a model of its own, with all of its state in one struct.
const model = "guard/internal/line/"

// lines counts the lines that have a token.
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

// exported counts the exported names of a file, without methods.
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

// fields counts the fields of a struct. An embedded one counts, too.
func fields(s *ast.StructType) (n int) {
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

// complexity counts the ways through a function that do not depend on each other:
// the cyclomatic complexity.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
