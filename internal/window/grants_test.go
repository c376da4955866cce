package window

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// takeAll takes what is left at that time.
func takeAll(g *Grants, now time.Time) (taken []Grant) {
	for {
		one, ok := g.Take(now)
		if !ok {
			return taken
		}
		taken = append(taken, one)
	}
}

func TestGrantsAreTakenUntilTheWindowSlidesOn(t *testing.T) {
	var g Grants
	_, ok := g.Take(dawn)
	require.False(t, ok, "none was given")

	g.Start(dawn)
	g.Advance(dawn.Add(1500*time.Millisecond), span, 0)
	g.Give(10, span)
	for _, at := range []time.Duration{-time.Hour, 0, 999 * time.Millisecond, 2 * time.Second, time.Hour, 1 << 62, -1 << 62} {
		_, ok := g.Take(dawn.Add(at))
		require.False(t, ok, "at %v", at)
	}
	for _, at := range []time.Duration{time.Second, 1500 * time.Millisecond, 2*time.Second - 1} {
		_, ok := g.Take(dawn.Add(at))
		require.True(t, ok, "at %v", at)
	}
	require.EqualValues(t, 10, g.Least(Bad), "all count as long as they may be taken")
	require.Len(t, takeAll(&g, dawn.Add(time.Second)), 6)

	g.Advance(dawn.Add(1600*time.Millisecond), span, 0)
	g.Give(5, span)
	g.Advance(dawn.Add(2*time.Second), span, 0)
	require.EqualValues(t, 11, g.Least(Bad), "those that nobody took count no more")
	require.Empty(t, takeAll(&g, dawn.Add(2*time.Second)), "nor are they there")
}

func TestGrantsGoOnWhereTheClockGoesBack(t *testing.T) {
	var g Grants
	g.Advance(dawn, span, 0)
	g.Give(2, span)
	back := dawn.Add(-time.Hour)
	require.Empty(t, takeAll(&g, back))
	g.Advance(back, span, 0)
	g.Give(3, span)
	require.Len(t, takeAll(&g, back), 2)
	require.EqualValues(t, 4, g.Least(Bad))
	require.Empty(t, takeAll(&g, dawn))
}

func TestGrantIsDoneOnceAndGivenBackWhereItWasCounted(t *testing.T) {
	var g Grants
	g.Advance(dawn, span, 0)
	early := g.Give(2, span)
	second, ok := g.Take(dawn)
	require.True(t, ok)
	g.Advance(dawn.Add(5*time.Second), span, 0)
	late := g.Give(1, span)
	spare := g.Spare()
	require.EqualValues(t, 3, g.Least(Bad), "a spare one is not counted")

	for _, one := range []Grant{early, second, late, spare | Own} {
		first, known := g.Done(one)
		require.True(t, first && known)
		first, known = g.Done(one)
		require.True(t, known)
		require.False(t, first)
	}
	g.GiveBack(early)
	require.EqualValues(t, 2, g.Least(Bad))
	g.Advance(dawn.Add(10*time.Second), span, 0)
	require.EqualValues(t, 1, g.Least(Bad), "the late one")
	g.Advance(dawn.Add(time.Hour), span, 0)
	g.GiveBack(late)
	require.Zero(t, g.Most(Bad))
}

// TestGrantsAreKnownForAWhile compares with a list of those that are done, over the place
// where the numbers begin again.
func TestGrantsAreKnownForAWhile(t *testing.T) {
	var g Grants
	g.word.Store(1<<31 - 3000)
	random := rand.New(rand.NewPCG(1, 2))
	var all []Grant
	done := map[Grant]bool{}
	for range 200 {
		g.Advance(dawn, span, 0)
		all = append(all, g.Give(1+random.Uint64N(MaxGrants), span))
		for range random.IntN(100) {
			if one, ok := g.Take(dawn); ok {
				all = append(all, one)
			}
		}
		for range 50 {
			one := all[len(all)-1-random.IntN(min(len(all), KnownGrants))]
			first, known := g.Done(one)
			require.True(t, known)
			require.Equal(t, !done[one], first)
			done[one] = true
		}
		if old := len(all) - 1 - KnownGrants; old >= 0 {
			_, known := g.Done(all[old])
			require.False(t, known)
		}
	}
	require.Greater(t, len(all), 5000, "beyond the end of the numbers")
}

func TestGrantsAreNotOverdrawnByMany(t *testing.T) {
	const takers = 8
	var g Grants
	var mu sync.Mutex
	var clock, taken atomic.Int64
	given := int64(0)
	look := func(now time.Time, n uint64) {
		mu.Lock()
		defer mu.Unlock()
		before := g.Most(Bad)
		g.Advance(now, time.Hour, 0)
		given += int64(g.Most(Bad)) - int64(before) // less what was left
		g.Give(n, time.Hour)
		given += int64(n)
		taken.Add(1)
	}
	var group sync.WaitGroup
	for range takers {
		group.Go(func() {
			for range 5000 {
				now := dawn.Add(time.Duration(clock.Add(1)))
				if _, ok := g.Take(now); ok {
					taken.Add(1)
				} else {
					look(now, 20)
				}
				if clock.Load()%100 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	group.Wait()
	left := int64(len(takeAll(&g, dawn.Add(time.Duration(clock.Load())))))
	require.Equal(t, given, taken.Load()+left)
	require.EqualValues(t, given, g.Most(Bad))
}
