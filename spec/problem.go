package spec

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gobackoff/backoff/internal/badfield"
)

// problem says what is wrong with the member at a path.
func problem(path, text string) error {
	if path == "" {
		path = "the policy"
	}
	return errors.New("backoff: spec: " + path + " " + text)
}

// at is the error of a Validate, told of the member at path. name is what Validate calls
// that, and what follows in its field are the members below.
func at(path, name string, err error) error {
	if err == nil {
		return nil
	}
	bad, ok := errors.AsType[*badfield.Error](err)
	if !ok {
		return problem(path, "is refused: "+err.Error())
	}
	below := strings.TrimPrefix(bad.Field, name)
	for part := range strings.FieldsFuncSeq(below, func(r rune) bool { return r == '.' || r == ':' || r == ' ' }) {
		if part = uncapital(part); part != "constant" && part != "limiter" { // which are no members here
			path = join(path, part)
		}
	}
	return problem(path, strings.Replace(bad.Problem, "is -1ns,", "is -1,", 1))
}

func uncapital(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(first)) + name[size:]
}

func join(path, member string) string {
	if path == "" {
		return member
	}
	return path + "." + member
}
