package spec

import (
	"encoding/json"
	"time"
)

// duration is a text such as "1.5s", or -1.
type duration time.Duration

const wantDuration = `a duration such as "1.5s", or -1 for no limit`

func (d duration) value() time.Duration { return time.Duration(d) }

// take implements literal.
func (d *duration) take(token json.Token) bool {
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

func (d *duration) wanted() string { return wantDuration }

// MarshalJSON implements json.Marshaler.
func (d duration) MarshalJSON() ([]byte, error) {
	if d < 0 {
		return []byte("-1"), nil
	}
	return json.Marshal(d.value().String())
}
