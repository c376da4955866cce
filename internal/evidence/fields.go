package evidence

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// at returns the field of the struct that err is or points to, or an invalid
// Value. Several names lead through several structs. reflect's FieldByName would do
// the same, and add 8 KiB to every program.
func at(err error, path []string) reflect.Value {
	s := reflect.ValueOf(err)
	for _, name := range path {
		s = member(reflect.Indirect(s), name)
	}
	return s
}

// member returns the field of a struct that has the name, or an invalid Value.
func member(s reflect.Value, name string) reflect.Value {
	for i := 0; s.Kind() == reflect.Struct && i < s.NumField(); i++ {
		if s.Type().Field(i).Name == name {
			return s.Field(i)
		}
	}
	return reflect.Value{}
}

// field returns the text of a field, or "" if there is none.
func field(err error, path ...string) string {
	switch f := at(err, path); {
	case f.Kind() == reflect.Bool:
		return strconv.FormatBool(f.Bool())
	case f.Kind() == reflect.String:
		return f.String()
	}
	return ""
}

// number returns the number in a field, or 0 if there is none.
func number(err error, path ...string) int64 {
	if f := at(err, path); f.CanInt() {
		return f.Int()
	}
	return 0
}

// statusFields are the paths to the fields that have an HTTP status.
var statusFields = [][]string{{"StatusCode"}, {"HTTPStatusCode"}, {"Response", "StatusCode"}, {"ErrStatus", "Code"}, {"Code"}}

// statusIn returns the class of the HTTP status in a field. A conflict, 409, says
// nothing: what the call conflicts with may pass, and the clients with such
// fields repeat it, or let the program read and write again.
func statusIn(err error) Class {
	status := int64(0)
	for _, path := range statusFields {
		status = cmp.Or(status, number(err, path...))
	}
	switch {
	case status == 409:
		return Unknown
	case status == 403 && strings.Contains(err.Error(), "ateLimitExceeded"): // the quota of Google's APIs for a short time
		return Throttled
	}
	return Status(int(status))
}

// RetryAfter returns how long the server asked to wait, and whether err says so:
// by its method, or as the error of Slack by a field.
func RetryAfter(err error) (after time.Duration, ok bool) {
	if e, ok := err.(interface{ RetryAfter() time.Duration }); ok {
		return max(0, e.RetryAfter()), true
	}
	if saidBy(err) == throttled {
		after = time.Duration(number(err, "RetryAfter"))
	}
	return after, after > 0
}
