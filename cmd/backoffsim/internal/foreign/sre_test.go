package foreign_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
)

func TestSREBudgetGrantsByItsRule(t *testing.T) {
	sre := func(ratio float64, floor int) backoff.Budget {
		b := foreign.NewSREBudget()
		b.Ratio, b.MinRetries = ratio, floor
		return b
	}
	for _, c := range []struct {
		budget      backoff.Budget
		calls, want int
	}{
		{sre(0.1, 1), 0, 1}, // an empty window: the floor
		{sre(0.1, 0), 0, 0},
		{sre(0.1, 5), 0, 5},
		{sre(0.1, 1), 5, 1}, // none of 5 is below 10 %
		{sre(0.1, 1), 10, 1},
		{sre(0.1, 1), 11, 2},
		{sre(0.1, 1), 1000, 100},
		{sre(0.29, 1), 100, 29}, // which floats cannot hold
		{sre(0.6, 1), 100, 60},
		{sre(0.7, 1), 100, 70},
		{sre(0, 0), 1000, 0},
		{sre(2, 0), 100, 200},
	} {
		repeat(c.calls, func() { begin(t, c.budget) })
		require.Equal(t, c.want, grants(c.budget, 1000), "%+v, %d calls", c.budget, c.calls)
	}
}

// A window that moves, and a floor.
func TestSREBudgetCountsTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewSREBudget()
		counted := func(wantRequests, wantRetries uint64) {
			requests, retries := b.Stats()
			require.Equal(t, []uint64{wantRequests, wantRetries}, []uint64{requests, retries})
		}
		repeat(1000, func() { begin(t, b) })
		require.Equal(t, 100, grants(b, 1000))
		counted(1000, 100)

		time.Sleep(107 * time.Second)
		counted(1000, 100)
		require.Equal(t, 1, grants(b, 1000), "the floor, a retry every 10 s")
		time.Sleep(9 * time.Second)
		require.Zero(t, grants(b, 1000))
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, grants(b, 1000))

		time.Sleep(time.Second)
		counted(0, 102) // retries count for a tenth longer, to be sure
		time.Sleep(12 * time.Second)
		counted(0, 2)
	})
}
