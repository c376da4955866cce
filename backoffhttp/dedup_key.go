package backoffhttp

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strings"
)

// keyOf reads the idempotency key of a request: a string of structured fields ("..."), as
// the draft has it, or bare, as deployed APIs have it. Both forms of one key are the same
// key. A bare key is made of visible ASCII without the characters by which fields are
// delimited or lists made: " , ; \.
func keyOf(header http.Header, most int) (string, error) {
	values := header[HeaderIdempotencyKey]
	if len(values) == 0 {
		return "", ErrKeyMissing
	}
	if len(values) > 1 {
		return "", ErrKeyInvalid
	}
	value := strings.Trim(values[0], " \t")
	key, ok := value, bare(value)
	if strings.HasPrefix(value, `"`) {
		key, ok = unquote(value)
	}
	if !ok || key == "" || most >= 0 && len(key) > most {
		return "", ErrKeyInvalid
	}
	return key, nil
}

func bare(value string) bool {
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`",;\`, c) >= 0 {
			return false
		}
	}
	return true
}

// unquote reads an sf-string (RFC 9651, 3.3.3 and 4.2.5), with nothing behind it.
func unquote(value string) (string, bool) {
	key := make([]byte, 0, len(value))
	for i := 1; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '"':
			return string(key), i == len(value)-1
		case c < ' ' || c >= 0x7f:
			return "", false
		case c == '\\':
			i++
			if i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", false
			}
			c = value[i]
		}
		key = append(key, c)
	}
	return "", false
}

// digest hashes parts, so that no two lists of parts have the same hash.
func digest(parts ...string) string {
	hash := sha256.New()
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// fingerprint is what a request under a key must have in common with the first one.
func fingerprint(r *http.Request, body []byte) []byte {
	return []byte(digest(r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body)))
}
