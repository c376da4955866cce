package presets_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/internal/results"
	"github.com/gobackoff/backoff/presets"
)

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
			finish(t, b, "failed")
			grants(b, 1)
			_, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
			require.True(t, ok, name)
			require.Zero(t, wait, name)
		}
		finish(t, b, "throttled")
		_, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
		require.True(t, ok, name)
		require.Zero(t, wait, name)
	}
}

// An attempt that was granted and not sent changes nothing.
func TestBudgetsGetBackWhatWasNotMade(t *testing.T) {
	for name, b := range presets.Budgets() {
		repeat(50, func() { finish(t, b, "success") })
		untouched := maps.Collect(presets.Budgets())[name]
		repeat(50, func() { finish(t, untouched, "success") })
		for range 2000 {
			finish(t, b, "not sent")
			ticket, ok := askRetry(b)
			require.True(t, ok, name)
			b.Done(ticket, backoff.Result{NotSent: true})
			b.Done(ticket, backoff.Result{NotSent: true})
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
			a, b := results.ByName[results.Names[random.IntN(7)]], results.ByName[results.Names[random.IntN(7)]]
			first, _, ok1 := once.Reserve(attempt)
			second, _, ok2 := twice.Reserve(attempt)
			require.Equal(t, ok1, ok2, "%s: step %d", name, i)
			if !ok1 {
				continue
			}
			once.Done(first, a)
			twice.Done(second, a)
			twice.Done(second, b)
			twice.Done(backoff.Ticket{Word: 1 << 40}, b)
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
		repeat(1000, func() { finish(t, b, "success") })
		require.Zero(t, testing.AllocsPerRun(2000, func() {
			ticket, _, _ := b.Reserve(backoff.Attempt{Number: 1})
			b.Done(ticket, backoff.Result{})
			if ticket, ok := askRetry(b); ok {
				b.Done(ticket, backoff.Result{NotSent: true})
			}
		}), name)
	}
}

func TestBudgetsKeepTheContractOfABudget(t *testing.T) {
	for name := range presets.Budgets() {
		t.Run(name, func(t *testing.T) {
			backofftest.Budget(t, func() backoff.Budget { return maps.Collect(presets.Budgets())[name] })
		})
	}
}

func TestBudgetsRefuseWhatMakesNoSense(t *testing.T) {
	for want, b := range map[string]backoff.Budget{
		"AWSQuota.Capacity is -1, want 0 or more":               &presets.AWSQuota{Capacity: -1},
		"AWSQuota.Cost is -1, want 0 or more":                   &presets.AWSQuota{Cost: -1},
		"AWSQuota.TimeoutCost is -1, want 0 or more":            &presets.AWSQuota{TimeoutCost: -1},
		"AWSQuota.ThrottleCost is -1, want 0 or more":           &presets.AWSQuota{ThrottleCost: -1},
		"AWSQuota.Increment is -1, want 0 or more":              &presets.AWSQuota{Increment: -1},
		"GRPCThrottling.MaxTokens is 0, want 1 to 1000":         &presets.GRPCThrottling{TokenRatio: 1},
		"GRPCThrottling.MaxTokens is -10, want 1 to 1000":       &presets.GRPCThrottling{MaxTokens: -10, TokenRatio: 1},
		"GRPCThrottling.MaxTokens is 1001, want 1 to 1000":      &presets.GRPCThrottling{MaxTokens: 1001, TokenRatio: 1},
		"GRPCThrottling.TokenRatio is 0, want 0.001 or more":    &presets.GRPCThrottling{MaxTokens: 10},
		"GRPCThrottling.TokenRatio is -0.1, want 0.001 or more": &presets.GRPCThrottling{MaxTokens: 10, TokenRatio: -0.1},
		"GRPCThrottling.TokenRatio is NaN, want 0.001 or more":  &presets.GRPCThrottling{MaxTokens: 10, TokenRatio: math.NaN()},
		"GRPCThrottling.TokenRatio is +Inf, want 0.001 or more": &presets.GRPCThrottling{MaxTokens: 10, TokenRatio: math.Inf(1)},
		"GRPCThrottling is nil":                                 (*presets.GRPCThrottling)(nil),
		"AWSQuota is nil":                                       (*presets.AWSQuota)(nil),
	} {
		require.EqualError(t, b.Validate(), "backoff: presets."+want)
		never := func(context.Context) error { panic("called") }
		err := backoff.Policy{Budget: b}.Do(t.Context(), never)
		if strings.HasSuffix(want, " is nil") {
			require.EqualError(t, err, "backoff: Policy.Budget holds a nil pointer")
		} else {
			require.EqualError(t, err, "backoff: presets."+want)
		}
	}
}

// A call of the quota's tests: its attempts, and the tokens after each. Each
// attempt asks for a retry if it fails, as the SDK does.
//
//	500 a server error, 400 a throttling error, 0 a timeout, 200 a success
type awsCall struct {
	attempts []int
	tokens   []int
	refused  bool // the last retry
}

func runAWSCall(t *testing.T, b *presets.AWSQuota, c awsCall) {
	t.Helper()
	ticket := begin(t, b)
	for i, status := range c.attempts {
		again := backoff.Attempt{Number: i + 2, Class: backoff.ClassRetryable}
		switch status {
		case 200:
			b.Done(ticket, backoff.Result{})
			require.Equal(t, c.tokens[i], b.Tokens(), "after attempt %d of %+v", i+1, c)
			return
		case 500:
			b.Done(ticket, backoff.Result{Failed: true})
		case 400:
			b.Done(ticket, backoff.Result{Failed: true, Class: backoff.ClassThrottled})
			again.Class = backoff.ClassThrottled
		case 0:
			b.Done(ticket, backoff.Result{Failed: true, TimedOut: true})
			again.TimedOut = true
		}
		var ok bool
		if i < len(c.attempts)-1 || c.refused {
			ticket, _, ok = b.Reserve(again)
			require.Equal(t, i < len(c.attempts)-1, ok, "after attempt %d of %+v", i+1, c)
		}
		require.Equal(t, c.tokens[i], b.Tokens(), "after attempt %d of %+v", i+1, c)
	}
}

type quotaTest struct {
	name     string
	capacity int
	calls    []awsCall
}

func runQuotaTests(t *testing.T, quota func() *presets.AWSQuota, tests []quotaTest) {
	for _, c := range tests {
		b := quota()
		b.Capacity = c.capacity
		require.NoError(t, b.Validate())
		for _, call := range c.calls {
			runAWSCall(t, b, call)
		}
	}
}

// The SDK's own sequences for its edition of 2026.
func TestAWSQuotaByTheTestsOfTheSDK(t *testing.T) {
	runQuotaTests(t, presets.NewAWSQuota2026, []quotaTest{
		{"retry eventually succeeds", 500, []awsCall{{attempts: []int{500, 500, 200}, tokens: []int{486, 472, 486}}}},
		{"fail due to max attempts reached", 500, []awsCall{{attempts: []int{500, 500, 500}, tokens: []int{486, 472, 472}}}},
		{"retry quota reached after a single retry", 14, []awsCall{{attempts: []int{500, 500}, tokens: []int{0, 0}, refused: true}}},
		{"no retries at all if retry quota is 0", 0, []awsCall{{attempts: []int{500}, tokens: []int{0}, refused: true}}},
		{"five attempts", 500, []awsCall{{attempts: []int{500, 500, 500, 500, 500}, tokens: []int{486, 472, 458, 444, 444}}}},
		{"retry stops after retry quota exhaustion", 20, []awsCall{{attempts: []int{500, 500}, tokens: []int{6, 6}, refused: true}}},
		{"retry quota recovery after successful responses", 30, []awsCall{
			{attempts: []int{500, 500, 200}, tokens: []int{16, 2, 16}},
			{attempts: []int{500, 200}, tokens: []int{2, 16}},
		}},
		{"throttling error", 500, []awsCall{{attempts: []int{400, 200}, tokens: []int{495, 500}}}},
		{"timeouts are not special", 500, []awsCall{{attempts: []int{0, 200}, tokens: []int{486, 500}}}},
		{"a first attempt that succeeds adds 1", 30, []awsCall{
			{attempts: []int{500, 500}, tokens: []int{16, 16}},
			{attempts: []int{200}, tokens: []int{17}},
			{attempts: []int{500, 200}, tokens: []int{3, 17}},
		}},
	})
}

func TestAWSQuotaOfTheStandardMode(t *testing.T) {
	runQuotaTests(t, presets.NewAWSQuota, []quotaTest{
		{"a retry costs 5, and every success adds 1", 500, []awsCall{
			{attempts: []int{500, 500, 500}, tokens: []int{495, 490, 490}},
			{attempts: []int{200}, tokens: []int{491}},
			{attempts: []int{500, 200}, tokens: []int{486, 492}},
		}},
		{"a timeout costs 10", 500, []awsCall{{attempts: []int{0, 0, 500}, tokens: []int{490, 480, 480}}}},
		{"throttling is nothing special", 500, []awsCall{{attempts: []int{400, 500}, tokens: []int{495, 495}}}},
		{"never beyond its capacity", 500, []awsCall{{attempts: []int{200}, tokens: []int{500}}, {attempts: []int{500, 200}, tokens: []int{495, 500}}}},
		{"denied if short", 9, []awsCall{{attempts: []int{500, 500}, tokens: []int{4, 4}, refused: true}, {attempts: []int{0}, tokens: []int{4}, refused: true}}},
	})
}

func TestAWSQuotaIsFullAtTheStartAndWorth100Retries(t *testing.T) {
	require.Equal(t, 100, grants(presets.NewAWSQuota(), 1000))
	require.Equal(t, 35, grants(presets.NewAWSQuota2026(), 1000))
}

func TestAWSQuotaIsRefilledBySuccessNotByTime(t *testing.T) {
	b := presets.NewAWSQuota()
	grants(b, 1000)
	_, _, ok := b.Reserve(backoff.Attempt{Number: 2, Now: time.Now().Add(time.Hour)})
	require.False(t, ok)
	repeat(1000, func() { finish(t, b, "permanent") })
	require.Zero(t, b.Tokens())
	repeat(1000, func() { finish(t, b, "success") })
	require.Equal(t, 500, b.Tokens())
}

// A timeout is known by the attempt that it ended.
func TestAWSQuotaLearnsOfTimeoutsFromThePolicy(t *testing.T) {
	b := presets.NewAWSQuota()
	p := backoff.Policy{Budget: b, MaxAttempts: 3, AttemptTimeout: time.Millisecond, Schedule: backoff.Constant(0)}
	_ = p.Do(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	require.Equal(t, 480, b.Tokens())
	_ = p.Do(t.Context(), func(context.Context) error { return errTransient })
	require.Equal(t, 470, b.Tokens())
}

// What is left, and whether a retry may be made, after attempts that fail (F)
// or succeed (s).
func TestGRPCThrottlingCountsInThousandths(t *testing.T) {
	for _, c := range []struct {
		tokens   int
		ratio    float64
		attempts string
		left     float64
		retry    bool
	}{
		{10, 0.1, "", 10, true},
		{10, 0.1, "ssss", 10, true}, // full
		{10, 0.1, "FFFF", 6, true},
		{10, 0.1, "FFFFF", 5, false}, // more than the half, not the half
		{10, 0.1, "FFFFFs", 5.1, true},
		{10, 0.1, "FFFFFssssssssssF", 5, false}, // floats would have it above, or below
		{10, 0.1, "FFFFFsssssssssssF", 5.1, true},
		{10, 0.1, "FFFFFFFFFFFFFFFFFFFF", 0, false}, // not below 0
		{10, 0.1, "FFFFFFFFFFFFs", 0.1, false},
		{1000, 0.1, "FFFF", 996, true},
		{1, 0.5, "F", 0, false},
		{1, 0.5, "Fs", 0.5, false},
		{1, 0.5, "Fss", 1, true},
		{3, 1, "F", 2, true},
		{3, 1, "FF", 1, false},
		{10, 0.0019, "Fs", 9.001, true}, // a fourth decimal is ignored
		{10, 0.001, "Fsss", 9.003, true},
		{10, 0.29, "Fs", 9.29, true},
		{10, 0.57, "FFs", 8.57, true},
		{10, 0.1, strings.Repeat("F", 100) + strings.Repeat("s", 60) + "F", 5, false}, // after an outage
		{10, 0.1, strings.Repeat("F", 100) + strings.Repeat("s", 61) + "F", 5.1, true},
	} {
		b := &presets.GRPCThrottling{MaxTokens: c.tokens, TokenRatio: c.ratio}
		require.NoError(t, b.Validate())
		for _, attempt := range c.attempts {
			if attempt == 'F' {
				finish(t, b, "failed")
			} else {
				finish(t, b, "success")
			}
		}
		require.Equal(t, c.left, b.Tokens(), "%+v", c)
		_, ok := askRetry(b)
		require.Equal(t, c.retry, ok, "%+v", c)
	}
}

func TestGRPCThrottlingCountsFailuresThatCouldBeRetried(t *testing.T) {
	for o, want := range map[string]float64{
		"success":   5.1,
		"permanent": 5,
		"failed":    4,
		"throttled": 4, // a "don't retry" pushback among them
		"timeout":   4,
		"canceled":  5,
		"not sent":  5,
	} {
		b := presets.NewGRPCThrottling()
		repeat(5, func() { finish(t, b, "failed") })
		finish(t, b, o)
		require.Equal(t, want, b.Tokens(), "outcome %d", o)
	}
}

// The last attempt of a call counts, and a pushback that
// forbids a retry.
func TestGRPCThrottlingCountsEveryFailedAttempt(t *testing.T) {
	b := presets.NewGRPCThrottling()
	p := presets.GRPCRetry()
	p.Budget, p.MaxAttempts, p.Schedule = b, 2, backoff.Constant(0)
	_ = p.Do(t.Context(), func(context.Context) error { return errTransient })
	require.Equal(t, 8.0, b.Tokens())
	_ = p.Do(t.Context(), func(context.Context) error { return backoff.Pushback(errors.New("no"), -1) })
	require.Equal(t, 7.0, b.Tokens())
	_ = p.Do(t.Context(), func(context.Context) error { return backoff.Permanent(errors.New("not found")) })
	require.Equal(t, 7.0, b.Tokens())
	require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
	require.Equal(t, 7.1, b.Tokens())
}
