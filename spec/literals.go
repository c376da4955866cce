package spec

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/gobackoff/backoff"
)

// duration is a string such as "1.5s", or -1 for no limit.
type duration time.Duration

// value returns the duration as the library wants it.
func (d duration) value() time.Duration { return time.Duration(d) }

// fromToken implements literal.
func (d *duration) fromToken(token json.Token) bool {
	switch token := token.(type) {
	case string:
		parsed, err := time.ParseDuration(token)
		*d = duration(parsed)
		return err == nil && parsed >= 0
	case json.Number:
		*d = -1
		return token == "-1"
	}
	return false
}

// wanted implements literal.
func (d *duration) wanted() string {
	return `a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`
}

// MarshalJSON implements json.Marshaler.
func (d duration) MarshalJSON() ([]byte, error) {
	if d < 0 {
		return []byte("-1"), nil
	}
	return json.Marshal(d.value().String())
}

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

// version is the version of the form. There is one so far, and it need not be
// written, so it is read and not kept.
type version int

// fromToken implements literal.
func (*version) fromToken(token json.Token) bool { return token == json.Number("1") }

// wanted implements literal.
func (*version) wanted() string { return "1, the only version that this release reads" }

// checkVersion returns the problem of a text whose version is not known. It is
// what explains the other problems of such a text, wherever the member stands.
func checkVersion(text []byte) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || members["version"] == nil {
		return nil
	}
	return newReader(members["version"]).value("version", reflect.ValueOf(new(version)).Elem())
}
