package examples

import (
	"go/ast"
	"go/doc"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sought are words that users search for, each with a name whose documentation
// on pkg.go.dev has the word: a type, a function, a method, a field, or an
// Example as pkg.go.dev calls it. "pkg" alone is the package comment.
var sought = []struct{ word, leadsTo string }{
	{"retries", "backoff"},
	{"MaxRetries", "backoff.Policy.MaxAttempts"},
	{"OnRetry", "backoff.ExamplePolicy_onRetry"},
	{"OnRetry", "backoff.Policy.Observer"},
	{"callback", "backoff.Observer"},
	{"RetryIf", "backoff.Policy.Classify"},
	{"func(error) bool", "backoff.RetryIf"},
	{"timeout", "backoff.ExamplePolicy_timeout"},
	{"timeout of the whole call", "backoff.Policy.MaxElapsed"},
	{"per-try timeout", "backoff.Policy.AttemptTimeout"},
	{"Constant(", "backoff.Policy.Schedule"},
	{"pointer", "backoff.Policy.Budget"},
	{"base", "backoff.Exponential.Initial"},
	{"Fibonacci", "backoff.ExampleScheduleFunc_fibonacci"},
	{"Fibonacci", "backoff.Schedule"},
	{"jitter", "backoff.Jitter"},
	{"Retry-After", "backoff.RetryAfter"},
	{"Retry-After", "backoffhttp.RetryAfter"},
	{"circuit breaker", "backoff.Breaker"},
	{"CircuitBreaker", "backoff.Breaker"},
	{"ReadyToTrip", "backoff.Breaker.TripIf"},
	{"fallback", "backoff.ExampleDoValue_fallback"},
	{"hedge", "backoff.Hedge"},
	{"tail latency", "backoff.Hedge"},
	{"reconnect", "backoff.Policy.Supervise"},
	{"idempotency key", "backoff.Keyed"},
	{"Idempotency-Key", "idempotency"},
	{"bulkhead", "limit.Concurrency"},
	{"bulkhead", "backoff"},
	{"bulkhead", "limit"},
	{"rate limit", "limit.Rate"},
	{"rate limit", "backoff"},
	{"rate limit", "limit"},
	{"429", "pace"},
	{"polls", "poll"},
}

func TestTheWordsThatUsersSearchForLeadToTheNamesThatServeThem(t *testing.T) {
	all := map[string]string{}
	for dir, p := range loaded(t) {
		name := filepath.Base(dir)
		if dir == "." {
			name = "backoff"
		}
		for at, text := range pageOf(p) {
			all[strings.TrimSuffix(name+"."+at, ".")] = text
		}
	}
	for _, s := range sought {
		text, known := all[s.leadsTo]
		if !known {
			t.Errorf("%q leads to %s, which there is not", s.word, s.leadsTo)
		} else if !strings.Contains(strings.ToLower(text), strings.ToLower(s.word)) {
			t.Errorf("the doc of %s does not have %q, which users search for:\n%s", s.leadsTo, s.word, text)
		}
	}
}

// pageOf is what pkg.go.dev shows of a package: the docs of its names, fields
// and constants, and its examples with their titles.
func pageOf(p documented) map[string]string {
	page := docs(p)
	page[""] = p.text
	for _, typ := range p.Types {
		ast.Inspect(typ.Decl, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok {
				for _, name := range f.Names {
					page[typ.Name+"."+name.Name] = f.Doc.Text() + f.Comment.Text()
				}
			}
			return true
		})
		for _, v := range typ.Consts {
			eachValue(v, func(name, text string) { page[name] = text })
		}
		for _, of := range append(typ.Funcs, typ.Methods...) {
			addExamples(page, of.Examples)
		}
		addExamples(page, typ.Examples)
	}
	for _, v := range append(p.Consts, p.Vars...) {
		eachValue(v, func(name, text string) { page[name] = text })
	}
	for _, f := range p.Funcs {
		addExamples(page, f.Examples)
	}
	addExamples(page, p.Examples)
	return page
}

func addExamples(page map[string]string, examples []*doc.Example) {
	for _, e := range examples {
		page["Example"+e.Name] = e.Suffix + " " + e.Doc
	}
}

// eachValue calls see for each constant or variable of a declaration.
func eachValue(v *doc.Value, see func(name, text string)) {
	for _, spec := range v.Decl.Specs {
		s := spec.(*ast.ValueSpec)
		for _, name := range s.Names {
			see(name.Name, v.Doc+s.Doc.Text()+s.Comment.Text())
		}
	}
}

// houseWords are words of this house for which there is a standard one: those
// of names that were replaced, private metaphors, and phrases that users of the
// library stumbled over. A word that also has a legitimate use is not listed.
var houseWords = []struct{ pattern, instead string }{
	{`hint(s|ed)?`, "Retry-After, or the wait that the server asked for"},
	{`streaks?`, "consecutive failures"},
	{`unsent`, "not sent"},
	{`departs?|departures?`, "begins"},
	{`established`, "ready"},
	{`testif(ies|ied)|interviews?|speakers?`, "the error says, by a method"},
	{`seats?`, "slot"},
	{`stopgaps?|ripe|thrives?|neverAsked`, "what it is, in a plain word"},
	{`strangers?`, "untrusted client"},
	{`nobody (else|knows|can)|for nobody`, "no caller; it is unknown"},
	{`hears? (of|about|from|nothing|"|what)`, "receives, gets, is called for"},
	{`carr(y|ies|ied|ying) out`, "execute, run"},
	{`com(e|es|ing) back (as|bare|wrapped|marked|with|from)`, "is returned"},
	{`when to come back`, "when to retry"},
	{`(the|its|their|his|that|open) time (is|was|were) over`, "expires, has expired"},
	{`for ever`, "forever, without limit"},
	{`heedless(ly)?`, "ignoring"},
	{`lest`, "so that ... not"},
	{`whoever|whosoever`, "a caller that"},
	{`(loops?|rules?) of (his|one's|the user's|their|your) own`, "your own loop, a hand-written loop, a custom rule"},
	{`of one's own`, "custom"},
	{`no equal`, "no equivalent"},
	{`his|himself|he`, "it, the caller"},
	{`in vain`, "without effect"},
	{`but for`, "except"},
	{`also if`, "even if"},
	{`stays? on the floor`, "never recovers"},
	{`random while`, "jitter"},
	{`to speak of`, "few"},
	{`not (well|at fault) (yet|until)`, "not healthy"},
	{`(HTTP|last|throttled|successful|definitive) answers?`, "response"},
	{`answers? (of|from|by) (a|the) (server|host|service|proxy)`, "response"},
	{`answers? (with )?[1-5]\d\d`, "responds with"},
	{`(no|its|a|the) place (in|for) (a|the) (budget|stream|policy|probe)`, "slot, field"},
	{`(tells?|told|telling) (of|about)`, "reports, says, has an event for"},
	{`(learns?|learnt) (what|which|of)`, "gets, finds out"},
	{`anew`, "again"},
}

// A house word costs every reader a moment, and those who search for the
// standard word find nothing. Names of other libraries are exempt, and so is
// all code: it stands in code spans and blocks.
func TestNoHouseWordsInWhatUsersRead(t *testing.T) {
	lines := 0
	patterns := make([]*regexp.Regexp, len(houseWords))
	for i, w := range houseWords {
		patterns[i] = asPattern(w.pattern)
	}
	judge := func(name, text string, first int) {
		lines += strings.Count(text, "\n")
		for i, w := range houseWords {
			for _, at := range patterns[i].FindAllStringIndex(text, -1) {
				word := strings.Join(strings.Fields(strings.ReplaceAll(text[at[0]:at[1]], "//", " ")), " ")
				t.Errorf("%s:%d: %q is a house word; write: %s", name, first+strings.Count(text[:at[0]], "\n"), word, w.instead)
			}
		}
	}
	for _, name := range documentsOfUsers(t) {
		judge(name, blank(code, read(t, name)), 1)
	}
	for _, p := range loaded(t) {
		eachComment(p, func(text string, at token.Position) {
			judge(at.Filename, blank(program, text), at.Line)
		})
	}
	if lines < 8000 {
		t.Errorf("%d lines: are they still read?", lines)
	}
}

// asPattern makes a pattern that a line break may interrupt.
func asPattern(words string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(words, " ", `(?:\s|//)+`) + `)\b`)
}

// program is a line of a program in a comment.
var program = regexp.MustCompile(`(?m)^//\t.*$`)

// blank puts spaces in the place of what a pattern matches.
func blank(pattern *regexp.Regexp, text string) string {
	return pattern.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, s)
	})
}

// documentsOfUsers are the documents outside of internal.
func documentsOfUsers(t *testing.T) []string {
	var names []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../contrib/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

// eachComment calls see for every comment that pkg.go.dev shows, with its
// first line.
func eachComment(p documented, see func(text string, at token.Position)) {
	inspect := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if group, ok := n.(*ast.CommentGroup); ok {
				var lines []string
				for _, c := range group.List {
					lines = append(lines, c.Text)
				}
				see(strings.Join(lines, "\n"), p.files.Position(group.Pos()))
			}
			_, body := n.(*ast.BlockStmt)
			return !body
		})
	}
	inspect(p.comment)
	values, funcs := append(p.Consts, p.Vars...), p.Funcs
	for _, typ := range p.Types {
		inspect(typ.Decl)
		values = append(append(values, typ.Consts...), typ.Vars...)
		funcs = append(append(funcs, typ.Funcs...), typ.Methods...)
	}
	for _, v := range values {
		inspect(v.Decl)
	}
	for _, f := range funcs {
		inspect(f.Decl)
	}
}
