package loop

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
)

// A program is what a package does with its variables and fields, and which of its functions sleep.
type program struct {
	pkg      *types.Package
	info     *types.Info
	decls    map[types.Object]*ast.FuncDecl
	sleepers map[types.Object]*Wait
	set      map[*types.Var][]ast.Expr  // what is assigned, in the order of the source
	listens  map[*types.Var]bool        // fields that cases of a select receive from, or whose Done they do, and then leave
	uses     map[*types.Var][]token.Pos // where something may close a channel, or send to it
	closes   map[*types.Var][]token.Pos // where something closes a channel
	tells    map[*types.Var][]token.Pos // where a function closes a channel as it returns
	noted    map[*ast.Ident]bool        // mentions of a channel that are none of these, or noted
	calls    map[types.Object][]*ast.CallExpr
	params   map[*types.Var]param
	mentions map[types.Object]int // how often the package names something
}

// A param says of which function a variable is a parameter.
type param struct {
	of    types.Object
	index int
}

func programOf(p *analysis.Pass) *program {
	prog := &program{
		pkg: p.Pkg, info: p.TypesInfo, decls: map[types.Object]*ast.FuncDecl{}, sleepers: map[types.Object]*Wait{}, set: map[*types.Var][]ast.Expr{}, listens: map[*types.Var]bool{},
		uses: map[*types.Var][]token.Pos{}, tells: map[*types.Var][]token.Pos{}, noted: map[*ast.Ident]bool{},
		calls: map[types.Object][]*ast.CallExpr{}, params: map[*types.Var]param{}, mentions: map[types.Object]int{},
		closes: map[*types.Var][]token.Pos{},
	}
	for _, obj := range p.TypesInfo.Uses {
		prog.mentions[obj]++
	}
	for _, f := range p.Files {
		ast.Inspect(f, prog.note)
	}
	return prog
}

func (p *program) note(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		p.declare(n)
	case *ast.AssignStmt:
		if n.Tok == token.ADD_ASSIGN && types.ExprString(n.Rhs[0]) == "1" { // n++
			p.assign(n.Lhs, n.Lhs)
			break
		}
		p.assign(n.Lhs, n.Rhs)
	case *ast.ValueSpec:
		p.assign(asExprs(n.Names), n.Values)
	case *ast.IncDecStmt:
		p.assign([]ast.Expr{n.X}, []ast.Expr{n.X})
	case *ast.KeyValueExpr:
		if v := VarOf(p.info, n.Key); v != nil && v.IsField() {
			p.assign([]ast.Expr{n.Key}, []ast.Expr{n.Value})
		}
	case *ast.CommClause:
		if leaves(p.info, n.Body, token.GOTO) {
			p.listen(n.Comm)
		}
	case *ast.CallExpr:
		if v := p.closed(n); v != nil {
			p.closes[v] = append(p.closes[v], n.Pos())
		}
		if of := atomicOf(p.info, n, "Store"); of != nil && len(n.Args) > 0 {
			p.assign([]ast.Expr{of}, n.Args[len(n.Args)-1:])
		}
		f := typeutil.Callee(p.info, n)
		p.calls[f] = append(p.calls[f], n)
	default:
		p.noteChannel(n)
	}
	return true
}

// noteChannel notes where something may close a channel, or send to it: a receive and a return do
// not.
func (p *program) noteChannel(n ast.Node) {
	switch n := n.(type) {
	case *ast.UnaryExpr:
		p.noted[nameOf(n.X)] = n.Op == token.ARROW
	case *ast.ReturnStmt:
		for _, e := range n.Results {
			p.noted[nameOf(e)] = true
		}
	case *ast.DeferStmt:
		if v := p.closed(n.Call); v != nil {
			p.tells[v] = append(p.tells[v], n.Pos())
			p.noted[nameOf(n.Call.Args[0])] = true
		}
	case *ast.Ident:
		v, ok := p.info.Uses[n].(*types.Var)
		if _, isChan := typeOf(p.info, n).Underlying().(*types.Chan); ok && isChan && !p.noted[n] {
			p.uses[v] = append(p.uses[v], n.Pos())
		}
	}
}

// declare notes a function, and whether it does nothing that may fail but wait, or sleeps at its
// end.
func (p *program) declare(f *ast.FuncDecl) {
	p.decls[p.info.Defs[f.Name]] = f
	if fn, ok := p.info.Defs[f.Name].(*types.Func); ok && !fn.Signature().Variadic() {
		for i := range fn.Signature().Params().Len() {
			p.params[fn.Signature().Params().At(i)] = param{fn, i}
		}
	}
	if f.Body == nil || len(f.Body.List) == 0 {
		return
	}
	waits := waitsIn(p.info, f.Body, nil)
	if n := len(waits); n > 0 && (onlyWaits(p.info, f) || isAtEnd(waits[n-1], f.Body)) {
		p.sleepers[p.info.Defs[f.Name]] = waits[n-1]
	}
}

// assign notes an assignment. An expression that is not the value itself, such as that of
// delay *= 2 or of a call with several results, counts, too.
func (p *program) assign(left, right []ast.Expr) {
	for i, e := range left {
		if v := fieldOrVar(p.info, e); v != nil && len(right) > 0 {
			p.set[v] = append(p.set[v], right[min(i, len(right)-1)])
			p.noted[nameOf(e)] = true
		}
	}
}

// closed returns the channel that a call closes, or nil.
func (p *program) closed(call *ast.CallExpr) *types.Var {
	if Name(call) != "close" || len(call.Args) != 1 {
		return nil
	}
	return fieldOrVar(p.info, call.Args[0])
}

func (p *program) listen(comm ast.Stmt) {
	e, ok := comm.(*ast.ExprStmt)
	if !ok {
		return
	}
	if receive, ok := e.X.(*ast.UnaryExpr); ok && receive.Op == token.ARROW {
		if v := fieldOrVar(p.info, doneOf(receive.X)); v != nil && v.IsField() {
			p.listens[v] = true
		}
	}
}

// doneOf returns x for x.Done().
func doneOf(e ast.Expr) ast.Expr {
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Done" {
			return s.X
		}
	}
	return e
}

// nameOf returns the name of the variable or the field that an expression is, or nil.
func nameOf(e ast.Expr) *ast.Ident {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return e.Sel
	case *ast.StarExpr:
		return nameOf(e.X)
	}
	return nil
}

// fieldOrVar returns the variable, or the field, that an expression is.
func fieldOrVar(info *types.Info, e ast.Expr) *types.Var {
	if name := nameOf(e); name != nil {
		v, _ := info.ObjectOf(name).(*types.Var)
		return v
	}
	return nil
}

// Assigned returns what the package assigns to a variable.
func (l *Loop) Assigned(v *types.Var) []ast.Expr { return l.prog.set[v] }

// given returns what all callers of a function of the package give for a parameter that nothing
// else sets, or nil if others may call it.
func (p *program) given(v *types.Var) (args []ast.Expr) {
	of := p.params[v].of
	if of == nil || len(p.set[v]) > 0 || of.Exported() && of.Pkg().Name() != "main" || p.isValue(of) {
		return nil
	}
	for _, call := range p.calls[of] {
		if i := p.params[v].index; i < len(call.Args) {
			args = append(args, call.Args[i])
		}
	}
	return args
}

// isValue reports whether a function is handed over, and not only called.
func (p *program) isValue(f types.Object) bool { return p.mentions[f] > len(p.calls[f]) }

// isEndless reports whether a variable only ever has a context that never ends, or a request that
// has one: all that the package gives it is such. What a command gets from the library that parses
// its flags is such, too.
func (p *program) isEndless(v *types.Var, steps int) bool {
	if v == nil || steps == 0 || v.IsField() && v.Exported() {
		return v != nil && v.IsField() && v.Pkg() != p.pkg && p.pkg.Name() == "main"
	}
	from := slices.Concat(p.set[v], p.given(v))
	if of := p.params[v].of; of != nil && !of.Exported() && p.isValue(of) && remote.IsRequest(v.Type()) {
		return p.makesPlainRequests()
	}
	return len(from) > 0 && !slices.ContainsFunc(from, func(e ast.Expr) bool {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		return !ok && !p.isEndless(fieldOrVar(p.info, e), steps-1) ||
			ok && !isEndless(p.info, call) && types.ExprString(call.Fun) != "http.NewRequest"
	})
}

// makesPlainRequests reports whether the package makes requests that have no context.
func (p *program) makesPlainRequests() bool {
	for f := range p.calls {
		if fn, ok := f.(*types.Func); ok && fn.FullName() == "net/http.NewRequest" {
			return true
		}
	}
	return false
}

// hasOnly reports whether all that is assigned to a variable is so.
func (p *program) hasOnly(v *types.Var, is func(ast.Expr) bool) bool {
	set := p.set[v]
	return len(set) > 0 && !slices.ContainsFunc(set, func(e ast.Expr) bool { return !is(e) })
}

// mayStop reports whether a stop channel may end the loop: the package does not make it, or closes
// it, sends to it or hands it over. What only the function of the loop itself does tells others
// that this has ended. So does what another function does as it returns, unless the loop asks.
func (l *Loop) mayStop(v *types.Var, asked bool) bool {
	if v.Exported() || !l.prog.hasOnly(v, func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		return ok && Name(call) == "make"
	}) {
		return true
	}
	ends := l.prog.uses[v]
	switch {
	case asked:
		ends = slices.Concat(ends, l.prog.tells[v])
	case l.makesLater(v):
		return false
	}
	return slices.ContainsFunc(ends, func(at token.Pos) bool {
		return at < l.Func.Node.Pos() || l.Func.Node.End() <= at
	})
}

// makesLater reports whether a function that the loop's function calls makes a channel, which then
// is not there while the loop waits, or is that of another connection.
func (l *Loop) makesLater(v *types.Var) bool {
	return HasAnywhere(l.Func.Outer, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		f := l.decl(call)
		return f != nil && f.Recv != nil && slices.ContainsFunc(l.prog.set[v], func(e ast.Expr) bool { return within(e, f) })
	})
}

// isEnded reports whether a field is a flag that a method sets which ends its object.
func (p *program) isEnded(v *types.Var) bool {
	return lasting.MatchString(v.Name()) && slices.ContainsFunc(p.set[v], func(e ast.Expr) bool {
		text := types.ExprString(e)
		return (text == "true" || text == "1") && p.atEnd(e.Pos())
	})
}

// atEnd reports whether a place is in a function that ends an object, as its name says.
func (p *program) atEnd(at token.Pos) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(p.decls)), func(f *ast.FuncDecl) bool {
		return f.Pos() <= at && at < f.End() && ending.MatchString(f.Name.Name)
	})
}
