package idempotency

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every key that is accepted is printable, and is the same key in the draft's
// form.
func FuzzKeyOf(f *testing.F) {
	for _, seed := range []string{`abc`, `"abc"`, `"a\"b"`, `"a\\"`, `"`, `"\`, "\x00", ` a `, `"a";v=1`, `a,b`, "ü"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := keyOf(http.Header{headerKey: {value}}, 255)
		if err != nil {
			require.ErrorIs(t, err, ErrKeyInvalid)
			require.Empty(t, key)
			return
		}
		require.NotEmpty(t, key)
		require.LessOrEqual(t, len(key), 255)
		for i := range len(key) {
			require.True(t, key[i] >= ' ' && key[i] < 0x7f)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		again, err := keyOf(http.Header{headerKey: {quoted}}, 255)
		require.NoError(t, err)
		require.Equal(t, key, again)
	})
}

func TestDigestTellsListsApart(t *testing.T) {
	seen := make(map[string][]string)
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"ab", ""}, {"", "ab"}, {"a", "", "b"}} {
		sum := digest(parts...)
		require.Len(t, sum, 64)
		require.NotContains(t, seen, sum)
		seen[sum] = parts
	}
}
