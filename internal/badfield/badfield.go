// Package badfield has the error for a field with an invalid value. The type is
// internal; users see its text.
package badfield

import (
	"strconv"
	"time"

	"github.com/gobackoff/backoff/internal/errtree"
)

// An Error names a field, such as "Policy.Schedule: Exponential.Multiplier",
// and says what is wrong with it, beginning with the verb.
type Error struct {
	_ [0]func() // no ==

	Field, Problem string
}

// Error returns one line.
func (e *Error) Error() string { return "backoff: " + e.Field + " " + e.Problem }

// New returns an *Error.
func New(field, problem string) error { return &Error{Field: field, Problem: problem} }

// Nil returns the error of a value that is nil, or nil if it is not.
func Nil(value string, isNil bool) error {
	if isNil {
		return New(value, "is nil")
	}
	return nil
}

// Negative returns the error of a duration that is below 0.
func Negative(field string, d time.Duration) error { return New(field, Below0(d)) }

// Below0 is the Problem of a duration that is below 0.
func Below0(d time.Duration) string { return "is " + d.String() + ", want 0 or more" }

// Int returns the error of a whole number that is not what is wanted.
func Int(field string, n int, want string) error {
	return New(field, "is "+strconv.Itoa(n)+", want "+want)
}

// Float returns the error of a number that is not what is wanted.
func Float(field string, f float64, want string) error {
	return New(field, "is "+strconv.FormatFloat(f, 'g', -1, 64)+", want "+want)
}

// All returns the errors of this package in the tree of err.
func All(err error) (all []*Error) {
	errtree.Find(err, func(err error) bool {
		if bad, ok := err.(*Error); ok {
			all = append(all, bad)
		}
		return false
	})
	return all
}
