package rule

import (
	"go/ast"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
)

func sources(p *analysis.Pass) []*ast.File {
	var files []*ast.File
	for _, f := range p.Files {
		if isSource(f, p.Fset.File(f.FileStart).Name()) {
			files = append(files, f)
		}
	}
	return files
}

// isSource reports whether people wrote a file and keep it here. What cgo makes of a file counts
// as generated: its positions are not those of the file.
func isSource(f *ast.File, name string) bool {
	return !ast.IsGenerated(f) &&
		!strings.Contains(filepath.ToSlash(name), "/vendor/") &&
		(Tests || !strings.HasSuffix(name, "_test.go"))
}
