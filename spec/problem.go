package spec

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gobackoff/backoff/internal/badfield"
)

// problem returns the error of the member at a path. The empty path is the
// whole policy.
func problem(path, text string) error {
	if path == "" {
		path = "the policy"
	}
	return errors.New("backoff: spec: " + path + " " + text)
}

// relocate turns an error of Validate into the error of the member at path.
// name is what Validate calls that member. What follows name in the error's
// field are the members below it.
func relocate(path, name string, err error) error {
	if err == nil {
		return nil
	}
	var bad *badfield.Error
	if !errors.As(err, &bad) {
		return problem(path, "is refused: "+err.Error())
	}
	below := strings.TrimPrefix(bad.Field, name)
	for part := range strings.FieldsFuncSeq(below, func(r rune) bool { return r == '.' || r == ':' || r == ' ' }) {
		if part = uncapital(part); part != "constant" && part != "limiter" { // neither is a member
			path = join(path, part)
		}
	}
	return problem(path, strings.Replace(bad.Problem, "is -1ns,", "is -1,", 1))
}

// uncapital returns name with a lower-case first letter.
func uncapital(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(first)) + name[size:]
}

// join returns the path of a member of the object at path.
func join(path, member string) string {
	if path == "" {
		return member
	}
	return path + "." + member
}
