package window

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// takeAll takes all grants that are left at that time.
func takeAll(g *Grants, place Place, now time.Time) (taken []Grant) {
	for {
		one, ok := g.Take(place, now)
		if !ok {
			return taken
		}
		taken = append(taken, one)
	}
}

func TestGrantsAreTakenUntilTheWindowSlidesOn(t *testing.T) {
	var g Grants
	_, ok := g.Take(0, dawn)
	require.False(t, ok, "none was given")

	g.Start(dawn)
	g.Advance(dawn.Add(1500*time.Millisecond), span, 0)
	g.Give(0, 10, span)
	for _, at := range []time.Duration{-time.Hour, 0, 999 * time.Millisecond, 2 * time.Second, time.Hour, 1 << 62, -1 << 62} {
		_, ok := g.Take(0, dawn.Add(at))
		require.False(t, ok, "at %v", at)
	}
	for _, at := range []time.Duration{time.Second, 1500 * time.Millisecond, 2*time.Second - 1} {
		_, ok := g.Take(0, dawn.Add(at))
		require.True(t, ok, "at %v", at)
	}
	require.EqualValues(t, 10, g.Least(Bad), "all count as long as they may be taken")
	require.Len(t, takeAll(&g, 0, dawn.Add(time.Second)), 6)

	g.Advance(dawn.Add(1600*time.Millisecond), span, 0)
	g.Give(0, 5, span)
	g.Advance(dawn.Add(2*time.Second), span, 0)
	require.EqualValues(t, 11, g.Least(Bad), "those that nobody took count no more")
	require.Empty(t, takeAll(&g, 0, dawn.Add(2*time.Second)), "nor are they there")
}

func TestGrantsGoOnWhereTheClockGoesBack(t *testing.T) {
	var g Grants
	g.Advance(dawn, span, 0)
	g.Give(0, 2, span)
	back := dawn.Add(-time.Hour)
	require.Empty(t, takeAll(&g, 0, back))
	g.Advance(back, span, 0)
	g.Give(0, 3, span)
	require.Len(t, takeAll(&g, 0, back), 2)
	require.EqualValues(t, 4, g.Least(Bad))
	require.Empty(t, takeAll(&g, 0, dawn))
}

func TestGrantIsDoneOnceAndGivenBackWhereItWasCounted(t *testing.T) {
	var g Grants
	g.Advance(dawn, span, 0)
	early := g.Give(0, 2, span)
	second, ok := g.Take(0, dawn)
	require.True(t, ok)
	g.Advance(dawn.Add(5*time.Second), span, 0)
	late := g.Give(0, 1, span)
	spare := g.Spare()
	require.EqualValues(t, 3, g.Least(Bad), "a spare one is counted apart")
	require.EqualValues(t, 1, g.Least(Other))

	for _, one := range []Grant{early, second, late, spare | Led} {
		first, known := g.Done(one)
		require.True(t, first && known)
		first, known = g.Done(one)
		require.True(t, known)
		require.False(t, first)
	}
	g.GiveBack(early)
	require.EqualValues(t, 2, g.Least(Bad))
	require.EqualValues(t, 1, g.Least(Other))
	g.GiveBack(spare | Led)
	require.EqualValues(t, 2, g.Least(Bad))
	require.Zero(t, g.Least(Other))
	g.Advance(dawn.Add(10*time.Second), span, 0)
	require.EqualValues(t, 1, g.Least(Bad), "the late one")
	g.Advance(dawn.Add(time.Hour), span, 0)
	g.GiveBack(late)
	require.Zero(t, g.Most(Bad))
}

// TestGrantsAreKnownForAWhile compares with a list of the grants that are done,
// beyond the point where the numbers begin again.
func TestGrantsAreKnownForAWhile(t *testing.T) {
	var g Grants
	g.single.word.Store(1<<31 - 3000)
	random := rand.New(rand.NewPCG(1, 2))
	var all []Grant
	done := map[Grant]bool{}
	for range 200 {
		g.Advance(dawn, span, 0)
		all = append(all, g.Give(0, 1+random.Uint64N(maxGrants), span))
		for range random.IntN(100) {
			if one, ok := g.Take(0, dawn); ok {
				all = append(all, one)
			}
		}
		for range 50 {
			one := all[len(all)-1-random.IntN(min(len(all), knownGrants))]
			first, known := g.Done(one)
			require.True(t, known)
			require.Equal(t, !done[one], first)
			done[one] = true
		}
		if old := len(all) - 1 - knownGrants; old >= 0 {
			_, known := g.Done(all[old])
			require.False(t, known)
		}
	}
	require.Greater(t, len(all), 5000, "beyond the end of the numbers")
}

// A goroutine that finds no grant asks for more. All grants that were given are
// taken, or are left at the end.
func TestGrantsAreNotOverdrawnByMany(t *testing.T) {
	for _, apart := range []bool{false, true} {
		var g Grants
		if apart {
			g.part(0)
		}
		var mu sync.Mutex
		var clock, taken, looks atomic.Int64
		look := func(place Place, now time.Time) Grant {
			mu.Lock()
			defer mu.Unlock()
			looks.Add(1)
			g.Advance(now, time.Hour, 0)
			return g.Give(place, 500, time.Hour)
		}
		var group sync.WaitGroup
		var all [8][]Grant
		for mine := range all {
			group.Go(func() {
				for i := range 5000 {
					now := dawn.Add(time.Duration(clock.Add(1)))
					place := g.Place()
					one, ok := g.Take(place, now)
					if !ok {
						one = look(place, now)
					}
					taken.Add(1)
					all[mine] = append(all[mine], one)
					if i%50 == 0 {
						runtime.Gosched()
					}
				}
			})
		}
		group.Wait()
		each := slices.Concat(all[:]...)
		slices.Sort(each)
		require.Len(t, slices.Compact(each), 40_000, "none was granted twice")
		require.Less(t, looks.Load(), taken.Load()/10)
		g.Reclaim()
		require.EqualValues(t, taken.Load(), g.Most(Bad))
	}
}

func TestGrantsAreSharedOutWhereManyMeet(t *testing.T) {
	var g Grants
	require.Zero(t, g.Place().store())
	_, known := g.Done(grant(1, 1, 0))
	require.False(t, known, "there is no such place")
	g.Advance(dawn, span, 0)
	g.Give(0, 1000, span)
	require.EqualValues(t, maxGrants, g.Least(Bad))
	g.part(g.Place())
	require.Positive(t, g.Place().store())
	require.GreaterOrEqual(t, len(*g.stores.Load()), runtime.GOMAXPROCS(0))

	g.Reclaim()
	require.EqualValues(t, 1, g.Least(Bad))
	first := g.Give(1, 40, span)
	require.EqualValues(t, 1+10, g.Least(Bad), "a quarter, so that others find some")
	require.Empty(t, takeAll(&g, 2, dawn))
	g.Give(2, 1, span)
	require.EqualValues(t, 1+10+1, g.Least(Bad))

	for _, one := range append(takeAll(&g, 1, dawn)[:4], first) {
		once, known := g.Done(one)
		require.True(t, once && known)
		once, known = g.Done(one)
		require.True(t, !once && known)
	}
	g.GiveBack(first)
	require.EqualValues(t, 1+9+1, g.Least(Bad))
	g.Give(1, 40, span)
	g.Advance(dawn.Add(2*time.Second), span, 0)
	require.EqualValues(t, 1+9+1+1, g.Least(Bad), "and back they go to where they were counted")
	g.Give(2, 8, span)
	g.Advance(dawn.Add(time.Hour), span, 0)
	require.Zero(t, g.Most(Bad))
}

func TestGrantsKeepApartThoseWhoMeet(t *testing.T) {
	var g Grants
	place := func(a address) Place { return Place(a)<<placeBits | Place(1+a.cell(len(*g.stores.Load()))) }
	g.part(0)
	stores := g.stores.Load()
	for _, p := range sharing(len(*stores)) {
		for n := 0; place(p[0])%(1<<placeBits) == place(p[1])%(1<<placeBits); n++ {
			require.Less(t, n, 100)
			g.part(place(p[1]))
		}
	}
	require.Same(t, stores, g.stores.Load())
}
