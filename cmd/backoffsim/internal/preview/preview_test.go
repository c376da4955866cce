package preview_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/preview"
	"github.com/gobackoff/backoff/internal/shape"
)

func TestPreviewOfTheZeroPolicy(t *testing.T) {
	policy := backoff.Policy{Rand: func() float64 { panic("a preview draws nothing") }}
	view := preview.Of(policy, 0)
	require.Len(t, view.Waits, 3, "the retries that MaxAttempts allows")
	for i, delay := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		w := view.Waits[i]
		require.Equal(t, delay, w.Delay)
		require.Zero(t, w.Min)
		require.InEpsilon(t, delay/2, w.Mean, 0.001)
		require.InDelta(t, delay, w.Max, 1)
	}
	require.InDelta(t, 700*time.Millisecond, view.Worst, 3)
}

func TestPreviewShowsAsManyRetriesAsAskedUpToAThousand(t *testing.T) {
	for _, row := range []struct{ n, limit, want int }{
		{0, 0, 3}, {-5, 0, 3}, {1, 0, 1}, {50, 0, 50}, {0, 1, 0}, {0, -1, 10}, {0, 12, 11},
		{math.MaxInt, 0, 1000}, {0, math.MaxInt, 1000},
	} {
		policy := backoff.Policy{MaxAttempts: row.limit}
		require.Len(t, preview.Of(policy, row.n).Waits, row.want, "%+v", row)
	}
	never := backoff.Policy{MaxAttempts: 1}
	require.Equal(t, preview.Preview{Waits: []preview.Wait{}}, preview.Of(never, 0))
}

func TestTheWorstOfAPreviewKnowsTheLimitsOfTime(t *testing.T) {
	const s = time.Second
	for name, row := range map[string]struct {
		adjust func(*backoff.Policy)
		want   time.Duration
	}{
		"waits alone":          {func(*backoff.Policy) {}, 30 * s},
		"and attempts":         {func(p *backoff.Policy) { p.AttemptTimeout = 2 * s }, 38 * s},
		"growing ones":         {func(p *backoff.Policy) { p.AttemptTimeoutSchedule = backoff.Linear{Initial: s} }, 40 * s},
		"one without a limit":  {func(p *backoff.Policy) { p.AttemptTimeoutSchedule = backoff.Sequence(s, 0, s) }, 30 * s},
		"MaxElapsed":           {func(p *backoff.Policy) { p.MaxElapsed = 25 * s }, 25 * s},
		"MaxElapsed, attempts": {func(p *backoff.Policy) { p.MaxElapsed, p.AttemptTimeout = 35*s, 2*s }, 35 * s},
		"MaxElapsed, far":      {func(p *backoff.Policy) { p.MaxElapsed, p.AttemptTimeout = time.Hour, 2*s }, 38 * s},
		"MaxDelay":             {func(p *backoff.Policy) { p.MaxDelay = 4 * s }, 12 * s},
		"the largest":          {func(p *backoff.Policy) { p.Schedule = backoff.Constant(math.MaxInt64) }, math.MaxInt64},
		"the largest attempts": {func(p *backoff.Policy) { p.AttemptTimeout = math.MaxInt64 }, math.MaxInt64},
	} {
		policy := backoff.Policy{Schedule: backoff.Constant(10 * s), Jitter: backoff.NoJitter}
		row.adjust(&policy)
		require.Equal(t, row.want, preview.Of(policy, 0).Worst, name)
	}
}

// A preview follows many calls, so that a jitter that uses the previous wait
// has one.
func TestPreviewFollowsDecorrelatedJitter(t *testing.T) {
	const calls = 20_000
	policy := backoff.Policy{MaxAttempts: 9, Jitter: backoff.DecorrelatedJitter(100*time.Millisecond, 10*time.Second)}
	rng := rand.New(rand.NewPCG(11, 12))
	var sums [8]float64
	for range calls {
		prev := time.Duration(0)
		for i := range sums {
			prev = policy.Jitter(0, prev, rng.Float64())
			sums[i] += float64(prev)
		}
	}
	view := preview.Of(policy, 0)
	longest := 100 * time.Millisecond
	for i, w := range view.Waits {
		longest = min(3*longest, 10*time.Second)
		require.Equal(t, 100*time.Millisecond, w.Min)
		require.InEpsilon(t, longest, w.Max, 1e-6)
		require.InEpsilon(t, sums[i]/calls, w.Mean, 0.03, "retry %d", i+1)
	}
}

// The wait is a whole number of slots, of which all are as likely.
func TestPreviewOfSlottedJitterReachesFromZeroToTheDelay(t *testing.T) {
	const slot = time.Millisecond
	policy := backoff.Policy{MaxAttempts: 5, Schedule: backoff.Sequence(2*slot, 8*slot, 26*slot, 80*slot), Jitter: shape.Slotted(slot)}
	for _, w := range preview.Of(policy, 0).Waits {
		require.Zero(t, w.Min)
		require.Equal(t, w.Delay, w.Max)
		require.InEpsilon(t, w.Delay/2, w.Mean, 0.01)
	}
}

// The preview of a class is that of calls which fail with this class only.
func TestACallThatFailsWithOneClassWaitsAsThePreviewOfTheClass(t *testing.T) {
	half := func(delay, _ time.Duration, _ float64) time.Duration { return delay / 2 }
	policy := backoff.Policy{
		MaxAttempts: 3, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter,
		ByClass: map[backoff.Class]backoff.ClassLimits{
			backoff.ClassUnknown:   {Schedule: backoff.Exponential{Initial: time.Minute, Max: time.Minute}},
			backoff.ClassNotSent:   {MaxAttempts: -1},
			backoff.ClassRetryable: {Jitter: half},
			backoff.ClassThrottled: {MaxAttempts: 6, Schedule: backoff.Linear{Initial: 2 * time.Second}},
		},
	}
	for class := backoff.ClassUnknown; class <= backoff.ClassThrottled; class++ {
		one := preview.ForClass(policy, class)
		view := preview.Of(one, 0)
		synctest.Test(t, func(t *testing.T) {
			for i, w := range view.Waits {
				d := policy.Decide(i+1, backoff.OfClass(errors.New("down"), class))
				require.True(t, d.Again, class)
				require.Equal(t, w.Max, d.Wait, class)
			}
			d := policy.Decide(len(view.Waits)+1, backoff.OfClass(errors.New("down"), class))
			require.Equal(t, one.MaxAttempts < 0, d.Again, class)
		})
		require.Nil(t, one.ByClass)
	}
	require.Len(t, policy.ByClass, 4)
}

// A jitter need not grow with its draw.
func TestPreviewBoundsAJitterThatIsNotMonotonic(t *testing.T) {
	policy := backoff.Policy{
		Schedule: backoff.Constant(time.Second), MaxAttempts: 2,
		Jitter: func(delay, _ time.Duration, u float64) time.Duration {
			return time.Duration(float64(delay) * 4 * u * (1 - u)) // 0 at both ends, the delay in the middle
		},
	}
	w := preview.Of(policy, 0).Waits[0]
	require.Zero(t, w.Min)
	require.InEpsilon(t, time.Second, w.Max, 0.001)
	require.InEpsilon(t, 2*time.Second/3, w.Mean, 0.001)
}

// No call waits outside its preview, times the factor of its priority.
func TestNoCallWaitsOutsideItsPreview(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for name, policy := range map[string]backoff.Policy{
		"default":      {},
		"equal":        {Jitter: backoff.EqualJitter, Schedule: backoff.Linear{}},
		"decorrelated": {Jitter: backoff.DecorrelatedJitter(time.Second, time.Minute), MaxAttempts: 9},
		"gRPC":         {Jitter: backoff.UniformJitter(0.8, 1.2), Schedule: backoff.Exponential{Multiplier: 1.6}},
		"slotted":      {Jitter: shape.Slotted(7 * time.Millisecond)},
		"bounded":      {Jitter: shape.Added(time.Second), MaxDelay: 1200 * time.Millisecond},
	} {
		policy.Rand = rng.Float64
		view := preview.Of(policy, 0)
		for n := range 200 {
			scaled := func(d time.Duration) time.Duration {
				d = time.Duration(float64(d) * [...]float64{4, 1, 0.5}[n%3])
				return min(d, cmp.Or(policy.MaxDelay, d))
			}
			synctest.Test(t, func(t *testing.T) {
				ctx := backoff.WithPriority(t.Context(), backoff.PriorityBackground+backoff.Priority(n%3))
				var at []time.Duration // of the attempts
				began := time.Now()
				require.Error(t, policy.Do(ctx, func(context.Context) error {
					at = append(at, time.Since(began))
					return errors.New("down")
				}))
				require.Len(t, at, len(view.Waits)+1)
				for i, w := range view.Waits {
					wait := at[i+1] - at[i]
					require.GreaterOrEqual(t, wait, scaled(w.Min), name)
					require.LessOrEqual(t, wait, scaled(w.Max), name)
				}
				require.True(t, n%3 == 0 || at[len(at)-1] <= view.Worst, name) // it is not for a background call
			})
		}
	}
}
