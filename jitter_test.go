package backoff_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// The draws and delays at which arithmetic goes wrong.
var (
	awkwardDraws  = []float64{0, math.SmallestNonzeroFloat64, 0x1p-53, 0.1, 1. / 3, 0.5, 0.75, 1 - 0x1p-53}
	awkwardDelays = []time.Duration{0, 1, 2, 3, 100 * time.Millisecond, 30 * time.Second, 1<<53 - 1, 1<<53 + 1, forever / 3, forever/2 + 1, forever - 1, forever}
)

// Where a wait may fall, whatever the delay,
// the wait before and the draw.
func TestEveryJitterKeepsItsBounds(t *testing.T) {
	const base, limit = 100 * time.Millisecond, 30 * time.Second
	tripled := func(d time.Duration) time.Duration {
		if d > forever/3 {
			return forever
		}
		return 3 * d
	}
	none := func(_, _ time.Duration) time.Duration { return 0 }
	half := func(d, _ time.Duration) time.Duration { return d / 2 }
	whole := func(d, _ time.Duration) time.Duration { return d }
	least := func(_, _ time.Duration) time.Duration { return base }
	for _, row := range []struct {
		name   string
		jitter backoff.Jitter
		lo, hi func(delay, prev time.Duration) time.Duration
	}{
		{"none", backoff.NoJitter, whole, whole},
		{"full", backoff.FullJitter, none, whole},
		{"equal", backoff.EqualJitter, half, whole},
		{"decorrelated", backoff.DecorrelatedJitter(base, limit), least,
			func(_, p time.Duration) time.Duration { return min(tripled(max(p, base)), limit) }},
		{"decorrelated, unbounded", backoff.DecorrelatedJitter(base, -1), least,
			func(_, p time.Duration) time.Duration { return tripled(max(p, base)) }},
		{"uniform", backoff.UniformJitter(0.5, 1),
			func(d, _ time.Duration) time.Duration { return d/2 - d>>52 }, // a float64 has 53 bits
			func(d, _ time.Duration) time.Duration { return d + min(d>>52, forever-d) }},
	} {
		for _, delay := range awkwardDelays {
			for _, prev := range awkwardDelays {
				for _, u := range awkwardDraws {
					wait := row.jitter(delay, prev, u)
					require.GreaterOrEqual(t, wait, row.lo(delay, prev), "%s(%d, %d, %v)", row.name, delay, prev, u)
					require.LessOrEqual(t, wait, row.hi(delay, prev), "%s(%d, %d, %v)", row.name, delay, prev, u)
				}
			}
		}
	}
}

// The draw is a number between two ends, so the ends and the middle fix the
// rest.
func TestJittersMapTheDrawOntoTheirRange(t *testing.T) {
	const s = time.Second
	almost := 1 - 0x1p-53
	for _, row := range []struct {
		name              string
		jitter            backoff.Jitter
		delay, prev       time.Duration
		low, middle, high time.Duration
	}{
		{"full", backoff.FullJitter, 10 * s, 0, 0, 5 * s, 10*s - 1},
		{"equal", backoff.EqualJitter, 10 * s, 0, 5 * s, 7500 * time.Millisecond, 10*s - 1},
		{"decorrelated, first", backoff.DecorrelatedJitter(s, 20*s), 0, 0, s, 2 * s, 3*s - 1},
		{"decorrelated, next", backoff.DecorrelatedJitter(s, 20*s), 0, 3 * s, s, 5 * s, 9*s - 1},
		{"decorrelated, at max", backoff.DecorrelatedJitter(s, 20*s), 0, 20 * s, s, 20 * s, 20 * s},
		{"decorrelated, from below", backoff.DecorrelatedJitter(s, 20*s), 0, 1, s, 2 * s, 3*s - 1},
		{"decorrelated, defaults", backoff.DecorrelatedJitter(0, 0), 0, 30 * s, 100 * time.Millisecond, 30 * s, 30 * s},
		{"decorrelated, long base", backoff.DecorrelatedJitter(40*s, 0), 0, 0, 40 * s, 80 * s, 120*s - 1},
		{"decorrelated, long base, at max", backoff.DecorrelatedJitter(40*s, 0), 0, 1200 * s, 40 * s, 1200 * s, 1200 * s},
		{"uniform", backoff.UniformJitter(0.8, 1.2), 10 * s, 0, 8 * s, 10 * s, 12*s - 1},
		{"uniform, none", backoff.UniformJitter(0, 0), 10 * s, 0, 0, 0, 0},
	} {
		require.InDelta(t, row.low, row.jitter(row.delay, row.prev, 0), 1, "%s, low", row.name)
		require.InDelta(t, row.middle, row.jitter(row.delay, row.prev, 0.5), 1, "%s, middle", row.name)
		require.InDelta(t, row.high, row.jitter(row.delay, row.prev, almost), 1, "%s, high", row.name)
	}
}

func TestNoJitterDrawsNoNumber(t *testing.T) {
	policy := backoff.Policy{Jitter: backoff.NoJitter, Rand: func() float64 { panic("drawn") }}
	require.Equal(t, 100*time.Millisecond, policy.WaitBefore(1))
}

// Where a draw gives the largest wait there is, one more nanosecond must not
// make it the smallest.
func TestTheSpreadSaturatesInsteadOfWrapping(t *testing.T) {
	require.Equal(t, forever, backoff.UniformJitter(1, math.MaxFloat64)(forever, 0, 0.5))
	require.InEpsilon(t, float64(forever)*3/4, float64(backoff.DecorrelatedJitter(forever/2, -1)(0, forever, 0.5)), 1e-9)
}

// Uniform over the range, by a Kolmogorov-Smirnov
// test at a significance of 0.1 % on a fixed seed, and by the mean, within 4
// standard errors.
func TestWaitsAreUniformOverTheirRange(t *testing.T) {
	const n, delay = 20_000, 10 * time.Second
	for name, row := range map[string]struct {
		jitter backoff.Jitter
		lo, hi time.Duration
	}{
		"full":         {backoff.FullJitter, 0, delay},
		"equal":        {backoff.EqualJitter, delay / 2, delay},
		"uniform":      {backoff.UniformJitter(0.8, 1.2), 8 * time.Second, 12 * time.Second},
		"decorrelated": {backoff.DecorrelatedJitter(time.Second, time.Minute), time.Second, 6 * time.Second}, // after 2 s
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		sample := make([]float64, n)
		mean := 0.0
		for i := range sample {
			sample[i] = float64(row.jitter(delay, 2*time.Second, rng.Float64())-row.lo) / float64(row.hi-row.lo)
			mean += sample[i] / n
		}
		require.Less(t, distance(sample), 1.95/math.Sqrt(n), "%s: not uniform", name)
		require.InDelta(t, 0.5, mean, 4*math.Sqrt(1./12/n), "%s: mean", name)
	}
}

// Without Rand the numbers are drawn in integers, on a path of its own. The
// test is the same, on no fixed seed, and fails once in a million runs.
func TestTheDefaultDrawIsUniformToo(t *testing.T) {
	const n, delay = 20_000, 10 * time.Second
	policy := backoff.Policy{Schedule: backoff.Constant(delay)}
	sample := make([]float64, n)
	for i := range sample {
		wait := policy.WaitBefore(1)
		require.GreaterOrEqual(t, wait, time.Duration(0))
		require.Less(t, wait, delay)
		sample[i] = float64(wait) / float64(delay)
	}
	require.Less(t, distance(sample), 2.7/math.Sqrt(n))
}

// distance is that of Kolmogorov and Smirnov between a sample and the uniform
// distribution.
func distance(sample []float64) (most float64) {
	slices.Sort(sample)
	n := float64(len(sample))
	for i, x := range sample {
		most = max(most, x-float64(i)/n, float64(i+1)/n-x)
	}
	return most
}

func TestEveryWaitIsDrawnAfresh(t *testing.T) {
	policy := backoff.Policy{
		Schedule: backoff.Constant(time.Second), MaxAttempts: 6,
		Rand: draws(0.1, 0.9, 0, 0.5, 0.3), // and no more: the last failure draws nothing
	}
	at, err := attempts(t, policy, errBoom)
	require.Error(t, err)
	require.Equal(t, msec(0, 100, 1000, 1000, 1500, 1800), at)
}

func TestAJitterIsToldTheDelayThePreviousWaitAndTheDraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type args struct {
			delay, prev time.Duration
			u           float64
		}
		var got []args
		recording := false
		policy := backoff.Policy{
			Schedule: backoff.Linear{Initial: time.Second}, Rand: draws(0.25, 0.5, 0.75),
			Jitter: func(delay, prev time.Duration, u float64) time.Duration {
				if recording {
					got = append(got, args{delay, prev, u})
				}
				return delay + time.Minute
			},
		}
		_ = policy.Do(t.Context(), func(context.Context) error { recording = true; return errBoom })
		require.Equal(t, []args{
			{time.Second, 0, 0.25}, {2 * time.Second, 61 * time.Second, 0.5}, {3 * time.Second, 62 * time.Second, 0.75},
		}, got)
	})
}

// The doc comment of Jitter: "A negative wait counts as 0."
func TestAJittersNegativeWaitCountsAsZero(t *testing.T) {
	policy := backoff.Policy{
		Schedule: backoff.Linear{Initial: 2 * time.Second},
		Jitter:   func(delay, _ time.Duration, _ float64) time.Duration { return delay - 4*time.Second },
	}
	require.NoError(t, policy.Validate())
	at, err := attempts(t, policy, errBoom)
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, msec(0, 0, 0, 2000), at)
	require.Zero(t, policy.WaitBefore(1))
}

// The previous wait lives in the call. Two calls that
// take turns under one policy wait as they would alone.
func TestDecorrelatedCallsDoNotMix(t *testing.T) {
	policy := backoff.Policy{Jitter: backoff.DecorrelatedJitter(time.Second, time.Hour), MaxAttempts: -1, Rand: fixed(0.5)}
	long, short := policy.Start(t.Context()), policy.Start(t.Context())
	next := func(r *backoff.Run) time.Duration {
		wait, ok := r.Tried(errBoom)
		require.True(t, ok)
		return wait
	}
	// From a wait w follows 1 + (3w-1)/2 s.
	require.Equal(t, 2*time.Second, next(long))
	require.Equal(t, 3500*time.Millisecond, next(long))
	require.Equal(t, 2*time.Second, next(short))
	require.Equal(t, 5750*time.Millisecond, next(long))
	require.Equal(t, 3500*time.Millisecond, next(short))
	require.Equal(t, 2*time.Second, policy.WaitBefore(7), "without a call every wait is the first")
}

// A jitter that adds, or does not look at the delay, has its say also where
// that is 0.
func TestAJitterMayMakeAWaitOfNoDelay(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Constant(0), Rand: fixed(0.5), Jitter: backoff.DecorrelatedJitter(time.Second, time.Minute)}
	require.Equal(t, 2*time.Second, policy.WaitBefore(1))
	policy.Jitter, policy.Rand = nil, func() float64 { panic("there is nothing to spread") }
	require.Zero(t, policy.WaitBefore(1))
}

func TestMaxDelayBoundsTheWaitAfterJitter(t *testing.T) {
	policy := backoff.Policy{
		Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.UniformJitter(1, 2),
		MaxDelay: 4 * time.Second, Rand: fixed(0.5),
	}
	var waits []time.Duration
	for retry := range 5 {
		waits = append(waits, policy.WaitBefore(retry))
	}
	require.Equal(t, msec(0, 1500, 3000, 4000, 4000), waits)
	policy.MaxDelay = -1
	require.Equal(t, 6*time.Second, policy.WaitBefore(3), "negative is no limit")
}

// What a jitter is told to be uniform from [0,1) is in [0,1).
func TestMaxDelayBoundsTheWaitOfTheDefaultJitterToo(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Constant(24 * time.Hour), MaxDelay: time.Second}
	require.LessOrEqual(t, policy.WaitBefore(1), time.Second)
}

func TestAJitterForgetsThePreviousWaitWhereTheScheduleStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var prevs []time.Duration
		policy := backoff.Policy{Jitter: func(delay, prev time.Duration, _ float64) time.Duration {
			prevs = append(prevs, prev)
			return delay
		}}
		r := policy.Start(t.Context())
		for _, err := range []error{errBoom, backoff.Pushback(errBoom, 0), errBoom} {
			r.Tried(err)
		}
		r.Progress()
		r.Tried(errBoom)
		require.Equal(t, msec(0, 100, 0, 0), prevs[len(prevs)-4:], "after a Pushback, and a Progress")
	})
}

func TestAJitterIsHandedADrawBelowOne(t *testing.T) {
	const almost = 1 - 0x1p-53
	for drawn, want := range map[float64]float64{-1: 0, 0: 0, 0.5: 0.5, almost: almost, 1: almost, 7: almost, math.Inf(1): almost, math.Inf(-1): 0} {
		var got float64
		policy := backoff.Policy{Rand: fixed(drawn), Jitter: func(_, _ time.Duration, u float64) time.Duration { got = u; return 0 }}
		policy.WaitBefore(1)
		require.Equal(t, want, got, "drawn %v", drawn)
	}
}

// A generator that leaves [0,1) must not make a wait leave its range.
func TestABadGeneratorIsForcedIntoRange(t *testing.T) {
	for _, u := range []float64{-1, math.Inf(-1), math.NaN(), 1, 2, math.Inf(1)} {
		for _, jitter := range []backoff.Jitter{nil, backoff.EqualJitter, backoff.DecorrelatedJitter(time.Second, time.Second*3)} {
			policy := backoff.Policy{Schedule: backoff.Constant(3 * time.Second), Jitter: jitter, Rand: fixed(u)}
			require.GreaterOrEqual(t, policy.WaitBefore(1), time.Duration(0), "draw %v", u)
			require.LessOrEqual(t, policy.WaitBefore(1), 3*time.Second, "draw %v", u)
		}
	}
}

// Every jitter, for every parameter, delay, previous wait and draw there is, a
// draw out of range included: what a policy waits is never negative, nor beyond
// MaxDelay.
func FuzzJitters(f *testing.F) {
	f.Add(int64(time.Second), int64(0), int64(100), int64(1000), 0.5, 1.5, 0.25)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(math.MaxInt64), 0.0, math.MaxFloat64, 1-0x1p-53)
	f.Add(int64(math.MaxInt64), int64(1), int64(math.MaxInt64), int64(-1), 1.0, 1.0, math.NaN())
	f.Add(int64(math.MaxInt64), int64(0), int64(1), int64(0), 0.0, 1.0, 0.5)
	f.Add(int64(0), int64(math.MaxInt64), int64(1000), int64(10), 1.0, 0.0, 0.9999999999999999)
	f.Add(int64(1000), int64(1), int64(7), int64(500), 0.5, 1.5, math.Inf(1))
	f.Add(int64(1000), int64(1), int64(-86), int64(500), 0.5, 1.5, math.Inf(1))
	f.Fuzz(func(t *testing.T, delay, prev, a, b int64, lo, hi, u float64) {
		for i, jitter := range []backoff.Jitter{
			backoff.NoJitter, backoff.FullJitter, backoff.EqualJitter, backoff.DecorrelatedJitter(time.Duration(a), time.Duration(b)),
			backoff.UniformJitter(lo, hi),
		} {
			policy := backoff.Policy{
				Schedule: backoff.ScheduleFunc(func(int) time.Duration { return time.Duration(delay) }),
				Jitter:   jitter, MaxDelay: time.Duration(b), Rand: fixed(u),
			}
			if policy.Validate() != nil {
				continue
			}
			if wait := policy.WaitBefore(1); wait < 0 || b > 0 && wait > time.Duration(b) {
				t.Errorf("jitter %d: Delay(1) = %d, MaxDelay %d", i, wait, b)
			}
			if delay < 0 || prev < 0 || !(u >= 0 && u < 1) {
				continue // not what a policy hands on
			}
			if wait := jitter(time.Duration(delay), time.Duration(prev), u); wait < 0 {
				t.Errorf("jitter %d(%d, %d, %v) = %d", i, delay, prev, u, wait)
			}
		}
		if delay >= 0 && u >= 0 && u < 1 {
			if full := backoff.FullJitter(time.Duration(delay), 0, u); full > time.Duration(delay) {
				t.Errorf("FullJitter(%d, %v) = %d", delay, u, full)
			}
			if equal := backoff.EqualJitter(time.Duration(delay), 0, u); equal < time.Duration(delay)/2 || equal > time.Duration(delay) {
				t.Errorf("EqualJitter(%d, %v) = %d", delay, u, equal)
			}
		}
	})
}
