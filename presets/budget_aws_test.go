package presets_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

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
			b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeTransient})
		case 400:
			b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeThrottled})
			again.Class = backoff.ClassThrottled
		case 0:
			b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeTimeout})
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

func TestAWSQuotaIsWorth100RetriesOnManyGoroutines(t *testing.T) {
	b := presets.NewAWSQuota()
	var granted atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { granted.Add(int64(grants(b, 200))) })
	}
	all.Wait()
	require.EqualValues(t, 100, granted.Load())
}

func TestAWSQuotaIsRefilledBySuccessNotByTime(t *testing.T) {
	b := presets.NewAWSQuota()
	grants(b, 1000)
	_, _, ok := b.Reserve(backoff.Attempt{Number: 2, Now: time.Now().Add(time.Hour)})
	require.False(t, ok)
	repeat(1000, func() { finish(t, b, backoff.OutcomeDefinitive) })
	require.Zero(t, b.Tokens())
	repeat(1000, func() { finish(t, b, backoff.OutcomeSuccess) })
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
