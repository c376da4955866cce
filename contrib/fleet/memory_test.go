package fleet_test

import (
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

func TestARecordLingersForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m fleet.Memory
		trip(t, &m, 10*time.Second)
		time.Sleep(10*time.Second + fleet.Linger - time.Nanosecond)
		require.Equal(t, backoff.BreakerHalfOpen, known(t, &m).State())
		time.Sleep(time.Nanosecond)
		require.Zero(t, known(t, &m))
	})
}

func TestMemoryForgetsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m fleet.Memory
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 50_000 {
			key := strconv.Itoa(i)
			_, err := m.Trip(t.Context(), key, fleet.Trip{By: "a", Voter: "a", Open: time.Second, Quorum: 2})
			require.NoError(t, err)
			_, err = m.Take(t.Context(), key, fleet.Claim{Block: "a", Tokens: 1, Allowance: 1, Window: time.Second})
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2<<20))
		runtime.KeepAlive(&m)
	})
}

func TestMemoryForgetsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m fleet.Memory
		trip(t, &m, time.Hour)
		claim := fleet.Claim{Block: "a", Tokens: 1, Allowance: 1, Window: time.Hour}
		granted, err := m.Take(t.Context(), "db", claim)
		require.NoError(t, err)
		require.Equal(t, 1, granted)
		claim.Block = "b"
		for i := range 1000 {
			_, err := m.Trip(t.Context(), strconv.Itoa(i), fleet.Trip{By: "a", Voter: "a", Open: time.Second, Quorum: 2})
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		require.Equal(t, backoff.BreakerOpen, known(t, &m).State())
		granted, err = m.Take(t.Context(), "db", claim)
		require.NoError(t, err)
		require.Zero(t, granted)
	})
}

func TestALeaseThatIsOverGivesNoRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m fleet.Memory
		trip(t, &m, time.Second)
		time.Sleep(time.Second)
		was, err := m.Lease(t.Context(), "db", "x", time.Second)
		require.NoError(t, err)
		require.True(t, was.Mine)
		time.Sleep(time.Second)
		c, err := m.Reset(t.Context(), "db", "x", was.Generation)
		require.NoError(t, err)
		require.Equal(t, backoff.BreakerHalfOpen, c.State())
		require.False(t, c.Mine)
		c, err = m.Trip(t.Context(), "db", fleet.Trip{By: "x", Voter: "x", Seen: was.Generation, Open: time.Second, Quorum: 2})
		require.NoError(t, err)
		require.Equal(t, backoff.BreakerHalfOpen, c.State(), "it is one vote of two")
	})
}

func TestAProbeWaitsNoLongerThanWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: new(fleet.Memory)}
		b := breaker(&fleet.Client{Store: store, Wait: 20 * time.Millisecond, Timeout: time.Second})
		call(t, b, 3, errDown)
		synctest.Wait()
		store.Cut()
		time.Sleep(5 * time.Second)
		began := time.Now()
		require.Equal(t, 1, call(t, b, 1, nil))
		require.Equal(t, 20*time.Millisecond, time.Since(began))
		time.Sleep(time.Minute) // for the store's call to end
	})
}
