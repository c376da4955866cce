package backoffslog

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
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
//     tree that is not just a wrapper: one of packages fmt and errors, or one
//     that this library put around the operation's error (see [backoff.Cause])
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
	if e, ok := errtree.As[interface {
		error
		HTTPStatusCode() int
	}](err); ok {
		if code := e.HTTPStatusCode(); code >= 100 && code < 600 {
			return strconv.Itoa(code)
		}
	}
	if e, ok := errtree.As[interface {
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
func grpcCode(err error) (code string) {
	errtree.Find(err, func(err error) bool {
		code = statusCode(err)
		return code != ""
	})
	return code
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
	code = method.Call(nil)[0].MethodByName("Code").Call(nil)[0].Interface().(interface{ String() string }).String()
	if code == "OK" { // what a nil status says
		return ""
	}
	return code
}

// unwrapped returns the first error that is not just a wrapper. Of errors that
// are joined, the first one stands for all.
func unwrapped(err error) error {
	for left := errtree.Most; left > 0 && isWrapper(reflect.TypeOf(err)); left-- {
		branches, inner := errtree.Unwrap(err)
		if len(branches) > 0 {
			inner = branches[0]
		}
		if e, ok := err.(*backoff.Error); ok {
			inner = backoff.Cause(err)
			if last, itself := inner.(*backoff.Error); itself && last == e {
				return err // there is no other
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
	case "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*backoff.marked", "*backoff.Error",
		"*backoffhttp.timeoutError", "*backoffhttp.remarkedError", "backoffhttp.notConnected",
		"*backoffgrpc.failure", "*backoffgrpc.statusError":
		return true
	}
	return false
}
