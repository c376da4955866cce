package backoff_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func TestBreakersKeepOnePerKey(t *testing.T) {
	var hosts backoff.Breakers
	require.Same(t, hosts.For("a"), hosts.For("a"))
	require.NotSame(t, hosts.For("a"), hosts.For("b"))
	require.Equal(t, "a", hosts.For("a").Name)
	hosts.For("a").Trip()
	require.Equal(t, 1, feed(hosts.For("b"), 1, nil))
	require.Zero(t, feed(hosts.For("a"), 1, nil))
	hosts.For("a").Reset()
}

func TestBreakersAreMadeByTheUsersFunction(t *testing.T) {
	hosts := backoff.Breakers{New: func(host string) *backoff.Breaker { return &backoff.Breaker{Name: "host " + host} }}
	require.Equal(t, "host a", hosts.For("a").Name)
}

func TestBreakersListTheirKeys(t *testing.T) {
	var hosts backoff.Breakers
	require.Empty(t, maps.Collect(hosts.All()))
	b := hosts.For("b")
	hosts.For("a")
	all := maps.Collect(hosts.All())
	require.Equal(t, []string{"a", "b"}, slices.Sorted(maps.Keys(all)))
	require.Same(t, b, all["b"])
}

func TestBreakersForgetIdleKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hosts backoff.Breakers
		idle, used := hosts.For("idle"), hosts.For("used")
		for range 4 {
			time.Sleep(9 * time.Minute)
			require.Same(t, used, hosts.For("used"))
			hosts.For(time.Now().String())
		}
		require.NotSame(t, idle, hosts.For("idle"))
	})
}

func TestBreakersDoNotForgetAnOpenCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := backoff.Breakers{New: func(string) *backoff.Breaker {
			return &backoff.Breaker{OpenFor: backoff.Constant(24 * time.Hour), Jitter: backoff.NoJitter}
		}}
		down, forced := hosts.For("down"), hosts.For("forced")
		down.Trip()
		forced.Force(backoff.ModeForcedOpen)
		for n := range 24 * 6 {
			time.Sleep(10 * time.Minute)
			hosts.For(fmt.Sprint(n))
			hosts.For(fmt.Sprint("again ", n))
		}
		require.Same(t, forced, hosts.For("forced"))
		for n := range 3 { // its time is over, and nobody asked
			time.Sleep(10 * time.Minute)
			hosts.For(fmt.Sprint("and again ", n))
		}
		require.NotSame(t, down, hosts.For("down"))
	})
}

// Contract row 62, seen from a stranger who chooses the host names.
func TestBreakersDoNotGrowByAStrangersKeys(t *testing.T) {
	for _, trip := range []bool{false, true} {
		bubble(t, fmt.Sprint(trip), func(t *testing.T) {
			hosts := backoff.Breakers{MaxKeys: 100}
			victim := hosts.For("victim")
			victim.Trip()
			for n := range 10_000 {
				b := hosts.For(fmt.Sprint(n))
				if trip {
					b.Trip()
				}
				if n%10 == 0 {
					require.Same(t, victim, hosts.For("victim"), "it is in use")
				}
			}
			require.LessOrEqual(t, len(maps.Collect(hosts.All())), 300)
		})
	}
}

func TestBreakersOutliveTheirKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := backoff.Breakers{MaxKeys: 2}
		b := hosts.For("a")
		done, err := b.Allow()
		require.NoError(t, err)
		for n := range 10 {
			hosts.For(fmt.Sprint(n))
		}
		require.NotSame(t, b, hosts.For("a"))
		done(errOutage)
		require.EqualValues(t, 1, b.Stats().Failures)
		require.Zero(t, hosts.For("a").Stats().Failures)
	})
}

func TestBreakersWithoutLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := backoff.Breakers{MaxKeys: -1, Idle: -1}
		first := hosts.For("first")
		for n := range 5000 {
			hosts.For(fmt.Sprint(n))
		}
		time.Sleep(1000 * time.Hour)
		hosts.For("last")
		require.Same(t, first, hosts.For("first"))
	})
}

func TestBreakersLookUpWithoutAllocation(t *testing.T) {
	var hosts backoff.Breakers
	hosts.For("a")
	ctx := context.Background()
	calls := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = hosts.For("a").Do(ctx, func(context.Context) error { calls++; return nil })
	}))
}
