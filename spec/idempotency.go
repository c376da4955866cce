package spec

import (
	"encoding/json"
	"strings"

	"github.com/gobackoff/backoff"
)

// idempotency is the name of one; "" is none.
type idempotency string

var idempotencies = []struct {
	name  idempotency
	value backoff.Idempotency
}{
	{"idempotent", backoff.Idempotent},
	{"nonIdempotent", backoff.NonIdempotent},
	{"keyed", backoff.Keyed},
	{"alwaysRetry", backoff.AlwaysRetry},
	{"neverRetry", backoff.NeverRetry},
}

// take implements literal.
func (i *idempotency) take(token json.Token) bool {
	text, _ := token.(string)
	*i = idempotency(text)
	return i.build() != nil
}

func (i *idempotency) wanted() string {
	var all []string
	for _, known := range idempotencies {
		all = append(all, string(known.name))
	}
	return "one of " + strings.Join(all, ", ")
}

func (i idempotency) build() backoff.Idempotency {
	for _, known := range idempotencies {
		if known.name == i {
			return known.value
		}
	}
	return nil
}
