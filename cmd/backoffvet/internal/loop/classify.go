package loop

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// End is how a round ended after an attempt.
type End struct {
	Way     Way
	Outcome Outcome // of the attempt
	Wait    *Wait   // the last wait since the attempt, or nil
	Counted bool    // a condition on the counter, which decides whether to wait, came before this wait
	Late    bool    // the last condition before the end counts the rounds, and is behind the wait
}

// following is the state of a walk behind an attempt.
type following struct {
	End

	decided bool     // a condition looked at the results
	lost    bool     // another value is in the variable of the error
	mixed   bool     // a condition asked for a success and for what it brought, in one
	via     ast.Expr // the last condition
}

func (l *Loop) classify() {
	l.Items = l.eachDiffers()
	for _, a := range l.Calls {
		if l.numbers(a) {
			continue
		}
		a.Ends = map[End]ast.Expr{}
		Walk(l, a.Node, following{}, l.follow(a))
		switch kind := l.kindOf(a); {
		case l.Items && kind == Retry:
			l.Attempts = append(l.Attempts, a)
		case !l.Items && kind != Other:
			l.Attempts = append(l.Attempts, a)
			l.Kind = max(l.Kind, kind)
		}
	}
}

func (l *Loop) follow(a *Attempt) Walker[following] {
	return Walker[following]{
		Step: func(s following, n ast.Node) (following, bool) {
			if n == a.Node || within(a.Node, n) {
				return s, s.end(a, Again)
			}
			if w := l.waitOf(n); w != nil {
				cond, ok := n.(ast.Expr)
				s.Counted = s.Counted || ok && l.counts(cond) && l.guards(cond)
				s.Wait = w
			}
			if a.Err != nil && s.changes(l.info, n, a) {
				s.lost = true
			}
			return s, s.Outcome != Unknown || !s.lost
		},
		Branch: func(s following, cond ast.Expr, is bool) (following, bool) { return l.branch(a, s, cond, is) },
		End:    func(s following, way Way, _ ast.Node) { s.end(a, way) },
	}
}

// end notes how a round ended. It returns false, as the way ends.
func (s following) end(a *Attempt, way Way) bool {
	if s.Outcome != Unknown || s.decided {
		s.Way = way
		a.Ends[s.End] = s.via
		if s.mixed && s.Outcome == Unknown {
			s.Outcome = Succeeded
			a.Ends[s.End] = s.via
		}
	}
	return false
}

// changes reports whether a node puts another value into the variable of an attempt's error.
func (s following) changes(info *types.Info, n ast.Node, a *Attempt) bool {
	assign, ok := n.(*ast.AssignStmt)
	return ok && slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool { return VarOf(info, e) == a.Err })
}

func (l *Loop) waitOf(n ast.Node) *Wait {
	for _, w := range l.Waits {
		if within(w.Node, n) {
			return w
		}
	}
	return nil
}

// branch follows a condition.
func (l *Loop) branch(a *Attempt, s following, cond ast.Expr, is bool) (following, bool) {
	if !l.isHeader(cond) {
		s.via = cond
		s.Counted = s.Counted || s.Wait == nil && (l.counts(cond) || l.asksHowLong(cond)) && l.guards(cond)
	}
	s.Late = s.Wait != nil && !within(s.Wait.Node, cond) && !l.isHeader(cond) && l.CountsRounds(cond)
	s.decided = s.decided || l.AsksFor(cond, a)
	return l.learn(a, s, cond, is)
}

// asksHowLong reports whether a condition asks for the length of a wait: a setting may say that
// there is none.
func (l *Loop) asksHowLong(cond ast.Expr) bool {
	return slices.ContainsFunc(l.Waits, func(w *Wait) bool {
		v := fieldOrVar(l.info, w.Duration)
		return v != nil && Uses(l.info, cond, v)
	})
}

// learn excludes ways by what is known of the attempt; behind a success, that of the calls that
// follow is assumed: a failure of theirs is about them.
func (l *Loop) learn(a *Attempt, s following, cond ast.Expr, is bool) (following, bool) {
	if s.lost {
		return s, s.Outcome != Succeeded || l.saysOf(nil, cond, is) != Failed
	}
	switch o := l.saysOf(a, cond, is); {
	case o == Unknown && s.Outcome == Succeeded:
		return s, l.saysOf(nil, cond, is) != Failed
	case o == Unknown:
		s.mixed = s.mixed || l.mixes(a, cond)
		return s, true
	case s.Outcome == Unknown:
		s.Outcome = o
		return s, true
	default:
		return s, s.Outcome == o
	}
}

// mixes recognizes err == nil && done, where done is another result.
func (l *Loop) mixes(a *Attempt, cond ast.Expr) bool {
	both, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok || both.Op != token.LAND || l.saysOf(a, both.X, true) != Succeeded {
		return false
	}
	return slices.ContainsFunc(a.Results, func(v *types.Var) bool { return v != a.Err && Uses(l.info, both.Y, v) })
}

func (l *Loop) isHeader(cond ast.Expr) bool {
	f, ok := l.Stmt.(*ast.ForStmt)
	return ok && f.Cond == cond
}

// saysOf returns what a condition says of an attempt, or of any error if a is nil.
func (l *Loop) saysOf(a *Attempt, cond ast.Expr, is bool) Outcome {
	if a != nil && a.Truth {
		return l.truthOf(a, ast.Unparen(cond), is)
	}
	return says(l.info, cond, is, func(e ast.Expr) bool {
		e = ast.Unparen(e)
		if a == nil {
			t := l.info.TypeOf(e)
			return t != nil && IsError(t)
		}
		return e == a.Call || a.Err != nil && VarOf(l.info, e) == a.Err
	})
}

// truthOf is for an attempt that returns whether it succeeded.
func (l *Loop) truthOf(a *Attempt, cond ast.Expr, is bool) Outcome {
	if not, ok := cond.(*ast.UnaryExpr); ok && not.Op == token.NOT {
		return l.truthOf(a, ast.Unparen(not.X), !is)
	}
	switch {
	case cond != a.Call && (a.Err == nil || VarOf(l.info, cond) != a.Err):
		return Unknown
	case is:
		return Succeeded
	}
	return Failed
}

func (l *Loop) kindOf(a *Attempt) Kind {
	again := a.MayEnd(Again, Failed, Unknown)
	onward := a.MayEnd(Again, Succeeded)
	left := l.mayLeave(a, onward)
	switch {
	case onward && left && a.answersHTTP() && l.looksAtStatus():
		a.Answers = true
		return Retry
	case again && left && !onward:
		return Retry
	case again && left:
		return Poll
	case again && onward:
		return Worker
	}
	return Other
}

// mayLeave reports whether a success may end the loop.
func (l *Loop) mayLeave(a *Attempt, onward bool) bool {
	return a.MayEnd(Left, Succeeded, Unknown) || a.MayEnd(Exhausted, Succeeded) && !onward ||
		a.MayEnd(Exhausted, Unknown) && l.headerAsks(a)
}

// headerAsks reports whether the header of the loop asks for the results of an attempt.
func (l *Loop) headerAsks(a *Attempt) bool {
	s, ok := l.Stmt.(*ast.ForStmt)
	return ok && s.Cond != nil && l.AsksFor(s.Cond, a)
}

// MayEnd reports whether a round may end in a way, with one of the outcomes of the attempt.
func (a *Attempt) MayEnd(way Way, outcomes ...Outcome) bool {
	for end := range a.Ends {
		if end.Way == way && slices.Contains(outcomes, end.Outcome) {
			return true
		}
	}
	return false
}

// WaitsAgain reports whether a wait may follow such an outcome, and then another round.
func (a *Attempt) WaitsAgain(w *Wait, o Outcome) bool {
	for end := range a.Ends {
		if end.Way == Again && end.Wait == w && end.Outcome == o {
			return true
		}
	}
	return false
}

func (a *Attempt) answersHTTP() bool {
	return slices.ContainsFunc(a.Results, func(v *types.Var) bool {
		return strings.HasSuffix(v.Type().String(), "http.Response")
	})
}

// looksAtStatus reports whether the loop asks for the status of an answer, or a function that it
// calls does.
func (l *Loop) looksAtStatus() bool {
	isStatus := func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "StatusCode"
	}
	return Has(l.Stmt, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		f := (*ast.FuncDecl)(nil)
		if ok {
			f = l.decl(call)
		}
		return isStatus(n) || f != nil && f.Body != nil && Has(f.Body, isStatus)
	})
}
