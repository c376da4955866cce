package control

import (
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// The timers of a machine that is suspended stand still, and its clock does not.
func TestAnOverrideWhoseTimeWasOverDuringASuspensionEndsWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Panel
		h := p.Policy(backoff.Policy{Name: "search"})
		target := Target{What: Retries, Name: "search"}
		require.NoError(t, p.Set(t.Context(), Override{Target: target, To: Off, Who: "ada", Why: "drill", For: 10 * time.Hour}))
		time.Sleep(30 * time.Second)
		p.mu.Lock()
		p.overrides[target].Until = time.Now().Round(0) // eight hours too soon for the timer
		p.mu.Unlock()
		require.Equal(t, 1, h.Policy().MaxAttempts)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Zero(t, h.Policy().MaxAttempts)
		require.Empty(t, p.Overrides())
	})
}

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
