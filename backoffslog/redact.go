package backoffslog

import (
	"strings"
	"unicode/utf8"
)

const (
	mask        = "xxxxx" // as net/url writes it
	longestText = 2048
	longestRead = 4096
)

// Redact returns a text without what looks like a secret in it, each replaced by
// "xxxxx", and cut to at most 2048 bytes. It is what this package does to texts of
// errors, for those who log them elsewhere. In doubt it takes too much:
//
//   - of URLs, whoever stands before the host, the values of the query, and the fragment;
//     also user:password@host without a scheme
//   - after Authorization and Cookie in a name, before ":" or "=", the rest of the line
//   - after other names that have password, secret, token, apikey, signature, session,
//     credential or the like in them, or that are key, sig or auth, the word or the
//     quoted string that follows ":" or "="; hyphens, underscores and case do not count
//   - after Bearer, Basic and other schemes of Authorization, the next word
//   - words that begin as the tokens of well-known services do, such as ghp_ or eyJ
//
// What it cannot know: the path of a URL stays, and so does a secret in running text
// ("the password is ..."). The text is not made fit for a terminal: control characters
// are left to the handler, and those of slog escape them.
func Redact(text string) string {
	text = readable(text)
	r := redactor{text: text, secret: make([]bool, len(text)), query: make([]bool, len(text))}
	r.urls()
	r.logins()
	r.pairs()
	r.words()
	return clip(r.result(), longestText)
}

// readable bounds the work. A word that is cut off is left out, as what makes it a
// secret may stand at its end.
func readable(text string) string {
	if len(text) <= longestRead {
		return text
	}
	text = text[:longestRead]
	return text[:strings.LastIndexAny(text, spaces)+1] + "..."
}

// clip shortens a text at the boundary of a character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("...")
	for end > most-8 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// redactor marks the bytes of secrets. Its ways of finding them all read the text as it
// was, so that none hides from one what another has found.
type redactor struct {
	text   string
	secret []bool
	query  []bool // of URLs, where names and values are told apart already
}

func (r *redactor) hide(from, to int) {
	for i := max(0, from); i < min(to, len(r.secret)); i++ {
		r.secret[i] = true
	}
}

func (r *redactor) result() string {
	var out strings.Builder
	for i := range len(r.text) {
		switch {
		case !r.secret[i]:
			out.WriteByte(r.text[i])
		case i == 0 || !r.secret[i-1]:
			out.WriteString(mask)
		}
	}
	return out.String()
}

const (
	spaces = " \t\r\n\v\f"
	quotes = "\"'`"
)

func in(set string, c byte) bool { return strings.IndexByte(set, c) >= 0 }

// urls hides what URLs hold.
func (r *redactor) urls() {
	for i := 0; ; {
		at := strings.Index(r.text[i:], "://")
		if at < 0 {
			return
		}
		i += at + len("://")
		begin := i - len("://")
		for begin > 0 && isName(r.text[begin-1]) {
			begin--
		}
		r.url(i, r.end(begin, i))
	}
}

// end is where a word ends that began at begin: at its closing quote if it has an opening
// one, and else at a space.
func (r *redactor) end(begin, from int) int {
	if begin > 0 && in(quotes, r.text[begin-1]) {
		return r.closing(r.text[begin-1], from)
	}
	for i := from; i < len(r.text); i++ {
		if in(spaces, r.text[i]) || r.text[i] == '"' && r.text[i-1] != '\\' {
			return i
		}
	}
	return len(r.text)
}

// closing is where a quotation ends, or the text.
func (r *redactor) closing(quote byte, from int) int {
	for i := from; i < len(r.text); i++ {
		switch r.text[i] {
		case '\\':
			i++
		case quote:
			return i
		}
	}
	return len(r.text)
}

// url hides the secrets of one whose authority begins at from.
func (r *redactor) url(from, to int) {
	rest := r.text[from:to]
	host := strings.IndexAny(rest, "/?#")
	if host < 0 {
		host = len(rest)
	}
	r.hide(from, from+strings.LastIndexByte(rest[:host], '@'))
	if query := strings.IndexAny(rest, "?#"); query >= 0 {
		from += query + 1
		r.values(from, to)
		for i := from; i < to; i++ {
			r.query[i] = true
		}
	}
}

// values hides all of a query but the names.
func (r *redactor) values(from, to int) {
	for from < to {
		end := from
		for end < to && !in("&;#", r.text[end]) {
			end++
		}
		value := from
		for value < end && isName(r.text[value]) {
			value++
		}
		if value == end || r.text[value] != '=' {
			value = from - 1 // there is no name
		}
		r.hide(value+1, end)
		from = end + 1
	}
}

// logins hides the password in user:password@host, as the names of databases are
// written, and in a URL whose password has a slash in it.
func (r *redactor) logins() {
	from := -1
	for i := range len(r.text) {
		switch c := r.text[i]; {
		case in(spaces, c):
			from = -1
		case c == ':' && from < 0 && !strings.HasPrefix(r.text[i:], "://"):
			from = i + 1
		case c == '@' && from >= 0:
			r.hide(from, i)
			from = i // the password may go on
		}
	}
}

// pairs hides the values of names that tell of a secret.
func (r *redactor) pairs() {
	for i := range len(r.text) {
		if r.query[i] || r.text[i] != ':' && r.text[i] != '=' {
			continue
		}
		name := r.nameBefore(i)
		switch {
		case name == "":
		case wholeLine(name):
			r.hide(i+1, r.line(i))
		case sensitive(name):
			from, to := r.value(i + 1)
			r.hide(from, to)
		}
	}
	r.ports()
}

const longestKey = 64

// nameBefore is the name that a separator follows, without its quotes.
func (r *redactor) nameBefore(i int) string {
	for i > 0 && (in(quotes, r.text[i-1]) || in(spaces+"\\]", r.text[i-1])) {
		i--
	}
	begin := i
	for begin > 0 && i-begin < longestKey && isName(r.text[begin-1]) {
		begin--
	}
	return r.text[begin:i]
}

func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || in("_-.+%", c)
}

func (r *redactor) line(from int) int {
	if end := strings.IndexAny(r.text[from:], "\r\n"); end >= 0 {
		return from + end
	}
	return len(r.text)
}

// value is the word or the quoted string that begins at i, or after what may stand there.
func (r *redactor) value(i int) (from, to int) {
	for i < len(r.text) && in(spaces+"\\=:>[({&*", r.text[i]) {
		i++
	}
	if i < len(r.text) && in(quotes, r.text[i]) {
		return i + 1, r.closing(r.text[i], i+1)
	}
	to = i
	for to < len(r.text) && !in(spaces, r.text[to]) {
		to++
	}
	return i, to
}

// ports hides what net/url complains of where a password has a slash in it.
func (r *redactor) ports() {
	const complaint = "invalid port "
	for i := 0; ; {
		at := strings.Index(r.text[i:], complaint)
		if at < 0 {
			return
		}
		i += at + len(complaint)
		from, to := r.value(i)
		r.hide(from, to)
	}
}

// words hides tokens known by their shape, and those that follow the name of a scheme.
func (r *redactor) words() {
	for i := 0; i < len(r.text); i++ {
		if !isName(r.text[i]) {
			continue
		}
		end := i
		for end < len(r.text) && isName(r.text[end]) {
			end++
		}
		switch word := r.text[i:end]; {
		case isToken(word):
			r.hide(i, end)
		case isScheme(word) && end < len(r.text) && in(spaces, r.text[end]):
			from, to := r.value(end)
			r.hide(from, to)
		}
		i = end
	}
}

func isScheme(word string) bool {
	switch strings.ToLower(word) {
	case "bearer", "basic", "apikey", "dpop", "aws4-hmac-sha256":
		return true
	}
	return false
}

// tokens are how those of well-known services begin: JSON web tokens, GitHub, GitLab,
// Stripe, OpenAI, Slack, AWS, Google, npm, PyPI.
var tokens = [...]string{"eyJ", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_", "rk_",
	"pk_live_", "whsec_", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "AKIA", "ASIA", "AIza", "ya29.", "npm_", "pypi-"}

const leastToken = 12

func isToken(word string) bool {
	if len(word) < leastToken {
		return false
	}
	for _, prefix := range tokens {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

// plainName is a name in lower case, without what joins its words.
func plainName(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		case strings.ContainsRune("_-.+%", c):
			return -1
		}
		return c
	}, name)
}

// wholeLine reports whether a name is that of a header with more than one word.
func wholeLine(name string) bool {
	name = plainName(name)
	return strings.Contains(name, "authorization") || strings.Contains(name, "cookie")
}

// sensitive reports whether a name is that of a secret.
func sensitive(name string) bool {
	name = plainName(name)
	switch name {
	case "key", "sig", "auth", "pass", "pw", "pin", "otp", "sid", "jwt":
		return true
	}
	for _, part := range [...]string{"authorization", "cookie", "password", "passwd", "passphrase", "pwd", "secret", "token",
		"apikey", "accesskey", "privatekey", "credential", "signature", "session", "idempotencykey", "bearer"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
