package backoffslog

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff"
)

// ErrorType returns a short name for the kind of err. There are few such names,
// so they can be used for grouping and as labels of metrics, unlike an error's
// text. OpenTelemetry calls it error.type:
//
//   - the status of an HTTP response, such as "503", from HTTPStatusCode() int
//     if that is 100 to 599
//   - the code of a gRPC error, such as "Unavailable", from GRPCStatus()
//   - the SQLSTATE, such as "40001", from SQLState() string
//   - otherwise the type, such as "*net.OpError", of the first error in the
//     tree that is not just a wrapper: one of packages fmt and errors, a marker
//     of package backoff, or a [backoff.Error] around an operation's last error
//
// ErrorType(nil) is "".
func ErrorType(err error) string {
	if err == nil {
		return ""
	}
	if code := codeOf(err); code != "" {
		return code
	}
	return reflect.TypeOf(unwrapped(err)).String()
}

// codeOf returns the code that err reports by a method, or "".
func codeOf(err error) string {
	if e, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok {
		if code := e.HTTPStatusCode(); code >= 100 && code < 600 {
			return strconv.Itoa(code)
		}
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok && isSQLState(e.SQLState()) {
		return e.SQLState()
	}
	return grpcCode(err)
}

// isSQLState reports whether s is formed like a SQLSTATE. A server may send any
// text as its code, and not every text can be a label.
func isSQLState(s string) bool {
	return len(s) == 5 && strings.Trim(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// grpcCode returns the code of the first error in the tree that has the method
// that gRPC's package status looks for. That package is not imported for it.
func grpcCode(err error) string {
	if code := statusCode(err); code != "" {
		return code
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return grpcCode(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if inner == nil {
				continue
			}
			if code := grpcCode(inner); code != "" {
				return code
			}
		}
	}
	return ""
}

// statusCode returns the name of err.GRPCStatus().Code(), or "".
func statusCode(err error) (code string) {
	defer func() {
		if recover() != nil { // a nil status, or another method of that name
			code = ""
		}
	}()
	method := reflect.ValueOf(err).MethodByName("GRPCStatus")
	if !method.IsValid() {
		return ""
	}
	return method.Call(nil)[0].MethodByName("Code").Call(nil)[0].Interface().(interface{ String() string }).String()
}

// unwrapped returns the first error that is not just a wrapper. Of errors that
// are joined, the first one stands for all.
func unwrapped(err error) error {
	for isWrapper(reflect.TypeOf(err)) {
		var inner error
		switch e := err.(type) {
		case *backoff.Error:
			inner = e.Last
		case interface{ Unwrap() error }:
			inner = e.Unwrap()
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 {
				inner = all[0]
			}
		}
		if inner == nil {
			return err
		}
		err = inner
	}
	return err
}

// isWrapper reports whether errors of type t only wrap others. It goes by the
// names of the types, since they are not exported.
func isWrapper(t reflect.Type) bool {
	switch t.String() {
	case "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*backoff.marked", "*backoff.Error":
		return true
	}
	return false
}
