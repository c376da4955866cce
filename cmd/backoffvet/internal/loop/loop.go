// Package loop is the model of a retry loop that the rules share: what it calls, how it waits, and
// how its rounds end.
//
// It errs on the side of silence: a loop that it does not understand is none.
package loop

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"time"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// Kind says what a loop is for.
type Kind int

// The kinds of loops.
const (
	Other  Kind = iota
	Retry       // a failure begins another round, a success ends the loop
	Poll        // also some successes begin another round: the loop waits for a state
	Worker      // a success never ends the loop
)

// Loop is a for or range statement.
type Loop struct {
	Kind     Kind
	Stmt     ast.Stmt // *ast.ForStmt or *ast.RangeStmt
	Body     *ast.BlockStmt
	Func     *Func      // the function around it
	Attempts []*Attempt // the calls whose failure begins another round
	Waits    []*Wait
	Counter  *types.Var // counts the rounds that are bounded, or nil

	Calls []*Attempt // all calls that may fail
	Items bool       // each round is about another thing, such as one of a list of servers

	info *types.Info
	prog *program

	args   map[*types.Var]ast.Expr      // what the parameters of a function are that Longest looks into
	values map[*types.Var]time.Duration // what Longest takes variables for
}

// Func is a function with a loop.
type Func struct {
	Node  ast.Node // *ast.FuncDecl or *ast.FuncLit
	Type  *ast.FuncType
	Body  *ast.BlockStmt
	Outer ast.Node // the function declaration around it, or itself
	graph *cfg.CFG
}

// Analyzer finds the loops of a package, in the order of the source.
var Analyzer = &analysis.Analyzer{
	Name:             "retryloops",
	Doc:              "find loops that retry",
	Requires:         []*analysis.Analyzer{inspect.Analyzer},
	RunDespiteErrors: true,
	Run:              func(p *analysis.Pass) (any, error) { return find(p), nil },
	ResultType:       reflect.TypeFor[[]*Loop](),
}

// Of returns the loops of a package, for a rule that requires Analyzer.
func Of(p *analysis.Pass) []*Loop { return p.ResultOf[Analyzer].([]*Loop) }

func find(p *analysis.Pass) []*Loop {
	var loops []*Loop
	funcs := map[ast.Node]*Func{}
	prog := programOf(p)
	for c, stmt := range loopsOf(p) {
		around := slices.Collect(c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)))
		if len(around) == 0 {
			continue
		}
		f := funcOf(funcs, around[0].Node(), around[len(around)-1].Node())
		loops = append(loops, newLoop(prog, stmt, f))
	}
	return slices.Concat(loops, recursions(p, prog, funcs))
}

// recursions returns the functions that call themselves in a return statement outside of any loop,
// each as a for statement without a header.
func recursions(p *analysis.Pass, prog *program, funcs map[ast.Node]*Func) (loops []*Loop) {
	for _, f := range p.Files {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok || decl.Body == nil || !rule.IsSource(p, f) || !Has(decl.Body, func(n ast.Node) bool { return prog.returnsTo(n, decl) }) {
				continue
			}
			stmt := &ast.ForStmt{For: decl.Body.Pos(), Body: decl.Body}
			loops = append(loops, newLoop(prog, stmt, funcOf(funcs, decl, decl)))
		}
	}
	return loops
}

// returnsTo recognizes return f(x) in f.
func (p *program) returnsTo(n ast.Node, f *ast.FuncDecl) bool {
	r, ok := n.(*ast.ReturnStmt)
	return ok && Has(r, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && p.info.Defs[f.Name] != nil && typeutil.Callee(p.info, call) == p.info.Defs[f.Name]
	})
}

// isAgain reports whether a node begins another round of a function that calls itself.
func (l *Loop) isAgain(n ast.Node) bool {
	f, ok := l.Func.Node.(*ast.FuncDecl)
	return ok && l.Body == f.Body && l.prog.returnsTo(n, f)
}

// loopsOf returns the loops in the files of a package that rules look at, and where they are.
func loopsOf(p *analysis.Pass) iter.Seq2[inspector.Cursor, ast.Stmt] {
	return func(yield func(inspector.Cursor, ast.Stmt) bool) {
		root := p.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root()
		for file := range root.Children() {
			if !rule.IsSource(p, file.Node().(*ast.File)) {
				continue
			}
			for c := range file.Preorder((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.LabeledStmt)(nil)) {
				stmt := c.Node().(ast.Stmt)
				if _, ok := stmt.(*ast.LabeledStmt); ok {
					stmt = byGoto(c)
				}
				if stmt != nil && !yield(c, stmt) {
					return
				}
			}
		}
	}
}

// byGoto returns the loop that gotos back to a label make, as a for statement without a header, or
// nil.
func byGoto(c inspector.Cursor) ast.Stmt {
	label := c.Node().(*ast.LabeledStmt)
	list := Statements(c.Parent().Node())
	from := slices.Index(list, ast.Stmt(label))
	for i := len(list) - 1; from >= 0 && i >= from; i-- {
		if goesTo(list[i], label) {
			body := &ast.BlockStmt{Lbrace: label.Pos(), List: list[from : i+1], Rbrace: list[i].End() - 1}
			return &ast.ForStmt{For: label.Pos(), Body: body}
		}
	}
	return nil
}

func goesTo(s ast.Stmt, label *ast.LabeledStmt) bool {
	return Has(s, func(n ast.Node) bool {
		b, ok := n.(*ast.BranchStmt)
		return ok && b.Tok == token.GOTO && b.Label.Name == label.Label.Name
	})
}

func funcOf(known map[ast.Node]*Func, node, outer ast.Node) *Func {
	f := known[node]
	if f == nil {
		f = &Func{Node: node, Outer: outer}
		switch n := node.(type) {
		case *ast.FuncDecl:
			f.Type, f.Body = n.Type, n.Body
		case *ast.FuncLit:
			f.Type, f.Body = n.Type, n.Body
		}
		known[node] = f
	}
	return f
}

func newLoop(prog *program, stmt ast.Stmt, f *Func) *Loop {
	l := &Loop{Stmt: stmt, Func: f, info: prog.info, prog: prog}
	switch s := stmt.(type) {
	case *ast.ForStmt:
		l.Body = s.Body
	case *ast.RangeStmt:
		l.Body = s.Body
	}
	l.Calls = callsThatFail(l.info, l)
	l.Waits = waitsIn(l.info, stmt, prog.sleepers)
	l.timers()
	l.Counter = counterOf(l.info, stmt)
	l.classify()
	return l
}

// control returns the graph of a function. It is made for the first loop that asks for it.
func (f *Func) control(info *types.Info) *cfg.CFG {
	if f.graph == nil {
		f.graph = cfg.New(f.Body, func(call *ast.CallExpr) bool { return mayReturn(info, call) })
	}
	return f.graph
}

// Contains reports whether a node is in the loop.
func (l *Loop) Contains(n ast.Node) bool { return within(n, l.Stmt) }

func within(n, outer ast.Node) bool { return outer.Pos() <= n.Pos() && n.End() <= outer.End() }

// HandsOver reports whether the function hands a variable to a call that does more than to write a
// log, in the loop or before it.
func (l *Loop) HandsOver(v *types.Var) bool {
	found := false
	ast.Inspect(l.Func.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && (call.Pos() > l.Stmt.End() || loggers.MatchString(types.ExprString(call.Fun))) {
			return false
		}
		found = found || ok && slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return Uses(l.info, e, v) })
		return !found
	})
	return found
}

var loggers = regexp.MustCompile(`(?i)\b[sk]?log(f|rus)?\b|logger\b`)

// Next returns the statement that follows the loop in its block, or nil.
func (l *Loop) Next() ast.Stmt {
	var next ast.Stmt
	Inspect(l.Func.Body, func(n ast.Node) bool {
		list := Statements(n)
		for i, s := range list {
			if (s == l.Stmt || isLabeled(s, l.Stmt)) && i+1 < len(list) {
				next = list[i+1]
			}
		}
		return next == nil
	})
	return next
}

func isLabeled(s, inner ast.Stmt) bool {
	l, ok := s.(*ast.LabeledStmt)
	return ok && l.Stmt == inner
}

// Statements returns the statements of a block or a clause, and none of another node.
func Statements(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}
