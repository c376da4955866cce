package errtree

import (
	"context"
	"errors"
	"reflect"
)

// CauseOf returns the cause of the end of a context, or nil if that is its error.
func CauseOf(ctx context.Context) error {
	cause := context.Cause(ctx)
	if t := reflect.TypeOf(cause); t == nil || t.Comparable() && cause == ctx.Err() {
		return nil
	}
	return cause
}

// Ended returns the error of a context that has ended. It matches the cause, too, and is
// the context's own error if there is no other.
func Ended(ctx context.Context) error {
	if cause := CauseOf(ctx); cause != nil {
		return errors.Join(ctx.Err(), cause)
	}
	return ctx.Err()
}
