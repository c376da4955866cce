package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is a copy of a function with one change.
type mutant struct {
	number  int // in the package, from 1
	source  *source
	fn      *ast.FuncDecl
	line    int
	change  edit
	outcome outcome
}

func (m *mutant) place() string { return fmt.Sprintf("%s:%d", filepath.Base(m.source.name), m.line) }

// String says where the mutant is, and what is changed, in one line.
func (m *mutant) String() string {
	old, changed := oneLine(string(m.source.text[m.change.from:m.change.to])), oneLine(m.change.text)
	if changed == "" {
		return m.place() + ": leave out " + old
	}
	return m.place() + ": " + old + " becomes " + changed
}

func oneLine(code string) string {
	code = strings.Join(strings.Fields(code), " ")
	if runes := []rune(code); len(runes) > 80 {
		return string(runes[:79]) + "…"
	}
	return code
}

// swaps are the operators that each operator becomes, also those of
// assignments: += becomes -=.
var swaps = map[string][]string{
	"==": {"!="}, "!=": {"=="}, "<": {"<=", ">="}, ">=": {">", "<"}, ">": {">=", "<="}, "<=": {"<", ">"},
	"+": {"-"}, "-": {"+"}, "*": {"/"}, "/": {"*"}, "%": {"*"}, "++": {"--"}, "--": {"++"},
	"&": {"|"}, "|": {"&"}, "^": {"&"}, "&^": {"&"}, "<<": {">>"}, ">>": {"<<"}, "&&": {"||"}, "||": {"&&"},
}

// mutants returns the mutants of the package that compile.
func (p *pkg) mutants() ([]*mutant, error) {
	var all []*mutant
	for _, s := range p.sources {
		for _, d := range s.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && !recovers(fn) {
				f := finder{source: s, pkg: p, fn: fn}
				ast.Inspect(fn.Body, f.visit)
				all = append(all, f.found...)
			}
		}
	}
	all = slices.DeleteFunc(all, func(m *mutant) bool {
		_, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+m.copied(), parser.SkipObjectResolution)
		return err != nil
	})
	for i, m := range all {
		m.number = i + 1
	}
	bad, err := p.mistyped(all)
	return slices.DeleteFunc(all, func(m *mutant) bool { return bad[m.number] }), err
}

// recovers reports whether fn calls recover, other than in a function literal.
func recovers(fn *ast.FuncDecl) bool {
	found := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			name, _ := call.Fun.(*ast.Ident)
			found = found || name != nil && name.Name == "recover"
		}
		_, literal := n.(*ast.FuncLit)
		return !literal
	})
	return found
}

// A finder finds the mutants of a function.
type finder struct {
	*source
	pkg   *pkg
	fn    *ast.FuncDecl
	found []*mutant
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case ast.Stmt:
		f.statement(n)
	case ast.Expr:
		f.expression(n)
	}
	return true
}

func (f *finder) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		f.assignment(s)
	case *ast.IncDecStmt:
		f.replace(s, f.code(s.X)+swaps[s.Tok.String()][0])
		f.leaveOut(s)
	case *ast.ExprStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt:
		f.leaveOut(s)
	case *ast.IfStmt:
		f.negate(s.Cond)
	case *ast.ForStmt:
		f.negate(s.Cond)
	case *ast.SwitchStmt:
		f.cases(s)
	case *ast.ReturnStmt:
		f.dropErrors(s.Results)
	}
}

func (f *finder) assignment(s *ast.AssignStmt) {
	op, _ := strings.CutSuffix(s.Tok.String(), "=")
	for _, op := range swaps[op] {
		f.replace(s, f.code(s.Lhs[0])+" "+op+"= "+f.code(s.Rhs[0]))
	}
	f.dropErrors(s.Rhs)
	if s.Tok != token.DEFINE {
		f.leaveOut(s)
	}
}

// cases negates the conditions of a switch.
func (f *finder) cases(s *ast.SwitchStmt) {
	if s.Tag != nil {
		return
	}
	for _, clause := range s.Body.List {
		for _, e := range clause.(*ast.CaseClause).List {
			f.negate(e)
		}
	}
}

// negate leaves to the operators what they turn into its opposite.
func (f *finder) negate(cond ast.Expr) {
	switch e := cond.(type) {
	case nil, *ast.UnaryExpr:
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			f.replace(e, "!("+f.code(e)+")")
		}
	default:
		f.replace(e, "!"+f.code(e))
	}
}

// dropErrors makes every error nil.
func (f *finder) dropErrors(list []ast.Expr) {
	isError := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	for _, e := range list {
		if t := f.pkg.info.TypeOf(e); t != nil && t != types.Typ[types.UntypedNil] && types.Implements(t, isError) {
			f.replace(e, "nil")
		}
	}
}

func (f *finder) expression(e ast.Expr) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		f.binary(e)
	case *ast.UnaryExpr:
		if e.Op == token.NOT || e.Op == token.SUB || e.Op == token.XOR {
			f.replace(e, f.code(e.X))
		}
	case *ast.BasicLit:
		if e.Kind == token.INT {
			f.shift(e)
		}
	case *ast.Ident:
		f.name(e)
	case *ast.CompositeLit:
		f.fields(e)
	}
}

func (f *finder) binary(e *ast.BinaryExpr) {
	for _, op := range swaps[e.Op.String()] {
		code := f.code(e.X) + " " + op + " " + f.code(e.Y)
		if op == "||" || op == "|" { // which bind less than what they replace
			code = "(" + code + ")"
		}
		f.replace(e, code)
	}
	if e.Op == token.LAND || e.Op == token.LOR {
		f.replace(e, f.code(e.X))
		f.replace(e, f.code(e.Y))
	}
}

// shift adds one to an integer literal, and takes one from it.
func (f *finder) shift(e *ast.BasicLit) {
	n := constant.MakeFromLiteral(e.Value, e.Kind, 0)
	for _, op := range []token.Token{token.ADD, token.SUB} {
		f.replace(e, constant.BinaryOp(n, op, constant.MakeInt64(1)).ExactString())
	}
}

// name changes the constants: true, false, and the integers of the package.
func (f *finder) name(e *ast.Ident) {
	c, ok := f.pkg.info.Uses[e].(*types.Const)
	switch {
	case !ok:
	case c == types.Universe.Lookup("true"):
		f.replace(e, "false")
	case c == types.Universe.Lookup("false"):
		f.replace(e, "true")
	case c.Pkg() == f.pkg.types && c.Val().Kind() == constant.Int:
		f.replace(e, "("+e.Name+" + 1)")
	}
}

// fields leaves out each field of a literal, with the comma behind it.
func (f *finder) fields(e *ast.CompositeLit) {
	for _, field := range e.Elts {
		end := field.End()
		if f.text[f.offset(end)] == ',' {
			end++
		}
		if _, ok := field.(*ast.KeyValueExpr); ok {
			f.change(field.Pos(), end, "")
		}
	}
}

func (f *finder) leaveOut(n ast.Node)             { f.replace(n, "") }
func (f *finder) replace(n ast.Node, code string) { f.change(n.Pos(), n.End(), code) }

func (f *finder) change(from, to token.Pos, code string) {
	f.found = append(f.found, &mutant{
		source: f.source, fn: f.fn, line: f.pkg.fset.Position(from).Line,
		change: edit{f.offset(from), f.offset(to), code},
	})
}
