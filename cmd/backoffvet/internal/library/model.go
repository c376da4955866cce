package library

import (
	"go/ast"
	"go/types"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// model is what the rules know of a package that uses the library.
type model struct {
	info     *types.Info
	root     inspector.Cursor
	values   values
	attempts []attempt
	funcs    map[types.Object]*ast.FuncDecl
	hasHTTP  bool // it makes clients of package backoffhttp
}

// models makes the model of a package, nil if the package does not use the library.
var models = &analysis.Analyzer{
	Name:       "backoffvetlibrary",
	Doc:        "find the calls of github.com/gobackoff/backoff",
	Requires:   []*analysis.Analyzer{inspect.Analyzer},
	ResultType: reflect.TypeFor[*model](),
	Run: func(p *analysis.Pass) (any, error) {
		if len(p.TypeErrors) > 0 || !usesLibrary(p) {
			return (*model)(nil), nil
		}
		return newModel(p), nil
	},
	RunDespiteErrors: true,
}

// usesLibrary reports whether a package is one of the users of the library, and so none of its own,
// which build on what users should not rely on.
func usesLibrary(p *analysis.Pass) bool {
	if p.Module != nil && p.Module.Path == module {
		return false
	}
	for _, obj := range p.TypesInfo.Uses {
		if _, ok := inside(obj.Pkg(), module); ok && obj.Pkg() != p.Pkg {
			return true
		}
	}
	return false
}

func newModel(p *analysis.Pass) *model {
	m := &model{info: p.TypesInfo, root: p.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root()}
	m.values, m.funcs = collectValues(m.root, m.info), declarations(p)
	m.hasHTTP = m.makesClients()
	for c := range m.root.Preorder((*ast.CallExpr)(nil), (*ast.RangeStmt)(nil)) {
		if a, ok := m.attempt(c); ok {
			m.attempts = append(m.attempts, a)
		}
	}
	return m
}

func declarations(p *analysis.Pass) map[types.Object]*ast.FuncDecl {
	funcs := map[types.Object]*ast.FuncDecl{}
	for _, f := range p.Files {
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil && p.TypesInfo.Defs[d.Name] != nil {
				funcs[p.TypesInfo.Defs[d.Name]] = d
			}
		}
	}
	return funcs
}
