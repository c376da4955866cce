package idempotency

import (
	"testing"

	"github.com/gobackoff/backoff/internal/limits"
	"github.com/stretchr/testify/require"
)

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
