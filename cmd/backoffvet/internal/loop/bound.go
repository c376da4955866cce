package loop

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
)

// counterOf returns the variable that counts the rounds of a loop: i of for i := 0; i < n; i++, for
// i := range n and the like.
func counterOf(info *types.Info, stmt ast.Stmt) *types.Var {
	switch s := stmt.(type) {
	case *ast.ForStmt:
		if s.Cond != nil && s.Post != nil {
			return counted(info, s)
		}
	case *ast.RangeStmt:
		if s.Key != nil && isInteger(info.TypeOf(s.X)) {
			return varOf(info, s.Key)
		}
	}
	return nil
}

func counted(info *types.Info, s *ast.ForStmt) *types.Var {
	var counter *types.Var
	switch post := s.Post.(type) {
	case *ast.IncDecStmt:
		counter = varOf(info, post.X)
	case *ast.AssignStmt:
		if len(post.Lhs) == 1 && (post.Tok == token.ADD_ASSIGN || post.Tok == token.SUB_ASSIGN) {
			counter = varOf(info, post.Lhs[0])
		}
	}
	if counter == nil || !isInteger(counter.Type()) || !Uses(info, s.Cond, counter) {
		return nil
	}
	return counter
}

func isInteger(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0
}

// Uses reports whether a node mentions a variable, also in function literals.
func Uses(info *types.Info, n ast.Node, v types.Object) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		found = found || ok && v != nil && info.ObjectOf(name) == v
		return !found
	})
	return found
}

// Bounded reports whether the loop's own header ends it after a number of rounds.
func (l *Loop) Bounded() bool {
	if l.Counter != nil {
		return true
	}
	s, ok := l.Stmt.(*ast.RangeStmt)
	return ok && !isStream(l.info.TypeOf(s.X))
}

func isStream(t types.Type) bool {
	if t == nil {
		return true
	}
	switch t.Underlying().(type) {
	case *types.Chan, *types.Signature:
		return true
	}
	return false
}

// eachDiffers reports whether the rounds of a loop are about different things, as are those over a
// list of servers: another round is then no retry.
func (l *Loop) eachDiffers() bool {
	s, ok := l.Stmt.(*ast.RangeStmt)
	if !ok {
		return l.indexes()
	}
	if isInteger(l.info.TypeOf(s.X)) {
		return l.indexes()
	}
	return s.Value == nil || !isDuration(l.info.TypeOf(s.Value))
}

// indexes reports whether the loop takes elements by its counter that are not delays.
func (l *Loop) indexes() bool {
	found := false
	Inspect(l.Body, func(n ast.Node) bool {
		i, ok := n.(*ast.IndexExpr)
		found = found || ok && l.Counter != nil && varOf(l.info, i.Index) == l.Counter && !isDuration(l.info.TypeOf(i))
		return !found
	})
	return found
}

// numbers reports whether the loop numbers things by its counter, and is not about one call: it
// hands its counter to the call, under a name that does not say that it counts attempts.
func (l *Loop) numbers(a *Attempt) bool {
	return l.Counter != nil && !tries.MatchString(l.Counter.Name()) &&
		slices.ContainsFunc(a.Call.Args, func(arg ast.Expr) bool { return Uses(l.info, arg, l.Counter) })
}

var tries = regexp.MustCompile(`(?i)try|tries|attempt|count|^n$`)

// Assigned returns what the function around the loop assigns to a variable. An expression that is
// not the value itself, such as that of delay *= 2 or of a call with several results, counts, too.
func (l *Loop) Assigned(v *types.Var) []ast.Expr {
	var values []ast.Expr
	ast.Inspect(l.Func.Outer, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			values = append(values, assigned(l.info, v, n.Lhs, n.Rhs)...)
		case *ast.ValueSpec:
			values = append(values, assigned(l.info, v, asExprs(n.Names), n.Values)...)
		case *ast.IncDecStmt:
			values = append(values, assigned(l.info, v, []ast.Expr{n.X}, []ast.Expr{n.X})...)
		}
		return true
	})
	return values
}

func assigned(info *types.Info, v *types.Var, left, right []ast.Expr) []ast.Expr {
	var values []ast.Expr
	for i, e := range left {
		if len(right) > 0 && varOf(info, e) == v {
			values = append(values, right[min(i, len(right)-1)])
		}
	}
	return values
}

// counts reports whether a condition looks at the counter, or at a variable made from it.
func (l *Loop) counts(cond ast.Expr) bool {
	if l.Counter == nil {
		return false
	}
	found := false
	Inspect(cond, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok {
			return !found
		}
		v := varOf(l.info, name)
		found = found || v == l.Counter || v != nil && slices.ContainsFunc(l.Assigned(v), func(e ast.Expr) bool {
			return l.Contains(e) && Uses(l.info, e, l.Counter)
		})
		return !found
	})
	return found
}
