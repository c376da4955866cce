package window

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGrantCountsAtItsPrice(t *testing.T) {
	var g Grants
	g.Advance(dawn, span, 0)
	for price := uint64(1); price <= 15; price++ {
		before := g.Least(Bad)
		one := g.Give(price)
		require.Equal(t, price, one.Price())
		require.Equal(t, before+price, g.Least(Bad))
		g.GiveBack(one | Led | Fruitless)
		require.Equal(t, before, g.Least(Bad))
		g.Give(price)
	}
	spare := g.Spare(3)
	require.EqualValues(t, 3, spare.Price())
	require.EqualValues(t, 1, g.Least(Other), "a spare one is counted apart")
	require.EqualValues(t, 15*16/2, g.Least(Bad))
	g.GiveBack(spare | Led)
	require.Zero(t, g.Least(Other))
	require.EqualValues(t, 15*16/2, g.Least(Bad))
}

func TestGrantIsDoneOnceAndGivenBackWhereItWasCounted(t *testing.T) {
	var g Grants
	g.Advance(dawn, span, 0)
	early, second := g.Give(1), g.Give(2)
	g.Advance(dawn.Add(5*time.Second), span, 0)
	late, spare := g.Give(1), g.Spare(1)

	for _, one := range []Grant{early, second | Fruitless, late, spare | Led} {
		first, known := g.Done(one)
		require.True(t, first && known)
		first, known = g.Done(one)
		require.True(t, known)
		require.False(t, first)
	}
	g.GiveBack(early)
	require.EqualValues(t, 3, g.Least(Bad))
	g.Advance(dawn.Add(10*time.Second), span, 0)
	require.EqualValues(t, 1, g.Least(Bad), "the late one")
	g.Advance(dawn.Add(time.Hour), span, 0)
	g.GiveBack(late)
	require.Zero(t, g.Most(Bad))
}

func TestWhatWasWonLeavesTheWindow(t *testing.T) {
	var g Grants
	g.Advance(dawn, span, 0)
	g.Win(g.Give(3))
	g.Advance(dawn.Add(5*time.Second), span, 100)
	g.Win(g.Spare(1))
	require.EqualValues(t, 4, g.Won())
	require.EqualValues(t, 3, g.Least(Bad), "it stays granted")
	g.Advance(dawn.Add(10*time.Second), span, 200)
	require.EqualValues(t, 1, g.Won())
	g.Advance(dawn.Add(-time.Hour), span, 200)
	require.EqualValues(t, 1, g.Won(), "the clock went back")
	g.Advance(dawn.Add(time.Hour), span, 200)
	require.Zero(t, g.Won())
}

// TestGrantsAreKnownForAWhile compares with a list of the grants that are done,
// beyond the point where the numbers begin again.
func TestGrantsAreKnownForAWhile(t *testing.T) {
	var g Grants
	g.last = 1<<32 - 3000
	g.Advance(dawn, span, 0)
	random := rand.New(rand.NewPCG(1, 2))
	var all []Grant
	done := map[Grant]bool{}
	for range 200 {
		for range random.IntN(100) {
			all = append(all, g.Give(1))
		}
		for range min(50, len(all)) {
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
