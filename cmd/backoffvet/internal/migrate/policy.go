package migrate

import "strings"

// A policy is a backoff.Policy to be written, field by field.
type policy struct {
	fields []string
}

// set adds a field.
func (p *policy) set(name, format string, args ...any) {
	p.fields = append(p.fields, "\t"+name+": "+gen(format, args...)+",\n")
}

// String is the literal.
func (p *policy) String() string {
	return gen("§backoff.Policy{\n") + strings.Join(p.fields, "") + "}"
}
