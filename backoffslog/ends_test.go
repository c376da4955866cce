package backoffslog

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An upstream chooses the texts of errors. However a text is made, no byte is
// read more than a few times to find where things end, and so a text of ten
// times the length takes ten times as long.
func TestRedactReadsEachByteAFewTimes(t *testing.T) {
	for _, piece := range []string{
		"://", "a://", `"://`, "'a://", "a://?", "a://b?c=d&", "x://a@", "key=", "key='", `key="`, `key=\"`, "key=\\", "cookie:", "cookie:\n",
		"password: ", "key = ", "a=", "bearer ", "bearer", "invalid port ", "invalid port \"", "ann:b@", "eyJ.", "=", ":", "a", " ", "\\", "\"", "(", "]",
		"-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----a-----END", "https://a/?b='https://c:d@e/?f=g h'",
	} {
		steps := func(n int) int {
			r := newRedactor(strings.Repeat(piece, n))
			r.hideAll()
			return r.steps
		}
		require.LessOrEqual(t, steps(1000), 6*1000*len(piece)+10, piece)
		require.LessOrEqual(t, steps(10_000), 11*steps(1000), piece)
	}
}

// A place that is remembered is the one that would be found.
func TestEndsAreThoseThatTheTextHas(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const pieces = "a\\\" '?#\n`"
	for range 2000 {
		text := "x"
		for range 30 {
			text += string(pieces[random.IntN(len(pieces))])
		}
		e := newEnds(text)
		for range 50 {
			place, from := random.IntN(places), 1+random.IntN(len(text))
			if text[from-1] == '\\' {
				continue // the middle of an escape
			}
			require.Equal(t, e.scan(place, from), e.find(place, from), "%q: %d from %d", text, place, from)
		}
	}
}
