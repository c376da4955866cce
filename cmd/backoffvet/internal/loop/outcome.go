package loop

import (
	"go/ast"
	"go/token"
	"go/types"
)

// Outcome is what is known of an attempt at a place.
type Outcome int

// The outcomes.
const (
	Unknown Outcome = iota
	Failed
	Succeeded
)

// says returns what follows for an error from a condition that is, or is not, so. isErr says
// which expressions are the error.
func says(info *types.Info, cond ast.Expr, is bool, isErr func(ast.Expr) bool) Outcome {
	switch c := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			return says(info, c.X, !is, isErr)
		}
	case *ast.BinaryExpr:
		return comparisonSays(info, c, is, isErr)
	case *ast.CallExpr:
		if is && matchesError(c) && isErr(c.Args[0]) {
			return Failed
		}
	}
	return Unknown
}

// matchesError recognizes errors.Is(err, target) and errors.As, which are false for nil.
func matchesError(c *ast.CallExpr) bool {
	name := Name(c)
	return len(c.Args) == 2 && (name == "Is" || name == "As")
}

func comparisonSays(info *types.Info, c *ast.BinaryExpr, is bool, isErr func(ast.Expr) bool) Outcome {
	both := c.Op == token.LAND && is || c.Op == token.LOR && !is
	switch {
	case both:
		if o := says(info, c.X, is, isErr); o != Unknown {
			return o
		}
		return says(info, c.Y, is, isErr)
	case c.Op == token.LAND || c.Op == token.LOR:
		return either(says(info, c.X, is, isErr), says(info, c.Y, is, isErr))
	case !isErr(c.X) || c.Op != token.EQL && c.Op != token.NEQ:
		return Unknown
	case isNil(info, c.Y):
		if is == (c.Op == token.EQL) {
			return Succeeded
		}
		return Failed
	case is && c.Op == token.EQL: // a sentinel
		return Failed
	}
	return Unknown
}

func either(a, b Outcome) Outcome {
	if a == b {
		return a
	}
	return Unknown
}
