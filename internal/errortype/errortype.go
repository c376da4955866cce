// Package errortype names the kinds of errors, for logs and for the page.
package errortype

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// Of returns the name of the kind of err, as the function ErrorType of package
// backoffslog documents it.
func Of(err error) string {
	if err == nil {
		return ""
	}
	if code := codeOf(err); code != "" {
		return code
	}
	err = unwrapped(err)
	if name := networkName(err); name != "" {
		return name
	}
	return reflect.TypeOf(err).String()
}

// codeOf returns the code that err reports by a method, or "".
func codeOf(err error) (code string) {
	if e, ok := errtree.As[interface{ HTTPStatusCode() int }](err); ok {
		if code := e.HTTPStatusCode(); code >= 100 && code < 600 {
			return strconv.Itoa(code)
		}
	}
	if e, ok := errtree.As[interface{ SQLState() string }](err); ok && isSQLState(e.SQLState()) {
		return e.SQLState()
	}
	errtree.Find(err, func(err error) bool { // of gRPC
		code = statusCode(err)
		return code != ""
	})
	return code
}

// Text returns the text of err. The Error method may panic, as that of a nil
// pointer in an error may.
func Text(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "(Error panicked)"
		}
	}()
	return err.Error()
}

// isSQLState reports whether s is formed like a SQLSTATE. A server may send any
// text as its code, and not every text can be a label.
func isSQLState(s string) bool {
	return len(s) == 5 && strings.Trim(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// statusCode returns the name of err.GRPCStatus().Code(), or "". Package status of gRPC
// looks for that method, and is not imported for it.
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
	return canonical(code)
}

// canonical returns the name of a code as the specification of gRPC writes it:
// DEADLINE_EXCEEDED, where grpc-go writes DeadlineExceeded. A code that it does
// not have counts as unknown, as the specification says: a server may send any
// number, and there should be few names.
func canonical(code string) string {
	if code == "Canceled" {
		return "CANCELLED"
	}
	if strings.ContainsFunc(code, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return "UNKNOWN" // Code(17)
	}
	var name strings.Builder
	for i, r := range code {
		if i > 0 && unicode.IsUpper(r) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToUpper(r))
	}
	return name.String()
}

// unwrapped returns the first error that is not just a wrapper. Of errors that
// are joined, the first one stands for all.
func unwrapped(err error) error {
	for left := errtree.Most; left > 0 && slices.Contains(wrappers, reflect.TypeOf(err).String()); left-- {
		branches, inner := errtree.Unwrap(err)
		if len(branches) > 0 {
			inner = branches[0]
		}
		if _, ok := err.(*backoff.Error); ok {
			if inner = backoff.Cause(err); inner == err {
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

// wrappers are the types of errors that only wrap others. They are names, since most
// of the types are not exported.
var wrappers = []string{
	"*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*url.Error", "*backoff.marked", "*backoff.Error", "*fault.Mark",
	"*backoffhttp.timeoutError", "backoffhttp.notConnected",
	"*backoffgrpc.failure", "*backoffgrpc.statusError",
}
