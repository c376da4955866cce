package idempotency

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/limits"
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

func TestAKeyOfMegabytesIsRefusedWithoutACopyOfIt(t *testing.T) {
	_, err := keyOf(http.Header{headerKey: {`"` + strings.Repeat(`\\`, 255) + `"`}}, 255)
	require.NoError(t, err, "as long as a key may be, with each character escaped")
	header := http.Header{headerKey: {`"` + strings.Repeat("k", 10<<20) + `"`}}
	require.Zero(t, testing.AllocsPerRun(1, func() { _, err = keyOf(header, 255) }))
	require.ErrorIs(t, err, ErrKeyInvalid)
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

// The hashes are in stores, and derived keys are at other services. A release
// that computed them in another way would carry out a second time what was
// carried out before.
func TestHashesThatAreKeptArePromised(t *testing.T) {
	require.Equal(t, "7b55cd93bbf8afb777948cf8990918e48cfb9998d2d1c76848ad08c38bab5378", digest("caller", "key"))
	r := httptest.NewRequest("POST", "/charges?dry=1", nil)
	require.Equal(t, "bccfc1b57eed6abca533709db22e779a0ae206cc5d7f73a483553a9541661df3", digest(string(fingerprint(r, []byte("{}")))))
	require.Equal(t, "c96950ec3b28715ca2dc0ef33d6227657b55cd93bbf8afb777948cf8990918e4", storeKey("caller", "key"))
	ctx := context.WithValue(t.Context(), claimKey{}, Claim{Key: digest("caller", "key")})
	require.Equal(t, "9f1d6d1a64d18a06ebddb2784c4f30fc", DeriveKey(ctx, "charge"))
}

// CheckBooks fails t if what the store counts is not what it has.
func (s *MemoryStore) CheckBooks(t *testing.T) {
	var bytes int64
	keys := make(map[*share]int)
	sizes := make(map[*share]int64)
	bodies := make(map[*share]int)
	for key, m := range s.keys {
		require.Equal(t, callerOf(key), m.owner.caller)
		bytes += m.record.size()
		keys[m.owner]++
		sizes[m.owner] += m.record.size()
		if m.body != nil {
			bodies[m.owner]++
		}
	}
	require.Equal(t, bytes, s.bytes)
	require.LessOrEqual(t, bytes, limits.Or(s.MaxBytes, defaultMaxBytes))
	require.Equal(t, len(s.keys), s.order.Len()+s.refusals.Len())
	require.Len(t, s.shares, len(keys))
	for i, r := range s.ranks {
		require.Len(t, r.shares, len(keys))
		for at, owner := range r.shares {
			require.Equal(t, at, owner.places[i])
			require.Same(t, owner, s.shares[owner.caller])
			require.LessOrEqual(t, owner.size(i), r.shares[(at-1)/2].size(i))
			require.Equal(t, keys[owner], owner.keys.Len())
			require.Equal(t, bodies[owner], owner.bodies.Len())
			require.Equal(t, sizes[owner], owner.bytes)
		}
	}
}
