package control

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// Untrusted clients may choose the keys.
func TestBreakersOfForgottenKeysAreForgotten(t *testing.T) {
	var g group
	most := 0
	for i := range 10_000 {
		g.add(strconv.Itoa(i), new(backoff.Breaker))
		if i%100 == 99 {
			runtime.GC()
		}
		most = max(most, len(g.members))
	}
	require.Less(t, most, 1000)
}
