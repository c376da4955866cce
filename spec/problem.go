package spec

import (
	"errors"
	"strings"

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

// relocate turns an error of Validate into one of the member at path, with a
// line for each problem. name is what Validate calls that member.
func relocate(path, name string, err error) error {
	if err == nil {
		return nil
	}
	var problems []error
	for _, bad := range badfield.All(err) {
		at := below(path, strings.TrimPrefix(bad.Field, name))
		problems = append(problems, problem(at, strings.Replace(bad.Problem, "is -1ns,", "is -1,", 1)))
	}
	if problems == nil {
		return problem(path, "is refused: "+err.Error())
	}
	return errors.Join(problems...)
}

// below returns the path of a field below the member at path.
func below(path, field string) string {
	for part := range strings.FieldsFuncSeq(field, func(r rune) bool { return r == '.' || r == ':' || r == ' ' }) {
		if part = strings.ToLower(part[:1]) + part[1:]; part != "constant" && part != "limiter" { // neither is a member
			path = join(path, part)
		}
	}
	return path
}

// join returns the path of a member of the object at path.
func join(path, member string) string {
	if path == "" {
		return member
	}
	return path + "." + member
}
