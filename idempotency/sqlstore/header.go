package sqlstore

import (
	"encoding/json"
	"net/http"
)

// encode returns a header as JSON. The fields of a header need not be UTF-8,
// but the strings of JSON must be. So each byte becomes the character with its
// number, which keeps ASCII readable.
func encode(header http.Header) []byte {
	if len(header) == 0 {
		return nil
	}
	text, _ := json.Marshal(converted(header, widen)) // strings: it cannot fail
	return text
}

// decode reads what encode wrote.
func decode(text []byte) (http.Header, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var header http.Header
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, err
	}
	return converted(header, narrow), nil
}

// converted returns a header whose names and values are converted.
func converted(header http.Header, convert func(string) string) http.Header {
	all := make(http.Header, len(header))
	for name, values := range header {
		for _, v := range values {
			all[convert(name)] = append(all[convert(name)], convert(v))
		}
	}
	return all
}

// widen returns a string with a character for each byte of s.
func widen(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// narrow returns a string with a byte for each character of s.
func narrow(s string) string {
	bytes := make([]byte, 0, len(s))
	for _, r := range s {
		bytes = append(bytes, byte(r))
	}
	return string(bytes)
}
