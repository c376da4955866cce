package spec

import (
	"encoding/json"
	"time"
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
