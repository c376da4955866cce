// Package known has a function for each kind of change, for the tests of
// command mutants.
package known

import "errors"

// Most is a constant, and stays what it is. Where it is used, it grows.
const Most = 3

// Kinds is not mutated either, as no variable of the package is.
var Kinds = [2]string{1: "one"}

// ErrEmpty is returned by First.
var ErrEmpty = errors.New("empty")

// A Pair is two numbers.
type Pair struct{ A, B int }

// Sum has an arithmetic operator.
func Sum(a, b int) int { return a + b }

// Less has a comparison.
func Less(a, b int) bool { return a < b }

// Both has a logical operator.
func Both(a, b bool) bool { return a && b }

// Negative has unary operators.
func Negative(a int, b bool) (int, bool) { return -a, !b }

// Limited has a constant of the package, and a condition that is no operator.
func Limited(ok bool) int {
	if ok {
		return Most
	}
	return len([2]int{})
}

// First returns an error.
func First[E any](list []E) (first E, err error) {
	if len(list) == 0 {
		return first, ErrEmpty
	}
	return list[0], nil
}

// Add has statements to leave out, and unnamed parameters.
func (p *Pair) Add(_ int, more ...int) {
	p.A++
	p.B += len(more)
}

// Swap leaves fields out.
func (p Pair) Swap(struct{}) Pair {
	return Pair{A: p.B, B: p.A}
}

// Name has a switch, whose conditions and labels change.
func Name(n int, known bool) string {
	switch {
	case known:
		return "known"
	}
	switch n {
	case 0:
		return "zero"
	case 1:
		return "one"
	}
	return "many"
}

// Always says true.
func Always() bool { return true }

// Count hangs if it does not count down.
func Count(n int) (steps int) {
	for n > 0 {
		n--
		steps++
	}
	return steps
}

// Weak has tests that notice nothing.
func Weak(a int) int {
	return a * 2
}

// Quiet calls recover itself, and is not mutated.
func Quiet() {
	if v := recover(); v == nil {
		panic("nothing to recover from")
	}
}
