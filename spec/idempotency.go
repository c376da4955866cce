package spec

import (
	"encoding/json"

	"github.com/gobackoff/backoff"
)

// idempotency is the name of a [backoff.Idempotency]; "" means none.
type idempotency string

var idempotencies = map[idempotency]backoff.Idempotency{
	"idempotent":    backoff.Idempotent,
	"nonIdempotent": backoff.NonIdempotent,
	"keyed":         backoff.Keyed,
}

// fromToken implements literal.
func (i *idempotency) fromToken(token json.Token) bool {
	text, _ := token.(string)
	*i = idempotency(text)
	return i.build() != nil
}

// wanted implements literal.
func (*idempotency) wanted() string { return "one of idempotent, nonIdempotent, keyed" }

// build returns what the name stands for; nil for "".
func (i idempotency) build() backoff.Idempotency { return idempotencies[i] }
