package guard_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/nightly"
)

func breakerOf(s *guard.Service) *backoff.Breaker { _, b := s.Parts(); return b }

func budgetOf(s *guard.Service) backoff.Budget { b, _ := s.Parts(); return b }

// keys returns the keys that are kept, in order.
func keys(s *guard.Services) []string { return slices.Sorted(maps.Keys(maps.Collect(s.All()))) }

// strangers asks for n keys, once each.
func strangers(s *guard.Services, n int) {
	for range n {
		s.For(fmt.Sprint("stranger ", rand.Uint64()))
	}
}

func TestServicesKeepOnePerKey(t *testing.T) {
	var hosts guard.Services
	require.Empty(t, keys(&hosts))
	b := hosts.For("b")
	require.Same(t, b, hosts.For("b"))
	require.NotSame(t, b, hosts.For("a"))
	require.Equal(t, "b", b.Name)
	require.Equal(t, "b", breakerOf(b).Name)
	require.Equal(t, []string{"a", "b"}, keys(&hosts))
	for key, s := range hosts.All() {
		require.Equal(t, "b", key, "the oldest first")
		require.Same(t, b, s)
		break // which a loop may do
	}
	breakerOf(b).Trip()
	defer breakerOf(b).Reset()
	require.ErrorIs(t, b.Do(guard.WithFailFast(t.Context()), once, okay), backoff.ErrOpen)
	require.NoError(t, hosts.For("a").Do(t.Context(), once, okay))

	hosts = guard.Services{New: func(host string) *guard.Service { return &guard.Service{Name: "host " + host} }}
	require.Equal(t, "host a", hosts.For("a").Name)
}

// An untrusted client chooses the host names.
func TestServicesDoNotGrowByAStrangersKeys(t *testing.T) {
	for _, trip := range []bool{false, true} {
		bubble(t, fmt.Sprint(trip), func(t *testing.T) {
			hosts := guard.Services{MaxKeys: 100}
			victim, healthy := hosts.For("victim"), hosts.For("healthy")
			breakerOf(victim).Trip()
			require.Same(t, healthy, hosts.For("healthy"))
			for n := range 10_000 {
				s := hosts.For(fmt.Sprint(n))
				if trip {
					breakerOf(s).Trip()
				}
				if n%10 == 0 {
					require.Same(t, victim, hosts.For("victim"), "it is in use")
				}
			}
			require.Same(t, healthy, hosts.For("healthy"), "it was asked for twice, and they once")
			require.LessOrEqual(t, len(keys(&hosts)), 201)
			require.GreaterOrEqual(t, hosts.Evictions(), uint64(10_000-200))
		})
	}
}

// A breaker that is open, that half-open probes, or that an operator or a trial
// holds in its state.
func TestServicesKeepWhatAClosedCircuitWouldLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := guard.Services{MaxKeys: 10, New: func(key string) *guard.Service {
			return &guard.Service{Name: key, Breaker: &backoff.Breaker{Name: key}}
		}}
		halfOpen, due := hosts.For("half-open"), hosts.For("due")
		breakerOf(halfOpen).Trip()
		time.Sleep(time.Minute)
		require.NoError(t, halfOpen.Do(t.Context(), once, okay))
		require.Equal(t, backoff.BreakerHalfOpen, breakerOf(halfOpen).State())
		breakerOf(due).Trip()
		time.Sleep(6 * time.Second)
		forced := map[backoff.BreakerMode]*guard.Service{}
		for _, mode := range []backoff.BreakerMode{backoff.ModeObserve, backoff.ModeForcedOpen, backoff.ModeForcedClosed} {
			forced[mode] = hosts.For(mode.String())
			breakerOf(forced[mode]).Force(mode)
		}
		strangers(&hosts, 1000)
		require.Same(t, halfOpen, hosts.For("half-open"))
		require.Same(t, due, hosts.For("due"))
		for range 5 {
			time.Sleep(10 * time.Minute)
			strangers(&hosts, 100)
		}
		for mode, s := range forced {
			require.Same(t, s, hosts.For(mode.String()))
		}
		require.NotSame(t, halfOpen, hosts.For("half-open"), "nobody asked for it")
	})
}

func TestAServiceForWhichCallsWaitIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := guard.Services{MaxKeys: 10, New: func(string) *guard.Service { return under(opensFor(5 * time.Hour)) }}
		down := hosts.For("down")
		breakerOf(down).Trip()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			require.Error(t, down.Do(deadline(ctx, 24*time.Hour), once, okay))
		})
		synctest.Wait()
		for range 5 {
			strangers(&hosts, 100)
			time.Sleep(10 * time.Minute)
		}
		require.Equal(t, 1, down.State().Waiting)
		require.Same(t, down, maps.Collect(hosts.All())["down"])
		cancel()
		wg.Wait()
		breakerOf(down).Reset()
		for range 5 {
			strangers(&hosts, 100)
			time.Sleep(10 * time.Minute)
		}
		require.NotContains(t, keys(&hosts), "down")
	})
}

// What New does itself, it does again. An invalid breaker refuses everything, and
// so would the next one. A function New may return nil, for a key without a Service.
func TestServicesForgetWhatNewMakesAgain(t *testing.T) {
	hosts := guard.Services{MaxKeys: 10, New: func(key string) *guard.Service {
		switch key {
		case "absent", "a#absent":
			return nil
		case "invalid":
			return &guard.Service{Breaker: &backoff.Breaker{MinCalls: 1, FailureRate: 2}}
		case "observing", "forced":
			b := new(backoff.Breaker)
			b.Force(backoff.ModeObserve)
			return &guard.Service{Breaker: b}
		}
		return new(guard.Service)
	}}
	require.Nil(t, hosts.For("absent"))
	require.ErrorContains(t, hosts.For("absent").Do(t.Context(), once, okay), "backoff: guard.Service is nil")
	require.Nil(t, hosts.For("a").Tenant("absent"))
	observing, forced, invalid := hosts.For("observing"), hosts.For("forced"), hosts.For("invalid")
	require.ErrorContains(t, invalid.Do(t.Context(), once, okay), "Breaker.FailureRate")
	require.NoError(t, observing.Do(t.Context(), once, okay))
	breakerOf(forced).Force(backoff.ModeForcedOpen)
	strangers(&hosts, 1000)
	require.NotSame(t, invalid, hosts.For("invalid"))
	require.NotSame(t, observing, hosts.For("observing"))
	require.Same(t, forced, hosts.For("forced"))
}

func TestKeysWithoutAPlaceShareOneService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := guard.Services{MaxKeys: 10}
		for n := range 20 {
			breakerOf(hosts.For(fmt.Sprint(n))).Trip()
		}
		require.Zero(t, hosts.Evictions())
		other := hosts.For("20")
		require.Equal(t, "(other)", other.Name)
		require.Same(t, other, hosts.For("21"))
		require.Same(t, other, maps.Collect(hosts.All())["(other)"])
		require.EqualValues(t, 2, hosts.Evictions())
		require.Equal(t, backoff.BreakerOpen, breakerOf(hosts.For("0")).State())
		require.NotSame(t, other, hosts.For("0").Tenant("a"), "tenants have places of their own")
		require.NotSame(t, breakerOf(hosts.For("0")), breakerOf(other), "which others have, too")
		time.Sleep(time.Hour)
		hosts.For("21")
		time.Sleep(time.Hour)
		require.Equal(t, "20", hosts.For("20").Name, "their time is over, and nobody asked")
	})
}

func TestAServiceOutlivesItsKey(t *testing.T) {
	hosts := guard.Services{MaxKeys: 2}
	s := hosts.For("a")
	require.NoError(t, s.Do(t.Context(), once, func(context.Context) error {
		strangers(&hosts, 10)
		return nil
	}))
	require.NotSame(t, s, hosts.For("a"))
	require.EqualValues(t, 1, s.State().Breaker.Successes)
	require.Zero(t, hosts.For("a").State().Breaker.Successes)
}

func TestOfALongKeyAPartIsKept(t *testing.T) {
	var hosts guard.Services
	long := strings.Repeat("x", 1<<20)
	require.Same(t, hosts.For(long+"a"), hosts.For(long+"a"))
	require.NotSame(t, hosts.For(long+"a"), hosts.For(long+"b"))
	require.LessOrEqual(t, len(keys(&hosts)[0]), 4096)
}

func TestServicesLookUpWithoutAllocation(t *testing.T) {
	var hosts guard.Services
	hosts.For("a")
	require.Zero(t, testing.AllocsPerRun(100, func() { hosts.For("a") }))
}

// retries has a budget pay as many retries as it will, and returns how many.
func retries(t *testing.T, s *guard.Service) (n int) {
	_ = s.Do(t.Context(), backoff.Policy{Schedule: backoff.Constant(0), MaxAttempts: 10}, func(context.Context) error {
		n++
		return errDown
	})
	return n - 1
}

// A flood of new keys is not multiplied.
func TestALateKeyEarnsItsRetries(t *testing.T) {
	for name, budget := range map[string]func() backoff.Budget{
		"a pacer":      func() backoff.Budget { return nil },
		"RetryBudget":  func() backoff.Budget { return new(backoff.RetryBudget) },
		"some of them": func() backoff.Budget { return backoff.JoinBudgets(new(backoff.RetryBudget), new(backoff.RetryBudget)) },
	} {
		hosts := guard.Services{MaxKeys: 1, New: func(string) *guard.Service {
			return &guard.Service{Budget: budget(), NoBreaker: true, FailFast: true}
		}}
		require.Equal(t, 9, retries(t, hosts.For("early")), name)
		late := hosts.For("late")
		for range 3 {
			require.Zero(t, retries(t, late), name)
			require.NoError(t, late.Do(t.Context(), once, okay))
		}
		require.Positive(t, retries(t, late), name)
	}
}

func TestAnOutageOfManyKeysIsNotAmplifiedByThoseWithoutAPlace(t *testing.T) {
	nightly.Long(t)
	synctest.Test(t, func(t *testing.T) {
		const rounds, keys = 20, 3000
		shards, attempts := guard.Services{New: func(string) *guard.Service {
			return &guard.Service{Budget: new(backoff.RetryBudget), NoBreaker: true}
		}}, 0
		for range rounds {
			for key := range keys {
				_ = shards.For(strconv.Itoa(key)).Do(t.Context(), backoff.Policy{Schedule: backoff.Constant(0), MaxAttempts: 3},
					func(context.Context) error { attempts++; return errDown })
			}
			time.Sleep(time.Second)
		}
		require.Equal(t, rounds*keys+2*1024, attempts, "the first call of the first keys, and none after that")
	})
}

// Tenants.

func TestATenantHasABudgetAndALineOfItsOwnAndTheBreakerOfItsService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := guard.Services{New: func(key string) *guard.Service { return &guard.Service{Name: key} }}
		for name, s := range map[string]*guard.Service{"in Services": hosts.For("host"), "alone": {Name: "host"}} {
			t1, t2 := s.Tenant("1"), s.Tenant("2")
			require.Same(t, t1, s.Tenant("1"), name)
			require.Equal(t, "host#1", t1.Name, name)
			require.NotSame(t, budgetOf(t1), budgetOf(t2), name)
			require.NotSame(t, budgetOf(t1), budgetOf(s), name)
			require.Same(t, breakerOf(s), breakerOf(t1), name)
			require.Same(t, breakerOf(s), breakerOf(t2), name)

			breakerOf(t1).Trip()
			require.Equal(t, backoff.BreakerOpen, s.State().Breaker.State, name)
			var all sync.WaitGroup
			all.Go(func() { require.NoError(t, doWithin(t, t1.With(once), time.Minute, okay)) })
			synctest.Wait()
			require.Equal(t, []int{1, 0, 0}, []int{t1.State().Waiting, t2.State().Waiting, s.State().Waiting}, name)
			all.Wait()
		}
		require.Equal(t, []string{"host", "host#1", "host#2"}, keys(&hosts))
	})
}

// A tenant of a Service that stands alone has its settings.
func TestATenantIsAsItsService(t *testing.T) {
	s := &guard.Service{Name: "host", NoBudget: true, NoBreaker: true, FailFast: true, MaxWaiting: 7}
	tenant := s.Tenant("a")
	require.True(t, tenant.FailFast)
	require.Equal(t, 7, tenant.MaxWaiting)
	budget, breaker := tenant.Parts()
	require.Nil(t, budget)
	require.Nil(t, breaker)
}

func TestATenantKeepsTheBreakerOfItsServiceThatWasForgotten(t *testing.T) {
	hosts := guard.Services{MaxKeys: 2}
	old := hosts.For("host")
	tenant := old.Tenant("a")
	strangers(&hosts, 10)
	require.NotContains(t, keys(&hosts), "host")
	require.Same(t, breakerOf(old), breakerOf(tenant))
	require.Same(t, breakerOf(old), breakerOf(old.Tenant("a")), "for who holds it")

	now := hosts.For("host")
	require.NotSame(t, old, now)
	require.Same(t, breakerOf(now), breakerOf(now.Tenant("a")))
}

// A tenant whose calls wait would hold the probe of a circuit while they do.
func TestATenantThatWaitsLeavesTheProbeToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &guard.Service{Name: "host", Breaker: &backoff.Breaker{OpenFor: backoff.Constant(time.Second)}}
		throttled, other := s.Tenant("throttled"), s.Tenant("other")
		require.Error(t, throttled.Do(t.Context(), once, func(context.Context) error { return errTooMany }))
		var wg sync.WaitGroup
		for range 90 {
			wg.Go(func() { require.NoError(t, throttled.Do(t.Context(), once, okay)) })
		}
		synctest.Wait()
		require.Positive(t, throttled.State().Waiting)
		breakerOf(s).Trip()
		time.Sleep(2 * time.Second)
		require.Equal(t, backoff.BreakerHalfOpen, s.State().Breaker.State)
		err := throttled.Do(t.Context(), once, okay)
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.ErrorContains(t, err, "circuit half-open: calls of this tenant wait for their turn")
		for range 2 {
			require.NoError(t, other.Do(t.Context(), once, okay))
		}
		require.Equal(t, backoff.BreakerClosed, s.State().Breaker.State)
		wg.Wait()
	})
}

func TestAnOpenCircuitRefusesTenantsWithoutAPlaceToo(t *testing.T) {
	s := guard.Service{Name: "db"}
	breakerOf(&s).Trip()
	for i := range 3000 {
		err := s.Tenant(fmt.Sprint(i)).Do(guard.WithFailFast(t.Context()), backoff.Policy{}, func(context.Context) error { panic("called") })
		require.ErrorIs(t, err, backoff.ErrOpen)
	}
}

func TestATenantIsNotAnotherKey(t *testing.T) {
	var all guard.Services
	breakerOf(all.For("a")).Trip()
	require.NotSame(t, all.For("a#b"), all.For("a").Tenant("b"))
	require.Equal(t, backoff.BreakerClosed, breakerOf(all.For("a#b")).State())
	require.NotSame(t, all.For("a#b").Tenant("c"), all.For("a").Tenant("b#c"))
}
