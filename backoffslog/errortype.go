package backoffslog

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff"
)

// ErrorType is a short name for what kind of error err is, of which there are few:
// fit for grouping and for the labels of metrics, where a text is not. It is what
// OpenTelemetry calls error.type:
//
//   - the status, such as "503", of an answer of HTTP: HTTPStatusCode() int, 100 to 599
//   - the code, such as "Unavailable", of an error of gRPC: GRPCStatus()
//   - the SQLSTATE, such as "40001": SQLState() string
//   - otherwise the type, such as "*net.OpError", of the first error in the tree that is
//     more than a wrapper of packages fmt and errors, a mark, or a [backoff.Error] around
//     an operation's last
//
// ErrorType(nil) is "".
func ErrorType(err error) string {
	if err == nil {
		return ""
	}
	if code := codeOf(err); code != "" {
		return code
	}
	return reflect.TypeOf(substance(err)).String()
}

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
	}](err); ok && isState(e.SQLState()) {
		return e.SQLState()
	}
	return grpcCode(err)
}

// isState keeps what a server may send as its code from becoming a label of any kind.
func isState(s string) bool {
	return len(s) == 5 && strings.Trim(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// grpcCode is the code of the first error in the tree with the method that package status
// of gRPC looks for. That package is not imported for it.
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

func statusCode(err error) (code string) {
	defer func() {
		if recover() != nil { // a nil status, or something else of the same name
			code = ""
		}
	}()
	method := reflect.ValueOf(err).MethodByName("GRPCStatus")
	if !method.IsValid() {
		return ""
	}
	return method.Call(nil)[0].MethodByName("Code").Call(nil)[0].Interface().(interface{ String() string }).String()
}

// substance is the first error that is more than a wrapper. Of errors joined side by
// side the first stands for all.
func substance(err error) error {
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

// isWrapper knows the types by their names, as these are not exported.
func isWrapper(t reflect.Type) bool {
	switch t.String() {
	case "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*backoff.marked", "*backoff.Error":
		return true
	}
	return false
}
