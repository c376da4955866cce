package foreign_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
)

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
		paid   map[backoff.Outcome]bool
	}{
		"at start": {foreign.NewFinagle(), map[backoff.Outcome]bool{backoff.OutcomeSuccess: true, backoff.OutcomeDefinitive: true, backoff.OutcomeTransient: true,
			backoff.OutcomeThrottled: true, backoff.OutcomeTimeout: true, backoff.OutcomeCanceled: true}},
		"on success": {foreign.NewFinagleRequeue(), map[backoff.Outcome]bool{backoff.OutcomeSuccess: true}},
		"Linkerd":    {foreign.NewLinkerd(), map[backoff.Outcome]bool{backoff.OutcomeSuccess: true, backoff.OutcomeDefinitive: true}},
	} {
		b := c.budget
		b.PercentCanRetry = 1
		for o := range backoff.OutcomeNotSent + 1 {
			before := b.Balance()
			finish(t, b, o)
			want := before
			if c.paid[o] {
				want++
			}
			require.Equal(t, want, b.Balance(), "%s: outcome %d", name, o)
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
				repeat(s.deposit, func() { finish(t, b, backoff.OutcomeSuccess) })
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
			repeat(5, func() { finish(t, b, backoff.OutcomeSuccess) })
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
		b.Done(retry, backoff.Result{Outcome: backoff.OutcomeNotSent})
		require.Equal(t, 100, b.Balance())
		repeat(4, func() { begin(t, b) })
		require.Equal(t, 101, b.Balance())
		b.Done(early, backoff.Result{Outcome: backoff.OutcomeNotSent})
		require.Equal(t, 100, b.Balance())

		late := begin(t, b)
		retry, _ = askRetry(b)
		time.Sleep(time.Minute)
		b.Done(late, backoff.Result{Outcome: backoff.OutcomeNotSent})
		b.Done(retry, backoff.Result{Outcome: backoff.OutcomeNotSent})
		require.Equal(t, 100, b.Balance(), "both have expired")
	})
}
