package migrate

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"strconv"
	"time"
)

// constant is the value of a constant expression, or nil.
func (f *file) constant(e ast.Expr) constant.Value { return f.info.Types[e].Value }

// number is the value of a constant number.
func (f *file) number(e ast.Expr) (float64, bool) {
	v := f.constant(e)
	if v == nil {
		return 0, false
	}
	n, _ := constant.Float64Val(constant.ToFloat(v))
	return n, true
}

// expression is the text of an expression at another place. If it uses the old library, its value
// takes its place.
func (f *file) expression(e ast.Expr, old string) (string, error) {
	if !f.mentions(e, old) {
		return f.source(e), nil
	}
	n, ok := f.number(e)
	if !ok {
		return "", fmt.Errorf("%s is not a constant", f.source(e))
	}
	if types.TypeString(f.info.TypeOf(e), nil) == "time.Duration" {
		return duration(time.Duration(n)), nil
	}
	return decimal(n), nil
}

// duration is the expression that a reader would write for a time.
func duration(d time.Duration) string {
	units := []struct {
		unit time.Duration
		name string
	}{{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"}, {time.Millisecond, "Millisecond"}, {time.Microsecond, "Microsecond"}}
	for _, u := range units {
		if d == u.unit {
			return gen("§time.%s", u.name)
		}
		if d != 0 && d%u.unit == 0 {
			return gen("%d * §time.%s", d/u.unit, u.name)
		}
	}
	return strconv.FormatInt(int64(d), 10)
}

// decimal is a number as a reader would write it.
func decimal(n float64) string { return strconv.FormatFloat(n, 'g', 12, 64) }

// plusOne is an expression for one more. It looks through a conversion to an integer, and folds
// constants, such as those of uint64(n-1).
func (f *file) plusOne(e ast.Expr) string {
	if n, ok := f.number(e); ok {
		return decimal(n + 1)
	}
	e = f.unconverted(e)
	if sum, ok := ast.Unparen(e).(*ast.BinaryExpr); ok && sum.Op.String() == "-" {
		if n, ok := f.number(sum.Y); ok && n == 1 {
			return f.asInt(sum.X)
		}
	}
	return f.asInt(e) + " + 1"
}

// unconverted is what a conversion converts, or the expression itself.
func (f *file) unconverted(e ast.Expr) ast.Expr {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if ok && len(call.Args) == 1 && f.info.Types[call.Fun].IsType() {
		return call.Args[0]
	}
	return e
}

// asInt is the text of an integer expression as an int.
func (f *file) asInt(e ast.Expr) string {
	text := f.source(e)
	if types.Identical(f.info.TypeOf(e), types.Typ[types.Int]) {
		return text
	}
	return "int(" + text + ")"
}
