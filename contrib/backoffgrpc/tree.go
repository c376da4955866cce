package backoffgrpc

import (
	"errors"
	"slices"
)

// most is how many errors of a tree are read.
const most = 10_000

// finite returns err, or an error with only its text if err wraps more than most
// errors, as one that wraps itself does: the functions of package errors would
// not return.
func finite(err error) error {
	left := most
	var ends func(error) bool
	ends = func(err error) bool {
		left--
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			return left > 0 && ends(e.Unwrap())
		case interface{ Unwrap() []error }:
			return left > 0 && !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !ends(err) })
		}
		return left > 0
	}
	if !ends(err) {
		return errors.New(err.Error())
	}
	return err
}
