package backoffslog

import (
	"strings"
	"unicode/utf8"
)

const (
	mask      = "xxxxx" // as net/url writes it
	maxText   = 2048    // bytes of a result
	maxRead   = 4096    // bytes of a text that are read
	maxPasses = 8       // over a text
)

// Redact returns a text in which everything that looks like a secret is
// replaced by "xxxxx", cut to at most 2048 bytes. This package applies it to
// the texts of errors. It is exported for programs that log errors elsewhere.
// If in doubt, it replaces too much. A text that went through Redact does not
// change when it goes through Redact again. The time that Redact takes is
// bounded for every text. It replaces:
//
//   - in URLs: the user info before the host, the values of the query, and the
//     fragment; also user:password@host without a scheme
//   - after Authorization and Cookie in a name, before ":" or "=": the rest of
//     the line
//   - after other names that contain password, secret, token, apikey,
//     signature, session, credential or the like, that end in key or pass, or
//     that are sig or auth: the word or the quoted string after ":" or "=";
//     hyphens, underscores, case and digits at the end do not count
//   - after Bearer, Basic and other schemes of Authorization: the next word
//   - words that begin like the tokens of well-known services, such as ghp_ or
//     eyJ
//   - private keys in the form of PEM (-----BEGIN PRIVATE KEY-----)
//
// Redact does not know a secret in the path of a URL, or in running text ("the
// password is ..."). It does not remove control characters, which a terminal
// may obey: they are left to the handler. The handlers of slog escape them.
func Redact(text string) string {
	for range maxPasses {
		redacted := redactOnce(text)
		if redacted == text {
			return text
		}
		text = redacted // whose parts may look like a secret now that others are gone
	}
	return mask
}

// redactOnce hides what it finds in one pass.
func redactOnce(text string) string {
	r := newRedactor(cut(text))
	r.hideAll()
	return clip(r.result(), maxText)
}

// cut bounds the work. It leaves out a word that it would have to cut in two,
// since the part that shows that it is a secret may stand at the word's end.
func cut(text string) string {
	if len(text) <= maxRead {
		return text
	}
	text = text[:maxRead]
	return text[:strings.LastIndexAny(text, spaces)+1] + "..."
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

// redactor marks the bytes of secrets. All its methods read the original text,
// so that none of them hides from another what that one would have found. Each
// walks through the text once, from left to right, and asks ends how far a word
// goes, because the words that it looks at may overlap.
type redactor struct {
	edges []int32 // how many secrets begin before a byte, less those that end
	query []bool  // the queries of URLs, whose values are hidden already
	ends
}

func newRedactor(text string) *redactor {
	return &redactor{edges: make([]int32, len(text)+1), query: make([]bool, len(text)), ends: newEnds(text)}
}

// hideAll hides everything that looks like a secret.
func (r *redactor) hideAll() {
	r.hideURLs()
	r.hideLogins()
	r.hidePairs()
	r.hideTokens()
	r.hidePrivateKeys()
}

// hide marks a part of the text as secret.
func (r *redactor) hide(from, to int) {
	if from < to {
		r.edges[from]++
		r.edges[to]--
	}
}

// result returns the text with each secret replaced.
func (r *redactor) result() string {
	var out strings.Builder
	depth, before := int32(0), int32(0)
	for i := range len(r.text) {
		before, depth = depth, depth+r.edges[i]
		switch {
		case depth == 0:
			out.WriteByte(r.text[i])
		case before == 0:
			out.WriteString(mask)
		}
	}
	return out.String()
}

const (
	spaces = " \t\r\n\v\f"
	quotes = "\"'`"
)

// in reports whether c is one of the bytes of set.
func in(set string, c byte) bool { return strings.IndexByte(set, c) >= 0 }

// hideURLs hides the secrets of all URLs.
func (r *redactor) hideURLs() {
	hidden := 0 // all queries up to here
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
		to := r.urlEnd(begin, i)
		r.hideUserInfo(i, to)
		if query := max(r.find(aQuery, i)+1, hidden); query < to {
			r.hideQuery(query, to)
			hidden = to
		}
	}
}

// urlEnd returns where the URL ends that began at begin: at its closing quote if
// it has an opening one, else at a space. It looks from from on.
func (r *redactor) urlEnd(begin, from int) int {
	if begin > 0 && in(quotes, r.text[begin-1]) {
		return r.quoteEnd(r.text[begin-1], from)
	}
	return r.find(urlStop, from)
}

// hideUserInfo hides the user info of the URL whose authority begins at from.
func (r *redactor) hideUserInfo(from, to int) {
	authority := r.text[from:to]
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		authority = authority[:end]
	}
	r.hide(from, from+strings.LastIndexByte(authority, '@'))
}

// hideQuery hides everything in a query except the names.
func (r *redactor) hideQuery(from, to int) {
	for i := from; i < to; i++ {
		r.query[i] = true
	}
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

// hideLogins hides the password in user:password@host, which is how the
// addresses of databases are written, and in a URL whose password has a slash
// in it.
func (r *redactor) hideLogins() {
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

// hidePairs hides the values of names that tell of a secret.
func (r *redactor) hidePairs() {
	for i := range len(r.text) {
		if r.query[i] || r.text[i] != ':' && r.text[i] != '=' {
			continue
		}
		name := r.nameBefore(i)
		switch {
		case name == "":
		case isWholeLineSecret(name):
			r.hide(i+1, r.find(lineStop, i))
		case isSecret(name):
			from, to := r.value(i + 1)
			r.hide(from, to)
		}
	}
	r.hidePorts()
}

// maxKey is how many bytes of a name are read.
const maxKey = 64

// nameBefore returns the name before a separator, without its quotes.
func (r *redactor) nameBefore(i int) string {
	for i > 0 && (in(quotes, r.text[i-1]) || in(spaces+"\\[]", r.text[i-1])) {
		i--
	}
	begin := i
	for begin > 0 && i-begin < maxKey && isName(r.text[begin-1]) {
		begin--
	}
	return r.text[begin:i]
}

// isName reports whether c may be part of a name.
func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || in("_-.+%", c)
}

// value returns the word or the quoted string that begins at i, or after the
// separators that may stand there.
func (r *redactor) value(i int) (from, to int) {
	for i < len(r.text) && in(spaces+"\\=:>[({&*", r.text[i]) {
		i++
	}
	if i < len(r.text) && in(quotes, r.text[i]) {
		return i + 1, r.quoteEnd(r.text[i], i+1)
	}
	return i, r.find(wordStop, i)
}

// hidePorts hides the part of a password that net/url reports as an invalid
// port, which it does if the password has a slash in it.
func (r *redactor) hidePorts() {
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

// hideTokens hides tokens that are known by their form, and those that follow
// the name of a scheme.
func (r *redactor) hideTokens() {
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

// hidePrivateKeys hides what stands between the two lines that frame a private
// key, or after the first one if the second is missing.
func (r *redactor) hidePrivateKeys() {
	const begin, dashes, end = "-----BEGIN ", "-----", "-----END"
	for i := 0; ; {
		at := strings.Index(r.text[i:], begin)
		if at < 0 {
			return
		}
		i += at + len(begin)
		label, _, ok := strings.Cut(r.text[i:min(i+maxKey, len(r.text))], dashes)
		if !ok || !strings.Contains(label, "PRIVATE KEY") {
			continue
		}
		i += len(label) + len(dashes)
		body, _, _ := strings.Cut(r.text[i:], end)
		r.hide(i, i+len(body))
		i += len(body)
	}
}

// isScheme reports whether a word is a scheme of Authorization.
func isScheme(word string) bool {
	switch strings.ToLower(word) {
	case "bearer", "basic", "apikey", "dpop", "aws4-hmac-sha256":
		return true
	}
	return false
}

// tokens are the beginnings of the tokens of well-known services: JSON web
// tokens, GitHub, GitLab, Stripe, OpenAI, Slack, AWS, Google, npm, PyPI.
var tokens = [...]string{"eyJ", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_", "rk_",
	"pk_live_", "whsec_", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "AKIA", "ASIA", "AIza", "ya29.", "npm_", "pypi-"}

// minToken is the length of the shortest token.
const minToken = 12

// isToken reports whether a word is formed like a token.
func isToken(word string) bool {
	if len(word) < minToken {
		return false
	}
	for _, prefix := range tokens {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

// plainName returns a name in lower case, without what joins its words.
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

// isWholeLineSecret reports whether a name is that of a header whose secret may
// have several words.
func isWholeLineSecret(name string) bool {
	name = plainName(name)
	return strings.Contains(name, "authorization") || strings.Contains(name, "cookie")
}

// isSecret reports whether a name is that of a secret.
func isSecret(name string) bool {
	name = strings.TrimRight(plainName(name), "0123456789")
	switch name {
	case "sig", "auth", "pw", "pin", "otp", "sid", "jwt":
		return true
	}
	if strings.HasSuffix(name, "key") || strings.HasSuffix(name, "pass") {
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
