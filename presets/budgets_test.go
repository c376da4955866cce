package presets_test

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/presets"
)

// The steps that calls take through a budget.

func begin(t *testing.T, b backoff.Budget) backoff.Ticket {
	t.Helper()
	ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1})
	require.True(t, ok, "a first attempt")
	return ticket
}

func finish(t *testing.T, b backoff.Budget, o backoff.Outcome) {
	t.Helper()
	b.Done(begin(t, b), backoff.Result{Outcome: o})
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

func TestBudgetsYieldsNewAndValidBudgets(t *testing.T) {
	all := maps.Collect(presets.Budgets())
	require.Len(t, all, 3)
	for _, name := range []string{"aws-retry-quota", "aws-retry-quota-2026", "grpc-retry-throttling"} {
		require.Contains(t, all, name)
	}
	for name, b := range presets.Budgets() {
		require.NoError(t, (&backoff.Policy{Budget: b}).Validate(), name)
		before := grants(all[name], 100)
		require.Equal(t, before, grants(b, 100), "%s: a new one", name)
	}
	for range presets.Budgets() {
		break // may be left early
	}
}

// No budget refuses a first attempt, or makes it wait, whatever has failed before.
func TestBudgetsGrantFirstAttempts(t *testing.T) {
	for name, b := range presets.Budgets() {
		for range 1000 {
			finish(t, b, backoff.OutcomeTransient)
			grants(b, 1)
			_, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
			require.True(t, ok, name)
			require.Zero(t, wait, name)
		}
		finish(t, b, backoff.OutcomeThrottled)
		_, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
		require.True(t, ok, name)
		require.Zero(t, wait, name)
	}
}

// An attempt that was granted and not sent changes nothing.
func TestBudgetsGetBackWhatWasNotMade(t *testing.T) {
	for name, b := range presets.Budgets() {
		repeat(50, func() { finish(t, b, backoff.OutcomeSuccess) })
		untouched := maps.Collect(presets.Budgets())[name]
		repeat(50, func() { finish(t, untouched, backoff.OutcomeSuccess) })
		for range 2000 {
			finish(t, b, backoff.OutcomeNotSent)
			ticket, ok := askRetry(b)
			require.True(t, ok, name)
			b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent})
			b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent})
		}
		require.Equal(t, grants(untouched, 5000), grants(b, 5000), name)
	}
}

// A second Done changes nothing, whatever its outcome, and nor does a Done
// without a Reserve.
func TestBudgetsHearADoneOnce(t *testing.T) {
	for name, once := range presets.Budgets() {
		twice := maps.Collect(presets.Budgets())[name]
		random := rand.New(rand.NewPCG(1, 1))
		for i := range 2000 {
			attempt := backoff.Attempt{Number: 1 + random.IntN(2)}
			a, b := backoff.Outcome(random.IntN(7)), backoff.Outcome(random.IntN(7))
			first, _, ok1 := once.Reserve(attempt)
			second, _, ok2 := twice.Reserve(attempt)
			require.Equal(t, ok1, ok2, "%s: step %d", name, i)
			if !ok1 {
				continue
			}
			once.Done(first, backoff.Result{Outcome: a})
			twice.Done(second, backoff.Result{Outcome: a})
			twice.Done(second, backoff.Result{Outcome: b})
			twice.Done(backoff.Ticket{Word: 1 << 40}, backoff.Result{Outcome: b})
		}
		require.Equal(t, grants(once, 5000), grants(twice, 5000), name)
	}
}

func TestBudgetsGoOnWhereDoneNeverComes(t *testing.T) {
	for name, b := range presets.Budgets() {
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before, attempts := heap(), nightly.Size(40_000, 140_000)
		for range attempts {
			begin(t, b)
		}
		require.Less(t, heap()-before, int64(90*attempts), name)
		ticket := begin(t, b)
		b.Done(ticket, backoff.Result{})
		runtime.KeepAlive(b)
	}
}

func TestBudgetsAreNotMovedByAClockThatIsSet(t *testing.T) {
	for name, b := range presets.Budgets() {
		untouched := maps.Collect(presets.Budgets())[name]
		for _, step := range []time.Duration{time.Hour, -time.Hour, 0} {
			now := time.Now()
			for range 100 {
				ticket, _, _ := b.Reserve(backoff.Attempt{Number: 1, Now: clocktest.Set(now, step)})
				b.Done(ticket, backoff.Result{})
				ticket, _, _ = untouched.Reserve(backoff.Attempt{Number: 1, Now: now})
				untouched.Done(ticket, backoff.Result{})
			}
		}
		require.Equal(t, grants(untouched, 5000), grants(b, 5000), name)
	}
}

func TestBudgetsAllocateNothing(t *testing.T) {
	for name, b := range presets.Budgets() {
		repeat(1000, func() { finish(t, b, backoff.OutcomeSuccess) })
		require.Zero(t, testing.AllocsPerRun(2000, func() {
			ticket, _, _ := b.Reserve(backoff.Attempt{Number: 1})
			b.Done(ticket, backoff.Result{})
			if ticket, ok := askRetry(b); ok {
				b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent})
			}
		}), name)
	}
}
