package rule

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

func sources(p *analysis.Pass) []*ast.File {
	var files []*ast.File
	for _, f := range p.Files {
		if IsSource(p, f) {
			files = append(files, f)
		}
	}
	return files
}

// isTest reports whether a file is a test, or helps tests.
func isTest(f *ast.File, name string) bool {
	return strings.HasSuffix(name, "_test.go") ||
		slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
}

// IsSource reports whether people wrote a file and keep it here, and rules look at it. What cgo
// makes of a file counts as generated: its positions are not those of the file.
func IsSource(p *analysis.Pass, f *ast.File) bool {
	name := p.Fset.File(f.FileStart).Name()
	return !ast.IsGenerated(f) &&
		!strings.Contains(filepath.ToSlash(name), "/vendor/") &&
		(Tests || !isTest(f, name))
}
