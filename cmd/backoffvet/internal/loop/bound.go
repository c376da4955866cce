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
			return counted(info, s, s.Post)
		}
		if s.Cond != nil {
			return countedInside(info, s)
		}
	case *ast.RangeStmt:
		if s.Key != nil && isInteger(info.TypeOf(s.X)) {
			return VarOf(info, s.Key)
		}
	}
	return nil
}

// CountsDown reports whether the body of the loop, and not its header, counts the rounds, and does
// so downwards.
func (l *Loop) CountsDown() bool {
	s, ok := l.Stmt.(*ast.ForStmt)
	return ok && l.Counter != nil && s.Post == nil && l.bound(s.Cond) == nil
}

// countedInside is for a loop whose body, and not its header, counts.
func countedInside(info *types.Info, s *ast.ForStmt) (counter *types.Var) {
	Inspect(s.Body, func(n ast.Node) bool {
		if stmt, ok := n.(ast.Stmt); ok && counter == nil {
			counter = counted(info, s, stmt)
		}
		return counter == nil
	})
	return counter
}

func counted(info *types.Info, s *ast.ForStmt, post ast.Stmt) *types.Var {
	var counter *types.Var
	switch post := post.(type) {
	case *ast.IncDecStmt:
		counter = fieldOrVar(info, post.X)
	case *ast.AssignStmt:
		if len(post.Lhs) == 1 && (post.Tok == token.ADD_ASSIGN || post.Tok == token.SUB_ASSIGN) {
			counter = VarOf(info, post.Lhs[0])
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
	return HasAnywhere(n, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		return ok && v != nil && info.ObjectOf(name) == v
	})
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
	switch {
	case !ok || isInteger(l.info.TypeOf(s.X)):
		return l.indexes()
	case l.ticks():
		return false
	}
	return s.Value == nil || !IsDuration(l.info.TypeOf(s.Value))
}

// ticks reports whether the loop makes a round for each tick of a clock.
func (l *Loop) ticks() bool {
	s, ok := l.Stmt.(*ast.RangeStmt)
	if !ok {
		return false
	}
	c, ok := typeOf(l.info, s.X).Underlying().(*types.Chan)
	return ok && c.Elem().String() == "time.Time"
}

// indexes reports whether the loop takes elements by its counter that are not delays.
func (l *Loop) indexes() bool {
	return Has(l.Body, func(n ast.Node) bool {
		i, ok := n.(*ast.IndexExpr)
		return ok && l.Counter != nil && VarOf(l.info, i.Index) == l.Counter && !IsDuration(l.info.TypeOf(i))
	})
}

// numbers reports whether the loop numbers things by its counter, and is not about one call: it
// hands its counter to the call, under a name that does not say that it counts attempts.
func (l *Loop) numbers(a *Attempt) bool {
	return l.Counter != nil && !tries.MatchString(l.Counter.Name()) &&
		slices.ContainsFunc(a.Call.Args, func(arg ast.Expr) bool { return Uses(l.info, arg, l.Counter) })
}

var tries = regexp.MustCompile(`(?i)try|tries|attempt|count|^n$`)

// counts reports whether a condition looks at the counter, or at a variable made from it, at its
// limit, or at the delay that a table gives a round.
func (l *Loop) counts(cond ast.Expr) bool {
	var limit *types.Var
	if s, ok := l.Stmt.(*ast.ForStmt); ok {
		if bound := l.bound(s.Cond); bound != nil {
			limit = VarOf(l.info, bound.Y)
		}
	}
	return l.looksAt(cond, func(v *types.Var) bool { return v == l.Counter || v == l.rangeValue() || v == limit })
}

// CountsRounds reports whether a condition looks at a number to which the loop adds one each round.
func (l *Loop) CountsRounds(cond ast.Expr) bool {
	return l.looksAt(cond, func(v *types.Var) bool {
		return v == l.Counter || isInteger(v.Type()) && (l.passesOn(v) || slices.ContainsFunc(l.Assigned(v), func(e ast.Expr) bool {
			return l.Contains(e) && VarOf(l.info, e) == v
		}))
	})
}

// passesOn reports whether a function that calls itself gives more than its own argument.
func (l *Loop) passesOn(v *types.Var) bool {
	return Has(l.Body, func(n ast.Node) bool {
		return l.isAgain(n) && Has(n, func(n ast.Node) bool {
			sum, ok := n.(*ast.BinaryExpr)
			return ok && sum.Op == token.ADD && VarOf(l.info, sum.X) == v
		})
	})
}

func (l *Loop) rangeValue() *types.Var {
	if s, ok := l.Stmt.(*ast.RangeStmt); ok && s.Value != nil {
		return VarOf(l.info, s.Value)
	}
	return nil
}

// looksAt reports whether a condition has a variable that is so, or one that the loop makes from
// such a one.
func (l *Loop) looksAt(cond ast.Expr, is func(*types.Var) bool) bool {
	found := false
	Inspect(cond, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && waitsByName(l.info, call) {
			return false // a wait that is given the delay says nothing of the count
		}
		name, ok := n.(*ast.Ident)
		if !ok {
			return !found
		}
		v := VarOf(l.info, name)
		found = found || v != nil && (is(v) || isPlain(v) && slices.ContainsFunc(l.Assigned(v), func(e ast.Expr) bool {
			return l.Contains(e) && isMadeFrom(l.info, e, is)
		}))
		return !found
	})
	return found
}

// isPlain reports whether a variable is a number, a truth or a text, and so made from little else.
func isPlain(v *types.Var) bool {
	b, ok := v.Type().Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsInteger|types.IsBoolean|types.IsString) != 0
}

// AsksFor reports whether a condition asks for the results of an attempt, or for what the loop
// makes from them.
func (l *Loop) AsksFor(cond ast.Expr, a *Attempt) bool {
	return l.looksAt(cond, func(v *types.Var) bool { return slices.Contains(a.Results, v) })
}

func isMadeFrom(info *types.Info, e ast.Expr, is func(*types.Var) bool) bool {
	return Has(e, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok {
			return false
		}
		v := VarOf(info, name)
		return v != nil && is(v)
	})
}

// guards reports whether a condition decides whether the loop waits or leaves its round.
func (l *Loop) guards(cond ast.Expr) bool {
	return Has(l.Stmt, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			return within(cond, n.Cond) && l.decides(n)
		case *ast.SwitchStmt:
			return n.Tag == nil && within(cond, n.Body) && l.isCase(cond, n) && l.decides(n)
		}
		return false
	})
}

func (l *Loop) isCase(cond ast.Expr, s *ast.SwitchStmt) bool {
	return slices.ContainsFunc(s.Body.List, func(c ast.Stmt) bool {
		return slices.ContainsFunc(c.(*ast.CaseClause).List, func(e ast.Expr) bool { return within(cond, e) })
	})
}

// decides reports whether a statement has a wait, or leaves the round.
func (l *Loop) decides(s ast.Stmt) bool {
	found := slices.ContainsFunc(l.Waits, func(w *Wait) bool { return within(w.Node, s) })
	Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ReturnStmt, *ast.BranchStmt:
			found = true
		case *ast.CallExpr:
			found = found || !mayReturn(l.info, n)
		}
		return !found
	})
	return found
}
