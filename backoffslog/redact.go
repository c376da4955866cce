package backoffslog

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	mask    = "xxxxx" // as net/url writes it
	maxText = 2048    // bytes of a result
	maxRead = 4096    // bytes of a text that are read
	spaces  = " \t\r\n\v\f"
)

// Redact returns a text in which the secret parts of all URLs are replaced by
// "xxxxx": the user info before the host, the values of the query, and the
// fragment. It cuts the text to at most 2048 bytes. This package applies it to
// the texts of errors. It is exported for programs that log errors elsewhere.
//
// Redact does not look for other secrets, such as the password of a database
// in "password=hunter2", or a token in running text or in the path of a URL. It
// does not remove control characters, which a terminal may obey: they are left
// to the handler. The handlers of slog escape them.
func Redact(text string) string {
	if len(text) > maxRead { // without the last word, whose "@" may be missing
		text = text[:maxRead]
		text = text[:strings.LastIndexAny(text, spaces)+1] + "..."
	}
	var out strings.Builder
	text = redactPort(text)
	for {
		before, url, found := strings.Cut(text, "://")
		out.WriteString(before)
		if !found {
			break
		}
		end := endOfURL(before, url)
		out.WriteString("://" + redactURL(url[:end]))
		text = url[end:]
	}
	return clip(out.String(), maxText)
}

// endOfURL returns where a URL ends: at the quote that closes the one before its
// scheme, else at a space or a quote. In a text that was quoted again, a quote
// has backslashes before it, and those within the URL have more.
func endOfURL(before, url string) int {
	before = strings.TrimRightFunc(before, isOfScheme)
	outer := strings.TrimRight(before, "\"'`")
	if outer == before {
		return until(url, spaces+`"`)
	}
	quote, escapes := before[len(before)-1:], countBackslashes(outer)
	for from := 0; ; {
		at := strings.Index(url[from:], quote)
		if at < 0 {
			return len(url)
		}
		from += at + len(quote)
		if n := countBackslashes(url[:from-len(quote)]); n <= escapes {
			return from - len(quote) - n
		}
	}
}

// isOfScheme reports whether r may be part of the scheme of a URL.
func isOfScheme(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("+-.", r)
}

// countBackslashes counts those at the end of a text.
func countBackslashes(text string) int { return len(text) - len(strings.TrimRight(text, `\`)) }

// until returns the index of the first of some characters, or the length.
func until(text, chars string) int {
	if i := strings.IndexAny(text, chars); i >= 0 {
		return i
	}
	return len(text)
}

// redactURL replaces the secret parts of a URL without its scheme.
func redactURL(url string) string {
	path := until(url, "?#")
	if at := strings.LastIndexByte(url[:path], '@'); at >= 0 {
		url, path = mask+url[at:], path-at+len(mask)
	}
	redacted, query := url[:path], url[path:]
	for query != "" {
		end := 1 + until(query[1:], "&;#")
		value := strings.IndexByte(query[:end], '=')
		if query[0] == '#' || value < 2 || strings.ContainsAny(query[1:value], ":/?@") {
			value = 0 // there is no name
		}
		redacted += query[:value+1]
		if value+1 < end {
			redacted += mask
		}
		query = query[end:]
	}
	return redacted
}

// redactPort replaces the part of a password that net/url reports as an invalid
// port, which it does if the password has a slash in it.
func redactPort(text string) string {
	const complaint = "invalid port "
	parts := strings.Split(text, complaint)
	for i := range parts[1:] {
		parts[i+1] = mask + parts[i+1][until(parts[i+1], spaces):]
	}
	return strings.Join(parts, complaint)
}

// clip shortens a text to limit bytes, at the boundary of a character.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len("...")
	for end > limit-8 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// isSecret reports whether the name of a header, in lower case, indicates a secret.
func isSecret(header string) bool {
	secrets := []string{"auth", "cookie", "key", "password", "secret", "session", "signature", "token"}
	return slices.ContainsFunc(secrets, func(part string) bool {
		return strings.Contains(header, part)
	})
}
