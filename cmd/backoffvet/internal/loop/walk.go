package loop

import (
	"go/ast"
	"slices"

	"golang.org/x/tools/go/cfg"
)

// Way is a way in which a walk through a round ends.
type Way int

// The ways.
const (
	Again     Way = iota // at the begin of another round
	Exhausted            // because the header of the loop ended it
	Left                 // at a return, break or goto out of the loop, or a panic
)

// Walker says what a walk remembers, in a state S.
type Walker[S comparable] struct {
	// Step is called for the nodes on the way. It returns false where the walk need not go on.
	Step func(s S, n ast.Node) (S, bool)

	// Branch is called where the way forks, for a condition and what it is. It returns false for a
	// way that nothing takes.
	Branch func(s S, cond ast.Expr, is bool) (S, bool)

	// End is called where a way ends, with the last node before: a return statement, or nil.
	End func(s S, way Way, last ast.Node)
}

// Walk follows all ways from behind a node to the end of the round. It does nothing if the node is
// not one of the graph's.
func Walk[S comparable](l *Loop, from ast.Node, start S, w Walker[S]) {
	walk := walking[S]{l: l, w: w, seen: map[place[S]]bool{}, inHeader: !within(from, body(l.Stmt))}
	for _, b := range l.Func.control(l.info).Blocks {
		for i, n := range b.Nodes {
			if within(from, n) && l.Contains(n) {
				walk.block(b, i+1, start)
				return
			}
		}
	}
}

type place[S comparable] struct {
	block *cfg.Block
	from  int
	state S
}

type walking[S comparable] struct {
	l    *Loop
	w    Walker[S]
	seen map[place[S]]bool

	inHeader bool // the walk began in the header, and so ends where it comes there again
}

func body(stmt ast.Stmt) ast.Node {
	if f, ok := stmt.(*ast.ForStmt); ok {
		return f.Body
	}
	return stmt
}

func (w *walking[S]) block(b *cfg.Block, from int, s S) {
	at := place[S]{b, from, s}
	if w.seen[at] {
		return
	}
	w.seen[at] = true
	for _, n := range b.Nodes[from:] {
		switch {
		case w.l.isAgain(n):
			w.w.End(s, Again, n)
			return
		case !w.l.Contains(n):
			w.w.End(s, Left, n)
			return
		}
		var goOn bool
		if s, goOn = w.w.Step(s, n); !goOn {
			return
		}
	}
	w.successors(b, s)
}

func (w *walking[S]) successors(b *cfg.Block, s S) {
	if len(b.Succs) == 0 {
		w.w.End(s, Left, last(b))
		return
	}
	cond := condition(b)
	for i, next := range b.Succs {
		ahead, taken := s, true
		if cond != nil {
			ahead, taken = w.w.Branch(s, cond, i == 0)
		}
		if taken {
			w.enter(b, next, ahead)
		}
	}
}

func (w *walking[S]) enter(b, next *cfg.Block, s S) {
	switch {
	case next.Stmt == w.l.Stmt && isBody(next) && !w.inHeader || isLabel(w.l, next):
		w.w.End(s, Again, nil)
	case next.Stmt == w.l.Stmt && isDone(next) && isHead(w.l, b):
		w.w.End(s, Exhausted, nil)
	case next.Stmt == w.l.Stmt && isDone(next) || w.outside(next):
		w.w.End(s, Left, nil)
	default:
		w.block(next, 0, s)
	}
}

func (w *walking[S]) outside(b *cfg.Block) bool {
	return b.Stmt != nil && !w.l.Contains(b.Stmt)
}

func last(b *cfg.Block) ast.Node {
	if len(b.Nodes) == 0 {
		return nil
	}
	return b.Nodes[len(b.Nodes)-1]
}

// condition returns the condition on which the way from a block forks, if there is one that says
// something: those of a range, a select and a switch with a tag do not.
func condition(b *cfg.Block) ast.Expr {
	if len(b.Succs) != 2 {
		return nil
	}
	cond, ok := last(b).(ast.Expr)
	if !ok || b.Succs[0].Kind == cfg.KindSelectCaseBody || b.Succs[0].Kind == cfg.KindRangeBody {
		return nil
	}
	return cond
}

func isBody(b *cfg.Block) bool { return b.Kind == cfg.KindForBody || b.Kind == cfg.KindRangeBody }
func isDone(b *cfg.Block) bool { return b.Kind == cfg.KindForDone || b.Kind == cfg.KindRangeDone }

// isLabel reports whether a block begins at the label of a loop that gotos make.
func isLabel(l *Loop, b *cfg.Block) bool {
	return b.Kind == cfg.KindLabel && b.Stmt != nil && b.Stmt.Pos() == l.Stmt.Pos()
}

func isHead(l *Loop, b *cfg.Block) bool {
	heads := []cfg.BlockKind{cfg.KindForLoop, cfg.KindRangeLoop}
	return b.Stmt == l.Stmt && slices.Contains(heads, b.Kind)
}
