package presets_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

// unlimited is as many retries as these tests ask for.
const unlimited = 5000

// A windowCase says how many retries there are for so many calls, all at once.
type windowCase struct {
	budget backoff.Budget
	calls  int
	want   int
}

func requireGrants(t *testing.T, cases []windowCase) {
	for _, c := range cases {
		require.NoError(t, (&backoff.Policy{Budget: c.budget}).Validate())
		repeat(c.calls, func() { begin(t, c.budget) })
		require.Equal(t, c.want, grants(c.budget, unlimited), "%+v, %d calls", c.budget, c.calls)
	}
}

func TestSREBudgetGrantsByItsRule(t *testing.T) {
	sre := func(ratio float64, floor int) backoff.Budget {
		b := presets.NewSREBudget()
		b.Ratio, b.MinRetries = ratio, floor
		return b
	}
	requireGrants(t, []windowCase{
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
	})
}

func TestDotNetBudgetGrantsByItsRule(t *testing.T) {
	dotnet := func(ratio float64, throughput int) backoff.Budget {
		return &presets.DotNetBudget{RetryRatio: ratio, SamplingDuration: 10 * time.Second, MinimumThroughput: throughput}
	}
	requireGrants(t, []windowCase{
		{dotnet(0.1, 10), 0, unlimited}, // not enforced below 10 requests
		{dotnet(0.1, 10), 9, unlimited},
		{dotnet(0.1, 10), 10, 1},
		{dotnet(0.1, 10), 19, 1}, // rounded down
		{dotnet(0.1, 10), 20, 2},
		{dotnet(0.1, 10), 1000, 100},
		{dotnet(0.01, 10), 50, 1}, // one at least
		{dotnet(0.29, 1), 100, 29},
		{dotnet(1, 1), 100, 100},
		{dotnet(0, 10), 5, 0}, // a ratio of 0 suppresses every retry
		{dotnet(0, 10), 1000, 0},
	})
}

func TestKubernetesBudgetGrantsByItsRule(t *testing.T) {
	kubernetes := func(percent, floor int) backoff.Budget {
		b := presets.NewKubernetesBudget()
		b.Percent, b.MinRetryCount = percent, floor
		return b
	}
	requireGrants(t, []windowCase{
		{kubernetes(20, 10), 0, 10}, // 10 a second in any case
		{kubernetes(20, 10), 40, 10},
		{kubernetes(20, 10), 800, 200}, // of 1000 requests 200 may be retries
		{kubernetes(20, 0), 4, 1},
		{kubernetes(20, 0), 3, 1},
		{kubernetes(0, 0), 1000, 0},
		{kubernetes(50, 0), 100, 100},
		{kubernetes(100, 0), 1, unlimited},
	})
}

// A window that moves, and a floor.
func TestSREBudgetCountsTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := presets.NewSREBudget()
		repeat(1000, func() { begin(t, b) })
		require.Equal(t, 100, grants(b, 1000))
		counted(t, b, 1000, 100)

		time.Sleep(107 * time.Second)
		counted(t, b, 1000, 100)
		require.Equal(t, 1, grants(b, 1000), "the floor, a retry every 10 s")
		time.Sleep(9 * time.Second)
		require.Zero(t, grants(b, 1000))
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, grants(b, 1000))

		time.Sleep(time.Second)
		counted(t, b, 0, 102) // retries count for a tenth longer, to be sure
		time.Sleep(12 * time.Second)
		counted(t, b, 0, 2)
	})
}

func TestWindowBudgetsForgetWithTheirWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dotnet, kubernetes := presets.NewDotNetBudget(), presets.NewKubernetesBudget()
		for _, b := range []backoff.Budget{dotnet, kubernetes} {
			repeat(100, func() { begin(t, b) })
			grants(b, 20)
		}
		counted(t, dotnet, 100, 10)
		counted(t, kubernetes, 100, 20)
		time.Sleep(12 * time.Second)
		counted(t, dotnet, 0, 0)
		counted(t, kubernetes, 0, 0)
	})
}

func TestKubernetesBudgetHasAMinimumRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := presets.NewKubernetesBudget()
		for range 20 {
			require.Equal(t, 10, grants(b, 100))
			time.Sleep(1100 * time.Millisecond)
		}
	})
}

func TestWindowBudgetsTakeBackFromWhereTheyCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := presets.NewKubernetesBudget()
		call := begin(t, b)
		retry, _ := askRetry(b)
		time.Sleep(3 * time.Second)
		begin(t, b)
		askRetry(b)
		b.Done(call, backoff.Result{Outcome: backoff.OutcomeNotSent})
		b.Done(retry, backoff.Result{Outcome: backoff.OutcomeNotSent})
		counted(t, b, 1, 1)
		time.Sleep(9 * time.Second)
		counted(t, b, 1, 1)
	})
}

// counted checks what a budget has counted.
func counted(t *testing.T, b interface {
	Stats() (requests, retries uint64)
}, requests, retries uint64) {
	t.Helper()
	gotRequests, gotRetries := b.Stats()
	require.Equal(t, [2]uint64{requests, retries}, [2]uint64{gotRequests, gotRetries})
}
