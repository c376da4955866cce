package migrate

import (
	"go/ast"
	"go/token"
	"slices"
)

// How a path through the body of a loop got where it is. The values are bits of a set of paths.
const (
	plain  = 1 << iota // neither
	waited             // the last thing was Wait
	again              // after Reset: the loop goes on at once
)

// A walk follows the paths through the body of a loop.
type walk struct {
	l      *dskitLoop
	ends   int // of the paths that reach the end of the body
	breaks bool
	reason string
}

// paths says why the end of the body cannot take the place of Wait, or "": each path must end with
// Wait, or go on at once after Reset, or leave the loop.
func (l *dskitLoop) paths() string {
	w := &walk{l: l}
	w.ends |= w.list(l.loop.Body.List, plain)
	if l.loop.Post != nil {
		return w.beforePost()
	}
	l.rounds = w.ends&again != 0
	switch {
	case w.reason != "":
	case w.ends&plain != 0:
		return "a path of the loop goes on without Wait"
	case l.rounds && w.breaks:
		return "it leaves a loop that goes on at once by break"
	case l.rounds && l.counts():
		return "it counts the retries since Reset"
	case l.waitsOutside():
		return "it waits outside of its loop"
	}
	return w.reason
}

// beforePost is for a loop that waits in its head, whatever the path: nothing in its body may.
func (w *walk) beforePost() string {
	if w.reason == "" && w.ends&waited != 0 {
		return "it waits twice"
	}
	if w.reason == "" && w.l.waitsOutside() {
		return "it waits outside of its loop"
	}
	return w.reason
}

// counts reports whether the program asks for NumRetries.
func (l *dskitLoop) counts() bool {
	return slices.ContainsFunc(l.f.usesOf(l.v), func(id *ast.Ident) bool {
		return l.f.parents[id].(*ast.SelectorExpr).Sel.Name == "NumRetries"
	})
}

// waitsOutside reports whether Wait, or Reset after the loop, is not in the body.
func (l *dskitLoop) waitsOutside() bool {
	for _, id := range l.f.usesOf(l.v) {
		sel := l.f.parents[id].(*ast.SelectorExpr)
		outside := !encloses(l.loop, sel)
		if sel.Sel.Name == "Wait" && outside || outside && sel.Pos() > l.loop.End() && sel.Sel.Name != "Err" && sel.Sel.Name != "ErrCause" {
			return true
		}
	}
	return false
}

// list follows the paths through statements, and returns those that reach their end.
func (w *walk) list(list []ast.Stmt, from int) int {
	for _, s := range list {
		if from == 0 {
			return 0
		}
		if branch, ok := s.(*ast.BranchStmt); ok && branch.Tok == token.CONTINUE {
			return w.stmt(s, from)
		}
		if from&waited != 0 {
			w.reason = "something follows Wait"
		}
		from = w.stmt(s, from)
	}
	return from
}

// stmt follows the paths through a statement.
func (w *walk) stmt(s ast.Stmt, from int) int {
	switch s := s.(type) {
	case *ast.BlockStmt:
		return w.list(s.List, from)
	case *ast.IfStmt:
		to := w.list(s.Body.List, from)
		if s.Else == nil {
			return to | from
		}
		return to | w.stmt(s.Else, from)
	case *ast.SwitchStmt:
		return w.clauses(s, s.Body, from)
	case *ast.TypeSwitchStmt:
		return w.clauses(s, s.Body, from)
	case *ast.SelectStmt:
		return w.clauses(s, s.Body, from)
	case *ast.ReturnStmt:
		return 0
	case *ast.BranchStmt:
		return w.branch(s, from)
	case *ast.ExprStmt:
		return w.call(s, from)
	}
	return w.opaque(s, from)
}

// branch follows continue, break and goto.
func (w *walk) branch(s *ast.BranchStmt, from int) int {
	switch {
	case s.Label != nil || s.Tok == token.GOTO || s.Tok == token.FALLTHROUGH:
		w.reason = "it has a label"
	case s.Tok == token.CONTINUE:
		w.ends |= from
	default:
		w.breaks = true
	}
	return 0
}

// call follows Wait and Reset.
func (w *walk) call(s *ast.ExprStmt, from int) int {
	call, _ := s.X.(*ast.CallExpr)
	if call == nil {
		return from
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && w.l.f.local(sel.X) == w.l.v {
		switch sel.Sel.Name {
		case "Wait":
			return waited
		case "Reset":
			return again
		}
	}
	if id := calleeName(call); id != nil && (id.Name == "panic" || id.Name == "Exit" || id.Name == "Fatal" || id.Name == "Fatalf") {
		return 0
	}
	return from
}

// clauses follows the clauses of a switch. A break in one leaves the switch, not the loop, and
// so is not understood.
func (w *walk) clauses(s ast.Stmt, body *ast.BlockStmt, from int) int {
	_, isSelect := s.(*ast.SelectStmt)
	to, whole := 0, isSelect
	for _, clause := range body.List {
		if c, ok := clause.(*ast.CaseClause); ok && c.List == nil {
			whole = true
		}
		each(clause, func(b *ast.BranchStmt) {
			if b.Tok == token.BREAK {
				w.reason = "it has a break in a switch"
			}
		})
		to |= w.list(listOf(clause), from)
	}
	if !whole {
		to |= from
	}
	return to
}

// opaque is a statement that the walk does not look into. It must not use the backoff.
func (w *walk) opaque(s ast.Stmt, from int) int {
	for _, id := range w.l.f.usesOf(w.l.v) {
		if sel, ok := w.l.f.parents[id].(*ast.SelectorExpr); ok && encloses(s, id) && (sel.Sel.Name == "Wait" || sel.Sel.Name == "Reset") {
			w.reason = "it waits in an inner loop or function"
		}
	}
	return from
}
