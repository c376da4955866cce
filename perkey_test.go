package backoff_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
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

// A breaker that half-open probes, an operator or a trial holds in its state.
func TestBreakersKeepWhatAClosedCircuitWouldLose(t *testing.T) {
	bubble(t, "under a flood", func(t *testing.T) {
		hosts := backoff.Breakers{MaxKeys: 10}
		halfOpen := hosts.For("half-open")
		halfOpen.Trip()
		time.Sleep(time.Minute)
		require.Equal(t, 1, feed(halfOpen, 1, nil))
		require.Equal(t, backoff.BreakerHalfOpen, halfOpen.State())
		due := hosts.For("due")
		due.Trip()
		time.Sleep(6 * time.Second)
		forced := map[backoff.BreakerMode]*backoff.Breaker{}
		for _, mode := range []backoff.BreakerMode{backoff.ModeObserve, backoff.ModeForcedOpen, backoff.ModeForcedClosed} {
			forced[mode] = hosts.For(mode.String())
			forced[mode].Force(mode)
		}
		strangers(&hosts, 1000)
		require.Same(t, halfOpen, hosts.For("half-open"))
		require.Same(t, due, hosts.For("due"))
		for range 5 {
			time.Sleep(10 * time.Minute)
			strangers(&hosts, 100)
		}
		for mode, b := range forced {
			require.Same(t, b, hosts.For(mode.String()))
		}
		require.NotSame(t, halfOpen, hosts.For("half-open"), "nobody asked for it")
	})
}

// What New does itself, it does again.
func TestBreakersForgetWhatNewForced(t *testing.T) {
	hosts := backoff.Breakers{MaxKeys: 10, New: func(string) *backoff.Breaker {
		b := new(backoff.Breaker)
		b.Force(backoff.ModeObserve)
		return b
	}}
	observing, forced := hosts.For("observing"), hosts.For("forced")
	forced.Force(backoff.ModeForcedOpen)
	strangers(&hosts, 1000)
	require.NotSame(t, observing, hosts.For("observing"))
	require.Same(t, forced, hosts.For("forced"))
}

// An invalid breaker refuses everything, and so would the next one. A function
// New may return nil, for a key without a breaker.
func TestBreakersForgetTheInvalidAndTheAbsent(t *testing.T) {
	hosts := backoff.Breakers{MaxKeys: 10, New: func(key string) *backoff.Breaker {
		if key == "absent" {
			return nil
		}
		return &backoff.Breaker{MinCalls: 1, FailureRate: 2}
	}}
	require.Nil(t, hosts.For("absent"))
	invalid := hosts.For("invalid")
	require.Zero(t, feed(invalid, 1, nil))
	strangers(&hosts, 1000)
	require.NotSame(t, invalid, hosts.For("invalid"))
	require.Len(t, maps.Collect(hosts.All()), 10)
}

// strangers asks for n keys, once each.
func strangers(hosts *backoff.Breakers, n int) {
	for range n {
		hosts.For(fmt.Sprint("stranger ", rand.Uint64()))
	}
}

// Of 900 shards, the one that was dead used to be called every time.
func TestBreakersLeaveTheDeadOneOfManyShardsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shards backoff.Breakers
		dead := 0
		for range 200 {
			for shard := range 900 {
				b := shards.For(strconv.Itoa(shard))
				if shard == 17 {
					dead += feed(b, 1, errOutage)
				}
			}
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, dead, 20, "5 failures, and a probe after some 5, 6, 7.2 seconds and so on")
		shards.For("17").Reset() // ends its timer
	})
}

// An untrusted client chooses the host names.
func TestBreakersDoNotGrowByAStrangersKeys(t *testing.T) {
	for _, trip := range []bool{false, true} {
		bubble(t, fmt.Sprint(trip), func(t *testing.T) {
			hosts := backoff.Breakers{MaxKeys: 100}
			victim, healthy := hosts.For("victim"), hosts.For("healthy")
			victim.Trip()
			require.Same(t, healthy, hosts.For("healthy"))
			for n := range 10_000 {
				b := hosts.For(fmt.Sprint(n))
				if trip {
					b.Trip()
				}
				if n%10 == 0 {
					require.Same(t, victim, hosts.For("victim"), "it is in use")
				}
			}
			require.Same(t, healthy, hosts.For("healthy"), "it was asked for twice, and they once")
			require.LessOrEqual(t, len(maps.Collect(hosts.All())), 201)
			require.GreaterOrEqual(t, hosts.Evictions(), uint64(10_000-200))
		})
	}
}

func TestBreakersWithoutAPlaceAreOne(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		hosts := backoff.Breakers{MaxKeys: 10}
		for n := range 20 {
			hosts.For(fmt.Sprint(n)).Trip()
		}
		require.Zero(t, hosts.Evictions())
		other := hosts.For("20")
		require.Equal(t, "(other)", other.Name)
		require.Same(t, other, hosts.For("21"))
		require.Same(t, other, maps.Collect(hosts.All())["(other)"])
		require.EqualValues(t, 2, hosts.Evictions())
		require.Equal(t, backoff.BreakerOpen, hosts.For("0").State())
		time.Sleep(time.Hour)
		hosts.For("21")
		time.Sleep(time.Hour)
		require.Equal(t, "20", hosts.For("20").Name, "their time is over, and nobody asked")
	})
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

func TestAllBudgetsAreThereUnderTheirKeys(t *testing.T) {
	budgets := backoff.Budgets{MaxKeys: 2}
	made := map[string]backoff.Budget{"a": budgets.For("a"), "b": budgets.For("b")}
	require.Equal(t, made, maps.Collect(budgets.All()))
	budgets.For("c")
	for key, b := range budgets.All() {
		require.Same(t, budgets.For(key), b)
		break // which a loop may do
	}
	require.Empty(t, maps.Collect(new(backoff.Budgets).All()), "of none")
}
