package retryafter

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// waitOf returns what the lines of a RateLimit field ask for, or -1.
func waitOf(lines ...string) time.Duration {
	if d, ok := From(map[string][]string{"Ratelimit": lines}, noon); ok {
		return d
	}
	return -1
}

// The kinds of bare items of RFC 9651, and what comes close to one. They are
// tried as an item, and as the value of a parameter.
var bareItems = map[string]bool{
	`1`: true, `-1`: true, `0`: true, `-0`: true, `00042`: true, `999999999999999`: true, `-999999999999999`: true,
	`1.5`: true, `-0.125`: true, `123456789012.123`: true,
	``: false, `-`: false, `--1`: false, `+1`: false, `1e3`: false, `0x10`: false, `1_000`: false, `٣`: false,
	`1000000000000000`: false, `0000000000000001`: false, `1.`: false, `.5`: false, `1.2.3`: false, `1..2`: false, `1.1234`: false,
	`1234567890123.1`: false, `-.5`: false, `1 000`: false,

	`"a"`: true, `""`: true, `"a b,;=\"\\"`: true, `"~"`: true,
	`"`: false, `"a`: false, `a"`: false, `"a\b"`: false, `"a\`: false, `"a\"`: false, "\"\t\"": false, "\"\x7f\"": false, `"é"`: false, "\"\x00\"": false,
	`'a'`: false, `"a"b`: false, `"a""b"`: false,

	`a`: true, `*`: true, `A/b:c`: true, `a!#$%&'*+-.^_|~` + "`" + `9`: true,
	`_a`: false, `/a`: false, `a(`: false, `a@b`: false, `a{}`: false, `é`: false, `a"b"`: false,

	`::`: true, `:YQ==:`: true, `:YWI=:`: true, `:YWJj:`: true, `:YQ:`: true, `:YWI:`: true, `:YR==:`: true, `:+/+/:`: true,
	`:`: false, `:YQ==`: false, `:Y:`: false, `:YWJjZ:`: false, `:Y=Q=:`: false, `:YQ=:`: false, `:YWJj=:`: false, `:YWJj====:`: false, `:====:`: false,
	`:Y Q:`: false, `:YQ-_:`: false, `:=:`: false, `*YQ==*`: false,

	`?0`: true, `?1`: true,
	`?`: false, `?2`: false, `?true`: false, `?-1`: false, `?01`: false,

	`@0`: true, `@-62135596800`: true, `@1659578233`: true,
	`@`: false, `@1.5`: false, `@a`: false, `@ 1`: false, `@1000000000000000`: false, `@"1"`: false,

	`%""`: true, `%"a b\"`: true, `%"f%c3%bc"`: true, `%"%22%25"`: true,
	`%`: false, `%a`: false, `%"`: false, `%"a`: false, `%"f%C3%BC"`: false, `%"%c3%28"`: false, `%"%a0"`: false, `%"%e2%82"`: false, `%"%"`: false, `%"%2"`: false,
	`%"%2`: false, `%"%zz"`: false, `%"%+1"`: false, "%\"\t\"": false, `%"ü"`: false, `%'a'`: false, `%"%00"`: true,

	`(`: false, `()`: false, `(1)`: false, `("a";r=0;t=9)`: false, `)`: false, `[1]`: false, `{}`: false, `=`: false, `=1`: false, `&`: false,
}

// RFC 9651, 3.3 and 4.2.3.1. What is malformed spoils the whole field (4.2), in
// the middle, at the end, and on a line of its own.
func TestAMalformedValueSpoilsTheRateLimitField(t *testing.T) {
	const good = `"a";r=0;t=30`
	for item, valid := range bareItems {
		want := 30 * time.Second
		if !valid {
			want = -1
		}
		for _, lines := range [][]string{
			{item + `;r=0;t=30`}, {good + `,` + item + `;r=5`}, {item + `;r=5, ` + good}, {good, item + `;r=5`},
			{good + `;x=` + item}, {`"a";x=` + item + `;r=0;t=30`}, {`"b";x=` + item + `;r=5`, good},
		} {
			require.Equal(t, want, waitOf(lines...), "%q", lines)
		}
	}
}

// RFC 9651, 3.1, 3.1.2 and 4.2: keys, parameters, lists, and lines.
func TestTheRateLimitFieldIsAListOfItemsWithParameters(t *testing.T) {
	for value, want := range map[string]time.Duration{
		// parameters
		`"a";r=0;t=30`:                    30,
		`"a";  r=0;   t=30`:               30,
		`a;t=30;r=0`:                      30,
		`"a";r=5;r=0;t=9;t=30`:            30, // the last one counts
		`"a";r=0;r=5;t=30`:                -1,
		`"a";r=0;t=30;r=-1`:               -1,
		`"a";r=0;t=30;unknown`:            30,
		`"a";r=0;t=30;*x_.-*9=?0`:         30,
		`"a";r=0;t=30;x=(1)`:              -1,
		`"a";r=0;t=30;`:                   -1,
		`"a";;r=0;t=30`:                   -1,
		`"a" ;r=0;t=30`:                   -1,
		"\"a\";\tr=0;t=30":                -1,
		`"a";r =0;t=30`:                   -1,
		`"a";r= 0;t=30`:                   -1,
		`"a";r=;t=30`:                     -1,
		`"a";R=0;T=30`:                    -1,
		`"a";r=0;t=30;X=1`:                -1,
		`"a";r=0;t=30;9=1`:                -1,
		`"a";r=0;t=30;-x`:                 -1,
		`"a";r=0;t=30;"x"=1`:              -1,
		`"a";r=0;t=30;é`:                  -1,
		`"a";pk=:cHNk:;r=0;t=30`:          30,
		`"a";rr=5;tt=9;r=0;t=30`:          30,
		`"r=0;t=9";r=5;t=30`:              -1,
		`"a";x=";r=0;t=9";r=0;t=30`:       30,
		`"a";x=:cg==:;r=0;t=30`:           30,
		"\"a\";r=0;t=30\x00":              -1,
		`"a";r=0;t=30 x`:                  -1,
		`"a"r=0;t=30`:                     -1,
		`r=0;t=400`:                       -1,
		`(((;r=0;t=31536000`:              -1,
		`"a";r=0;t=1000000000000000`:      -1,
		`limit=10, remaining=0, reset=10`: -1,

		// what r and t may be: whole numbers from 0 on (draft 10, 4.1.1 and 4.1.2)
		`"a";r=000;t=0030`:                     30,
		`"a";r=-0;t=30`:                        30,
		`"a";r=0;t=0`:                          0,
		`"a";r=0;t=-0`:                         0,
		`"a";r=0`:                              -1, // does not say when
		`"a";r=999999999999999;t=30`:           -1,
		`"a";r=0;t=31622400`:                   366 * 24 * 3600,
		`"a";r=0;t=31622401`:                   -1, // no quota lasts longer than a year
		`"a";r=0;t=999999999999999`:            -1,
		`"a";r=0;t=999999999999999,b;r=0;t=30`: 30, // it is not malformed
		`"a";r=0;t=9223372037`:                 -1,
		`b;r=0;t=30,"a";r=-1;t=5`:              -1,
		`b;r=0;t=30,"a";r=0;t=-5`:              -1,
		`b;r=0;t=30,"a";r=0.0;t=5`:             -1,
		`b;r=0;t=30,"a";r=0;t=5.5`:             -1,
		`b;r=0;t=30,"a";r=?0;t=5`:              -1,
		`b;r=0;t=30,"a";r;t=5`:                 -1,
		`b;r=0;t=30,"a";r=0;t`:                 -1,
		`b;r=0;t=30,"a";r="0";t=5`:             -1,
		`b;r=0;t=30,"a";r=0;t="5"`:             -1,
		`b;r=0;t=30,"a";r=0;t=@5`:              -1,
		`b;r=0;t=30,"a";r=0;t=soon`:            -1,
		`b;r=0;t=30,"a";r=:MA==:;t=5`:          -1,
		`b;r=0;t=30,"a";r=%"0";t=5`:            -1,
		`b;r=0;t=30,"a";t=5`:                   -1, // r is required
		`b;r=0;t=30,"a"`:                       -1,

		// lists
		``:                               -1,
		`   `:                            -1,
		`  "a";r=0;t=30  `:               30,
		"\"a\";r=0;t=30\t ":              30,
		"\t\"a\";r=0;t=30":               -1,
		"a;r=0;t=9 \t,\t b;r=0;t=30":     30,
		`a;r=0;t=30,b;r=7;t=99`:          30,
		`a;r=0;t=30,`:                    -1,
		`,a;r=0;t=30`:                    -1,
		`a;r=0;t=30,,b;r=0;t=5`:          -1,
		`a;r=0;t=30 b;r=0;t=5`:           -1,
		`a;r=0;t=30;b;r=0;t=5`:           5,
		`a;r=0;t=30,(b);r=0;t=5`:         -1,
		`(a b);r=0;t=30`:                 -1,
		`a;r=0;t=30, (b c`:               -1,
		`a;r=0;t=30,b;r=5;t=1;x="`:       -1,
		`a;r=0;t=30,"b;r=5;t=1`:          -1,
		`a;r=0;t=30,b;r=5;x=:YQ==`:       -1,
		`"default";r=0;t=30, "d";r=9;t=`: -1,
	} {
		require.Equal(t, max(-1, want*time.Second), waitOf(value), "%q", value)
	}
}

func TestTheLinesOfTheRateLimitFieldAreOneList(t *testing.T) {
	require.Equal(t, 30*time.Second, waitOf(`a;r=0;t=9`, `b;r=0;t=30`))
	require.Equal(t, 30*time.Second, waitOf(`a;r=0;t=9, c;r=7`, `b;r=0;t=30`, `d;r=1;t=99`))
	for _, lines := range [][]string{
		{`a;r=0;t=9`, ``}, {``, `a;r=0;t=9`}, {`a;r=0;t=9,`, `b;r=0;t=9`}, {`a;r=0;t=9`, `?`}, {`nonsense!`, `a;r=0;t=9 9`},
		{`"a`, `b";r=0;t=9;`}, {`a;r=0;t=9`, `b;r=0;t=-9`}, {}, nil,
	} {
		require.Equal(t, time.Duration(-1), waitOf(lines...), "%q", lines)
	}
	require.Equal(t, 9*time.Second, waitOf(`"a`, `b";r=0;t=9`), "a string that a comma has broken in two")
}

// Neither is a field of 64 KiB a long time's work, nor is a longer one read, in
// one line or in many.
func TestALongRateLimitFieldIsNotRead(t *testing.T) {
	for _, item := range []string{`a;r=0;t=9`, `"` + strings.Repeat(`\"`, 200) + `";r=0;t=9`, `a` + strings.Repeat(`;x`, 300) + `;r=0;t=9`} {
		n := maxField / (len(item) + len(", "))
		many := make([]string, n)
		for i := range many {
			many[i] = item
		}
		require.Equal(t, 9*time.Second, waitOf(many...))
		require.Equal(t, 9*time.Second, waitOf(strings.Join(many, ", ")))
		require.Equal(t, time.Duration(-1), waitOf(append(many, many...)...))
		require.Equal(t, time.Duration(-1), waitOf(strings.Join(append(many, many...), ", ")))
	}
}

func TestTheRateLimitFieldIsReadWithoutAllocations(t *testing.T) {
	h := header("Ratelimit", `"burst";r=0;t=2, daily;pk=:cHNk:;x=?1;y=1.5;r=0;t=3600, %"%c3%bc";r=7`)
	require.Zero(t, testing.AllocsPerRun(100, func() { From(h, noon) }))
}

// Draft 10, 7.3: the limits of a response that comes from a cache are those of
// another time.
func TestTheRateLimitFieldOfACachedResponseIsIgnored(t *testing.T) {
	for age, want := range map[string]time.Duration{"0": 9 * time.Second, "00": 9 * time.Second, "1": -1, "86400": -1, "soon": 9 * time.Second, "-1": 9 * time.Second} {
		d, ok := From(map[string][]string{"Ratelimit": {`a;r=0;t=9`}, "Age": {age}}, noon)
		require.Equal(t, want >= 0, ok, age)
		require.Equal(t, max(0, want), d, age)
	}
	d, ok := From(map[string][]string{"Retry-After": {"7"}, "Age": {"1"}}, noon)
	require.True(t, ok, "Retry-After is another matter")
	require.Equal(t, 7*time.Second, d)
}

// The grammar of RFC 9651, Appendix C, as regular expressions.
const (
	sfInteger = `-?[0-9]{1,15}`
	sfDecimal = `-?[0-9]{1,12}\.[0-9]{1,3}`
	sfString  = `"(?:[ !#-\[\]-~]|\\["\\])*"`
	sfToken   = "[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*"
	sfBytes   = `:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?:`
	sfBoolean = `\?[01]`
	sfDate    = `@` + sfInteger
	sfDisplay = `%"(?:[ !#-$&-~]|%[0-9a-f]{2})*"`
	sfBare    = `(?:` + sfDecimal + `|` + sfInteger + `|` + sfString + `|` + sfToken + `|` + sfBytes + `|` + sfBoolean + `|` + sfDate + `|` + sfDisplay + `)`
	sfParam   = `; *([a-z*][a-z0-9_.*-]*)(?:=(` + sfBare + `))?`
	sfItem    = `(` + sfBare + `)((?:` + sfParam + `)*)`
)

var (
	sfList    = regexp.MustCompile(`^ *(?:` + sfItem + `(?:[ \t]*,[ \t]*` + sfItem + `)*[ \t]*)?$`)
	oneItem   = regexp.MustCompile(`^` + sfItem + `[ \t]*(?:,[ \t]*)?`)
	oneParam  = regexp.MustCompile(`^` + sfParam)
	wholeNum  = regexp.MustCompile(`^` + sfInteger + `$`)
	displayed = regexp.MustCompile(sfDisplay)
)

// expected reads a RateLimit field by the grammar.
func expected(value string) time.Duration {
	if !sfList.MatchString(value) {
		return -1
	}
	longest := time.Duration(-1)
	for rest := strings.TrimLeft(value, " "); rest != ""; {
		m := oneItem.FindStringSubmatch(rest)
		rest = rest[len(m[0]):]
		params := map[string]string{}
		bare := []string{m[1]}
		for p := m[2]; p != ""; {
			one := oneParam.FindStringSubmatch(p)
			p = p[len(one[0]):]
			params[one[1]] = one[2]
			bare = append(bare, one[2])
		}
		for _, b := range bare {
			if displayed.FindString(b) == b && b != "" && !utf8.ValidString(percentDecoded(b)) {
				return -1
			}
		}
		r, t := number(params, "r"), number(params, "t")
		_, says := params["t"]
		if r < 0 || says && t < 0 {
			return -1
		}
		if r == 0 && says && t <= 366*24*3600 {
			longest = max(longest, time.Duration(t)*time.Second)
		}
	}
	return longest
}

func number(params map[string]string, name string) int64 {
	n, err := strconv.ParseInt(params[name], 10, 64)
	if err != nil || !wholeNum.MatchString(params[name]) {
		return -1
	}
	return n
}

func percentDecoded(s string) string {
	return regexp.MustCompile(`%[0-9a-f]{2}`).ReplaceAllStringFunc(s, func(hex string) string {
		b, _ := strconv.ParseUint(hex[1:], 16, 8)
		return string([]byte{byte(b)})
	})
}

// A reader of the field agrees with its grammar.
func FuzzRateLimitField(f *testing.F) {
	for item := range maps.Keys(bareItems) {
		f.Add(item + `;r=0;t=30`)
		f.Add(fmt.Sprintf(`"a";r=0;t=30;x=%s, b;r=5`, item))
	}
	f.Fuzz(func(t *testing.T, value string) {
		if len(value) > 1<<10 {
			return
		}
		if got, want := waitOf(value), expected(value); got != want {
			t.Fatalf("%q asks for %v, want %v", value, got, want)
		}
	})
}
