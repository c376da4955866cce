package evidence

import (
	"cmp"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// at returns the field of the struct that err is or points to, or an invalid
// Value. A path such as "Response.StatusCode" leads through several structs.
// reflect's FieldByName would do the same, and add 8 KiB to every program.
func at(err error, path string) reflect.Value {
	s := reflect.ValueOf(err)
	for more := true; more; {
		var name string
		name, path, more = strings.Cut(path, ".")
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
func field(err error, path string) string {
	switch f := at(err, path); {
	case f.Kind() == reflect.Bool:
		return strconv.FormatBool(f.Bool())
	case f.IsValid() && f.CanInt():
		return strconv.FormatInt(f.Int(), 10)
	case f.Kind() == reflect.String:
		return f.String()
	}
	return ""
}

// statusIn returns the class of the HTTP status in a field. A conflict, 409, says
// nothing: what the call conflicts with may pass, and the clients with such
// fields repeat it, or let the program read and write again.
func statusIn(err error) Class {
	status := 0
	for _, path := range [...]string{"StatusCode", "HTTPStatusCode", "Response.StatusCode", "ErrStatus.Code", "Code"} {
		if f := at(err, path); status == 0 && f.IsValid() && f.CanInt() {
			status = int(f.Int())
		}
	}
	switch {
	case status == 409:
		return Unknown
	case status == 403 && strings.Contains(err.Error(), "ateLimitExceeded"): // the quota of Google's APIs for a short time
		return Throttled
	}
	return Status(status)
}

// RetryAfter returns how long the server asked to wait, and whether err says so:
// by its method, or as one of the errors known by name by a field.
func RetryAfter(err error) (after time.Duration, ok bool) {
	if e, ok := err.(interface{ RetryAfter() time.Duration }); ok {
		return max(0, e.RetryAfter()), true
	}
	switch saidBy(err) {
	case byStatus, byGrant, throttled:
		return waitIn(err)
	}
	return 0, false
}

// waitIn returns the wait in a field: a duration, or seconds, also as the header
// of an answer. It does not read dates, which would cost a program 20 KiB.
func waitIn(err error) (after time.Duration, ok bool) {
	if f := at(err, "RetryAfter"); f.IsValid() && f.CanInt() {
		return time.Duration(f.Int()), f.Int() > 0
	}
	text := field(err, "ErrStatus.Details.RetryAfterSeconds")
	for _, path := range [...]string{"Response.Header", "RawResponse.Header", "Header"} {
		if header := at(err, path); header.Kind() == reflect.Map {
			text = cmp.Or(valueOf(header, "Retry-After"), text)
		}
	}
	after = seconds(text)
	return after, after > 0
}

// valueOf returns the first value of a key of an http.Header. MapIndex would do
// the same, and add 13 KiB to every program.
func valueOf(header reflect.Value, key string) string {
	for entry := header.MapRange(); entry.Next(); {
		if values := entry.Value(); entry.Key().String() == key && values.Kind() == reflect.Slice && values.Len() > 0 {
			return values.Index(0).String()
		}
	}
	return ""
}

// seconds returns a number of seconds, and 0 if text is none. It saturates.
func seconds(text string) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	n := int64(0)
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0
		}
		n = min(10*n+int64(c-'0'), most)
	}
	return time.Duration(n) * time.Second
}
