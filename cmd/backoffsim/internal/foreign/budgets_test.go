package foreign_test

import (
	"maps"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
	"github.com/gobackoff/backoff/internal/results"
	"github.com/gobackoff/backoff/presets"
)

func TestBudgetsKeepTheContractOfABudget(t *testing.T) {
	for name := range foreign.Budgets() {
		t.Run(name, func(t *testing.T) {
			backofftest.Budget(t, func() backoff.Budget { return maps.Collect(foreign.Budgets())[name] })
		})
	}
}

func TestBudgetsRefuseWhatMakesNoSense(t *testing.T) {
	for want, b := range map[string]backoff.Budget{
		"SREBudget.Ratio is -0.1, want 0 to 1000":       &foreign.SREBudget{Ratio: -0.1, Window: 1, MinInterval: 1},
		"SREBudget.Ratio is NaN, want 0 to 1000":        &foreign.SREBudget{Ratio: math.NaN(), Window: 1, MinInterval: 1},
		"SREBudget.Window is 0s, want more than 0":      &foreign.SREBudget{MinInterval: 1},
		"SREBudget.MinRetries is -1, want 0 or more":    &foreign.SREBudget{Window: 1, MinInterval: 1, MinRetries: -1},
		"SREBudget.MinInterval is 0s, want more than 0": &foreign.SREBudget{Window: 1},
		"AdaptiveRate is nil":                           (*foreign.AdaptiveRate)(nil),
		"SREBudget is nil":                              (*foreign.SREBudget)(nil),
	} {
		require.EqualError(t, b.Validate(), "backoff: foreign."+want)
	}
}

func TestBudgetsHaveThoseOfPresetsAndAreNew(t *testing.T) {
	all := maps.Collect(foreign.Budgets())
	require.Len(t, all, 11)
	for name, b := range presets.Budgets() {
		require.Equal(t, b, all[name])
	}
	for name, b := range foreign.Budgets() {
		require.Equal(t, grants(all[name], 100), grants(b, 100), name)
	}
}

// The steps that calls take through a budget.

func begin(t *testing.T, b backoff.Budget) backoff.Ticket {
	t.Helper()
	ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1})
	require.True(t, ok, "a first attempt")
	return ticket
}

func finish(t *testing.T, b backoff.Budget, o string) {
	t.Helper()
	b.Done(begin(t, b), results.ByName[o])
}

func repeat(n int, f func()) {
	for range n {
		f()
	}
}

func askRetry(b backoff.Budget) (backoff.Ticket, bool) {
	ticket, _, ok := b.Reserve(backoff.Attempt{Number: 2})
	return ticket, ok
}

// grants is how many retries are granted one after the other, up to most.
func grants(b backoff.Budget, most int) (n int) {
	for n < most {
		if _, ok := askRetry(b); !ok {
			break
		}
		n++
	}
	return n
}

// envoy returns a budget without a minimum.
func envoy(percent float64) *foreign.Envoy {
	b := foreign.NewEnvoy()
	b.BudgetPercent, b.MinRetryConcurrency = percent, 0
	return b
}

func TestEnvoyAllowsAShareOfWhatIsUnderWay(t *testing.T) {
	for _, c := range []struct{ active, want int }{{0, 3}, {1, 3}, {15, 3}, {19, 3}, {20, 4}, {24, 4}, {25, 5}, {100, 20}, {1000, 200}} {
		b := foreign.NewEnvoy()
		repeat(c.active, func() { begin(t, b) })
		require.Equal(t, c.want, grants(b, 2000), "%d under way", c.active)
	}
	b := envoy(25) // the example of its documentation
	repeat(100, func() { begin(t, b) })
	require.Equal(t, 25, grants(b, 2000))
	require.Zero(t, grants(envoy(100), 1), "without a minimum, and nothing under way")
}

func TestEnvoyCountsADepartedRetryAsUnderWay(t *testing.T) {
	b := envoy(50)
	repeat(4, func() { begin(t, b) })
	one, _ := askRetry(b)
	_, _ = askRetry(b)
	_, ok := askRetry(b)
	require.False(t, ok, "2 of 4")
	require.True(t, b.Confirm(one))
	require.True(t, b.Confirm(one), "once")
	require.True(t, b.Confirm(backoff.Ticket{Word: 99}))
	_, ok = askRetry(b)
	require.False(t, ok, "2 of 5, truncated")
	first := begin(t, b)
	three, ok := askRetry(b)
	require.True(t, ok, "3 of 6")
	b.Done(three, backoff.Result{NotSent: true})
	b.Done(one, backoff.Result{})
	b.Done(one, backoff.Result{})
	require.True(t, b.Confirm(one), "nobody departs who is gone")
	b.Done(first, backoff.Result{})
	active, retries := b.Load()
	require.Equal(t, []int{4, 1}, []int{active, retries})
}

func TestEnvoyCountsAHedgeAsBoth(t *testing.T) {
	b := foreign.NewEnvoy()
	ticket, _, ok := b.Reserve(backoff.Attempt{Number: 2, Hedge: true})
	require.True(t, ok)
	active, retries := b.Load()
	require.Equal(t, []int{1, 1}, []int{active, retries})
	b.Done(ticket, backoff.Result{Failed: true, Canceled: true})
	active, retries = b.Load()
	require.Equal(t, []int{0, 0}, []int{active, retries})
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

// unlimited is as many retries as these tests ask for.
const unlimited = 5000

func TestWindowBudgetsGrantByTheirRule(t *testing.T) {
	sre := func(ratio float64, floor int) backoff.Budget {
		b := foreign.NewSREBudget()
		b.Ratio, b.MinRetries = ratio, floor
		return b
	}
	kubernetes := func(percent, floor int) backoff.Budget {
		b := foreign.NewKubernetes()
		b.Percent, b.MinRetryCount = percent, floor
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
		{foreign.NewDotNet(), 0, unlimited}, // not enforced below 10 requests
		{foreign.NewDotNet(), 9, unlimited},
		{foreign.NewDotNet(), 10, 1},
		{foreign.NewDotNet(), 19, 1}, // rounded down
		{foreign.NewDotNet(), 20, 2},
		{foreign.NewDotNet(), 1000, 100},
		{kubernetes(20, 10), 0, 10}, // 10 a second in any case
		{kubernetes(20, 10), 40, 10},
		{kubernetes(20, 10), 800, 200}, // of 1000 requests 200 may be retries
		{kubernetes(20, 0), 4, 1},
		{kubernetes(20, 0), 3, 1},
		{kubernetes(0, 0), 1000, 0},
		{kubernetes(50, 0), 100, 100},
		{kubernetes(100, 0), 1, unlimited},
	} {
		repeat(c.calls, func() { begin(t, c.budget) })
		require.Equal(t, c.want, grants(c.budget, unlimited), "%+v, %d calls", c.budget, c.calls)
	}
}

func TestKubernetesHasAMinimumRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewKubernetes()
		for range 20 {
			require.Equal(t, 10, grants(b, 100))
			time.Sleep(1100 * time.Millisecond)
		}
	})
}

func TestFinagleHasAReserveOf100RetriesAndATokenForEveryFifthCall(t *testing.T) {
	b := foreign.NewFinagle()
	require.Equal(t, 100, b.Balance())
	repeat(4, func() { begin(t, b) })
	require.Equal(t, 100, b.Balance())
	begin(t, b)
	require.Equal(t, 101, b.Balance())
	require.Equal(t, 101, grants(b, 1000))
	require.Zero(t, b.Balance())
}

func TestFinagleIsPaidWhenItIsToBe(t *testing.T) {
	for name, c := range map[string]struct {
		budget *foreign.Finagle
		paid   map[string]bool
	}{
		"at start": {foreign.NewFinagle(), map[string]bool{"success": true, "permanent": true, "failed": true,
			"throttled": true, "timeout": true, "canceled": true}},
		"on success": {foreign.NewFinagleRequeue(), map[string]bool{"success": true}},
		"Linkerd":    {foreign.NewLinkerd(), map[string]bool{"success": true, "permanent": true}},
	} {
		b := c.budget
		b.PercentCanRetry = 1
		for _, o := range results.Names {
			before := b.Balance()
			finish(t, b, o)
			want := before
			if c.paid[o] {
				want++
			}
			require.Equal(t, want, b.Balance(), "%s: %s", name, o)
		}
	}
}

// A retry costs 1000/PercentCanRetry thousandths of a deposit, truncated.
func TestFinagleKeepsItsRatio(t *testing.T) {
	for ratio, want := range map[float64]int{0.6: 60, 0.7: 70, 0.33: 33, 0.29: 29, 0.2: 20, 0.1: 10, 1: 100, 2: 200, 0.003: 0, 1000: 100_000} {
		b := foreign.NewFinagle()
		b.MinRetriesPerSec, b.PercentCanRetry = 0, ratio
		repeat(100, func() { begin(t, b) })
		require.Equal(t, want, b.Balance(), "%v of 100 calls", ratio)
	}
}

func TestFinagleWithoutARatioHasItsReserveOnly(t *testing.T) {
	b := foreign.NewFinagle()
	b.PercentCanRetry = 0
	repeat(1000, func() { begin(t, b) })
	require.Equal(t, 100, grants(b, 1000))
	b = foreign.NewFinagle()
	b.PercentCanRetry, b.MinRetriesPerSec = 0, 0
	repeat(1000, func() { begin(t, b) })
	require.Zero(t, grants(b, 1000), "Finagle's RetryBudget.Empty")
}

func TestFinagleDepositsAndWithdrawalsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewFinagle()
		repeat(500, func() { begin(t, b) })
		require.Equal(t, 200, grants(b, 1000))
		for range 9 {
			time.Sleep(time.Second)
			require.Zero(t, grants(b, 1000), "the deposits are still there, and so are the withdrawals")
		}
		time.Sleep(time.Second)
		require.Equal(t, 100, grants(b, 1000), "the reserve of the next 10 s")
		time.Sleep(time.Hour)
		require.Equal(t, 100, grants(b, 1000))
	})
}

// The current slot ends at the first call after its time, and so lasts longer
// where calls are rare: with a call every 1.9 slots the 9 older slots are 17.1
// s.
func TestFinagleStretchesItsTTLWhereCallsAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewFinagle()
		b.MinRetriesPerSec = 0
		repeat(5, func() { begin(t, b) })
		for range 9 {
			time.Sleep(1900 * time.Millisecond)
			require.Equal(t, 1, b.Balance())
		}
		time.Sleep(1900 * time.Millisecond)
		require.Zero(t, b.Balance())
	})
}

// The tests of tower's TpsBudget: what is deposited, how long after, and
// whether there is a retry then.
func TestLinkerdByTheTestsOfTower(t *testing.T) {
	type step struct {
		wait    time.Duration
		deposit int
		retries []bool
	}
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		perSec int
		ratio  float64
		steps  []step
	}{
		"empty": {0, 1, []step{{retries: []bool{false}}}},
		"leaky": {0, 1, []step{{deposit: 1}, {wait: 3 * time.Second, retries: []bool{false}}}},
		"slots": {0, 0.5, []step{{deposit: 2}, {wait: 901 * ms, retries: []bool{true}}, {wait: 2001 * ms, deposit: 1},
			{wait: 301 * ms, deposit: 1}, {wait: 801 * ms, deposit: 1, retries: []bool{true}}}},
		"reserve": {5, 1, []step{{retries: []bool{true, true, true, true, true, false}}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := foreign.NewLinkerd()
			b.TTL, b.MinRetriesPerSec, b.PercentCanRetry = time.Second, c.perSec, c.ratio
			b.Balance() // the clock starts
			for i, s := range c.steps {
				time.Sleep(s.wait)
				repeat(s.deposit, func() { finish(t, b, "success") })
				for _, want := range s.retries {
					_, got := askRetry(b)
					require.Equal(t, want, got, "%s: step %d", name, i)
				}
			}
		})
	}
}

func TestLinkerdHasATenthMoreThanFinagle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finagle, linkerd := foreign.NewFinagleRequeue(), foreign.NewLinkerd()
		for _, b := range []*foreign.Finagle{finagle, linkerd} {
			b.MinRetriesPerSec = 0
			repeat(5, func() { finish(t, b, "success") })
		}
		for range 10 {
			time.Sleep(time.Second)
			require.Equal(t, 1, linkerd.Balance())
			finagle.Balance()
		}
		require.Zero(t, finagle.Balance())
		time.Sleep(time.Second)
		require.Zero(t, linkerd.Balance())
	})
}

// What is taken back comes out of the slot it went into, or out of none.
func TestFinagleTakesBackFromTheSlotItWasCountedIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewFinagle()
		early := begin(t, b)
		retry, _ := askRetry(b)
		time.Sleep(2500 * time.Millisecond)
		require.Equal(t, 99, b.Balance())
		b.Done(retry, backoff.Result{NotSent: true})
		require.Equal(t, 100, b.Balance())
		repeat(4, func() { begin(t, b) })
		require.Equal(t, 101, b.Balance())
		b.Done(early, backoff.Result{NotSent: true})
		require.Equal(t, 100, b.Balance())

		late := begin(t, b)
		retry, _ = askRetry(b)
		time.Sleep(time.Minute)
		b.Done(late, backoff.Result{NotSent: true})
		b.Done(retry, backoff.Result{NotSent: true})
		require.Equal(t, 100, b.Balance(), "both have expired")
	})
}
