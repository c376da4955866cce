package real

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/all"
)

type finding struct {
	place
	message string
}

// judge prints what backoffvet finds, each with its verdict, and which verdicts are about what it
// finds no more.
func (m module) judge(verdicts []verdict) error {
	findings, err := m.vet()
	if err != nil {
		return err
	}
	known := map[place]string{}
	for _, v := range verdicts {
		if v.module == m.String() {
			known[v.place] = v.is
		}
	}
	for _, f := range findings {
		is := known[f.place]
		if is == "" {
			is = "new"
		}
		delete(known, f.place)
		fmt.Printf("%s\t%s\t%s\t%s\t%s\n", f.module, f.line, f.rule, is, f.message)
	}
	for p, is := range known {
		fmt.Printf("%s\t%s\t%s\tgone\twas %s\n", p.module, p.line, p.rule, is)
	}
	return nil
}

// vet runs the rules over the packages of the copy. What does not compile is named; the rules look
// at what is left.
func (m module) vet() ([]finding, error) {
	cfg := &packages.Config{
		Mode: packages.LoadAllSyntax | packages.NeedModule, Dir: m.dir, Env: m.environ(), ParseFile: m.parse,
	}
	pkgs, err := packages.Load(cfg, "./...")
	if err != nil {
		return nil, err
	}
	packages.Visit(pkgs, nil, func(pkg *packages.Package) { pkg.IllTyped = false })
	for _, pkg := range pkgs {
		if len(pkg.Errors) > 0 {
			log.Printf("%s does not compile: %v", pkg, pkg.Errors[0])
		}
	}
	graph, err := checker.Analyze(all.Rules(), pkgs, nil)
	if err != nil {
		return nil, err
	}
	return m.findings(graph), nil
}

// parse leaves out the bodies of functions of other modules, unless a file may wait: all that rules
// want to know of another module is which of its functions wait. It saves most of the memory.
func (m module) parse(fset *token.FileSet, name string, content []byte) (*ast.File, error) {
	file, err := parser.ParseFile(fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if file == nil || strings.HasPrefix(name, m.dir) || waits.Match(content) {
		return file, err
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
	return file, err
}

var waits = regexp.MustCompile(`time\.(Sleep|After|NewTimer)\b`)

func (m module) findings(graph *checker.Graph) (all []finding) {
	for _, action := range graph.Roots {
		if action.Err != nil {
			log.Printf("%s: %v", action, action.Err)
		}
		for _, d := range action.Diagnostics {
			at := action.Package.Fset.Position(d.Pos)
			name := strings.TrimPrefix(filepath.ToSlash(at.Filename), filepath.ToSlash(m.dir)+"/")
			all = append(all, finding{
				place:   place{m.String(), fmt.Sprintf("%s:%d", name, at.Line), action.Analyzer.Name},
				message: strings.ReplaceAll(d.Message, "\n", " "),
			})
		}
	}
	slices.SortFunc(all, func(a, b finding) int { return strings.Compare(a.line+a.rule, b.line+b.rule) })
	return slices.Compact(all)
}
