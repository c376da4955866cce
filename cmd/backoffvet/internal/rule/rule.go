// Package rule is what all analyzers of backoffvet share: which files they look at, which
// findings a comment silences, and where a rule is explained.
package rule

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Tests says whether rules look at test files, too. The flag -tests sets it before they run.
var Tests bool

const pages = "https://github.com/gobackoff/backoff/blob/main/cmd/backoffvet/docs/"

// New returns the analyzer of a rule. Its findings leave out generated and vendored files,
// ignored lines and, unless Tests is set, test files. It is silent about a package that does not
// type-check: the go command says what is wrong there.
func New(name, doc string, run func(*Pass), requires ...*analysis.Analyzer) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:     name,
		Doc:      doc + "\n\nSee " + pages + name + ".md",
		URL:      pages + name + ".md",
		Requires: append(slices.Clip(requires), directives),
		Run: func(p *analysis.Pass) (any, error) {
			if len(p.TypeErrors) == 0 {
				run(&Pass{Pass: p, sources: sources(p), reported: map[token.Pos]bool{}})
			}
			return nil, nil
		},
		RunDespiteErrors: true,
	}
}

// Pass is an analysis.Pass for a rule.
type Pass struct {
	*analysis.Pass

	sources  []*ast.File
	reported map[token.Pos]bool
}

// Sources returns the files that the rule should look at.
func (p *Pass) Sources() []*ast.File { return p.sources }

// Report reports a finding, with the name of the rule, unless it is in a file that is not of
// Sources, or a directive at its line or the line above ignores it. Of several at one position it
// reports the first.
func (p *Pass) Report(at analysis.Range, message string, fixes ...analysis.SuggestedFix) {
	if p.reported[at.Pos()] || !p.looksAt(at) || p.ResultOf[directives].(ignored).ignores(p.Pass, at) {
		return
	}
	p.reported[at.Pos()] = true
	if isMoved(p.Pass, at) {
		fixes = nil
	}
	first, rest, long := strings.Cut(message, "\n")
	message = first + " (" + p.Analyzer.Name + ")"
	if long {
		message += "\n" + rest
	}
	p.Pass.Report(analysis.Diagnostic{
		Pos:            at.Pos(),
		End:            at.End(),
		Message:        message,
		URL:            p.Analyzer.URL,
		SuggestedFixes: fixes,
	})
}

func (p *Pass) looksAt(at analysis.Range) bool {
	return slices.ContainsFunc(p.sources, func(f *ast.File) bool {
		return f.FileStart <= at.Pos() && at.Pos() < f.FileEnd
	})
}

// Importing returns the edits by which a package of the standard library has its name at a place.
func (p *Pass) Importing(path string, at token.Pos) ([]analysis.TextEdit, bool) {
	scope := p.Pkg.Scope().Innermost(at)
	if scope == nil {
		return nil, false
	}
	_, there := scope.LookupParent(path, at)
	if name, ok := there.(*types.PkgName); ok && name.Imported().Path() == path {
		return nil, true
	}
	i := slices.IndexFunc(p.Files, func(f *ast.File) bool { return f.FileStart <= at && at < f.FileEnd })
	if there != nil || i < 0 || len(p.Files[i].Decls) == 0 {
		return nil, false
	}
	first, ok := p.Files[i].Decls[0].(*ast.GenDecl)
	if !ok || first.Tok != token.IMPORT {
		return nil, false
	}
	edit := analysis.TextEdit{Pos: first.Pos(), End: first.Pos(), NewText: fmt.Appendf(nil, "import %q\n\n", path)}
	if first.Lparen.IsValid() {
		edit = analysis.TextEdit{Pos: first.Lparen + 1, End: first.Lparen + 1, NewText: fmt.Appendf(nil, "\n\t%q", path)}
	}
	return []analysis.TextEdit{edit}, true
}
