package spec

import (
	"encoding/json"
	"strings"

	"github.com/gobackoff/backoff"
)

// idempotency is the name of a [backoff.Idempotency]; "" means none.
type idempotency string

// A namedIdempotency pairs a name with what it stands for.
type namedIdempotency struct {
	name  idempotency
	value backoff.Idempotency
}

// idempotencies lists the names in the order in which errors print them.
var idempotencies = []namedIdempotency{
	{"idempotent", backoff.Idempotent},
	{"nonIdempotent", backoff.NonIdempotent},
	{"keyed", backoff.Keyed},
}

// fromToken implements literal.
func (i *idempotency) fromToken(token json.Token) bool {
	text, _ := token.(string)
	*i = idempotency(text)
	return i.build() != nil
}

// wanted implements literal.
func (i *idempotency) wanted() string {
	var all []string
	for _, known := range idempotencies {
		all = append(all, string(known.name))
	}
	return "one of " + strings.Join(all, ", ")
}

// build returns what the name stands for; nil for "".
func (i idempotency) build() backoff.Idempotency {
	for _, known := range idempotencies {
		if known.name == i {
			return known.value
		}
	}
	return nil
}
