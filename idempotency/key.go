package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
)

// headerKey is the name of the header that carries a key.
const headerKey = "Idempotency-Key"

// keyOf returns the idempotency key of a request. The key is a string of
// structured fields ("..."), as in the draft, or bare, as in most deployed
// APIs. Both forms of a key are the same key. A bare key consists of visible
// ASCII characters without those that delimit fields and lists: " , ; \.
func keyOf(header http.Header, maxLength int) (string, error) {
	values := header[headerKey]
	if len(values) == 0 {
		return "", ErrKeyMissing
	}
	value := strings.Trim(values[0], " \t")
	if len(values) > 1 || maxLength >= 0 && len(value)/2-1 > maxLength { // also if all of it is escaped
		return "", ErrKeyInvalid
	}
	key, ok := value, isBare(value)
	if strings.HasPrefix(value, `"`) {
		key, ok = unquote(value)
	}
	if !ok || key == "" || maxLength >= 0 && len(key) > maxLength {
		return "", ErrKeyInvalid
	}
	return key, nil
}

// isBare reports whether a value can be a bare key.
func isBare(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`",;\`, c)
	})
}

// unquote reads an sf-string (RFC 9651, 3.3.3 and 4.2.5). Nothing may follow
// it.
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

// digestLength is the length of a digest.
const digestLength = 2 * sha256.Size

// digest hashes a list of parts. Two different lists have different hashes.
func digest(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// fingerprint returns what two requests under one key must have in common. The
// target is the one that the client sent: http.StripPrefix and the like change
// the URL that handlers see, and several of them may lead to one Middleware.
func fingerprint(r *http.Request, body []byte) []byte {
	sent := r.URL
	if target, err := url.ParseRequestURI(r.RequestURI); err == nil {
		sent = target
	}
	return []byte(digest(r.Method, strings.ToLower(r.Host), sent.EscapedPath(), sent.RawQuery,
		r.URL.EscapedPath(), r.URL.RawQuery, string(body)))
}
