package presets_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

var gcsRows = []row{
	{
		name:     "gcs-cpp-default",
		bounds:   "[1s,2s] [2s,4s] [4s,8s] [8s,16s] [16s,32s] [32s,64s] [64s,128s] [128s,256s]",
		grain:    time.Millisecond,
		attempts: -1,
		total:    900 * time.Second,
	},
	{
		name:     "gcs-cpp-custom-3x",
		bounds:   "[1s,3s] [3s,9s] [9s,27s] [20s,60s] [20s,60s] [20s,60s] [20s,60s] [20s,60s]",
		grain:    time.Millisecond,
		attempts: -1,
		total:    300 * time.Second,
	},
	{
		name:     "gcs-go-default",
		delays:   "1s 2s 4s 8s 16s 30s 30s 30s",
		bounds:   "[0.001us,1s] [0.001us,2s] [0.001us,4s] [0.001us,8s] [0.001us,16s] [0.001us,30s] [0.001us,30s] [0.001us,30s]",
		attempts: -1,
	},
	{
		name:     "gcs-go-resumable-chunk",
		delays:   "100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s",
		bounds:   "[0.001us,100ms] [0.001us,200ms] [0.001us,400ms] [0.001us,800ms] [0.001us,1.6s] [0.001us,3.2s] [0.001us,6.4s] [0.001us,12.8s]",
		attempts: -1,
		total:    32 * time.Second,
	},
	{
		name:     "gcs-go-custom",
		delays:   "2s 6s 18s 54s 60s 60s 60s 60s",
		bounds:   "[0.001us,2s] [0.001us,6s] [0.001us,18s] [0.001us,54s] [0.001us,60s] [0.001us,60s] [0.001us,60s] [0.001us,60s]",
		attempts: -1,
		total:    500 * time.Second,
	},
	{
		name:     "gcs-java-default",
		delays:   "1s 2s 4s 8s 16s 32s 32s 32s",
		bounds:   "[0us,1s] [0us,2s] [0us,4s] [0us,8s] [0us,16s] [0us,32s] [0us,32s] [0us,32s]",
		grain:    time.Millisecond,
		attempts: 6,
		total:    50 * time.Second,
	},
	{
		name:     "gcs-java-custom",
		delays:   "1s 3s 9s 27s 32s 32s 32s 32s",
		bounds:   "[0us,1s] [0us,3s] [0us,9s] [0us,27s] [0us,32s] [0us,32s] [0us,32s] [0us,32s]",
		grain:    time.Millisecond,
		attempts: 10,
		total:    300 * time.Second,
	},
	{
		name:     "gcs-node-seed",
		delays:   "1s 2s 4s 8s 16s 32s 64s 64s",
		bounds:   "[1s,1s] [2s,2s] [4s,4s] [8s,8s] [16s,16s] [32s,32s] [64s,64s] [64s,64s]",
		attempts: 4,
		total:    600 * time.Second,
	},
	{
		name:     "gcs-node-primary",
		delays:   "2s 4s 8s 16s 32s 64s 64s 64s",
		bounds:   "[2s,2.999s] [4s,4.999s] [8s,8.999s] [16s,16.999s] [32s,32.999s] [64s,64s] [64s,64s] [64s,64s]",
		attempts: 4,
		total:    600 * time.Second,
	},
	{
		name:     "gcs-node-custom",
		delays:   "3s 9s 27s 60s 60s 60s 60s 60s",
		bounds:   "[3s,3.999s] [9s,9.999s] [27s,27.999s] [60s,60s] [60s,60s] [60s,60s] [60s,60s] [60s,60s]",
		attempts: 6,
		total:    500 * time.Second,
	},
	{
		name:     "gcs-python-default",
		delays:   "1s 2s 4s 8s 16s 32s 60s 60s",
		bounds:   "[0us,1s] [0us,2s] [0us,4s] [0us,8s] [0us,16s] [0us,32s] [0us,60s] [0us,60s]",
		attempts: -1,
		total:    120 * time.Second,
	},
	{
		name:     "gcs-python-custom",
		delays:   "1.5s 1.8s 2.16s 2.592s 3.1104s 3.73248s 4.478976s 5.3747712s",
		bounds:   "[0us,1.5s] [0us,1.8s] [0us,2.16s] [0us,2.592s] [0us,3.1104s] [0us,3.73248s] [0us,4.478976s] [0us,5.3747712s]",
		attempts: -1,
		total:    500 * time.Second,
	},
	{
		name:     "gcs-ruby-default",
		delays:   "1s 2s 4s 8s 16s 32s 60s 60s",
		bounds:   "[500ms,1.5s] [1s,3s] [2s,6s] [4s,12s] [8s,24s] [16s,48s] [30s,90s] [30s,90s]",
		attempts: 4,
		total:    900 * time.Second,
	},
	{
		name:     "gcs-ruby-custom",
		delays:   "1.5s 1.8s 2.16s 2.592s 3.1104s 3.73248s 4.478976s 5.3747712s",
		bounds:   "[750ms,2.25s] [900ms,2.7s] [1.08s,3.24s] [1.296s,3.888s] [1.5552s,4.6656s] [1.86624s,5.59872s] [2.239488s,6.718464s] [2.6873856s,8.0621568s]",
		attempts: 6,
		total:    500 * time.Second,
	},
	{
		name:     "gcs-php-default",
		delays:   "1s 2s 4s 8s 16s 32s 60s 60s",
		bounds:   "[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,33s] [60s,60s] [60s,60s]",
		attempts: 4,
	},
	{
		name:   "gcs-csharp-default",
		delays: "1s 2s 4s 8s 16s 32s 32s 32s",
		bounds: "[1s,1s] [2s,2s] [4s,4s] [8s,8s] [16s,16s] [32s,32s] [32s,32s] [32s,32s]",
	},
}

// Contract row 102.
func TestGCSCppWindowsStartWhereTheLastEndedAndRestAtTheMaximum(t *testing.T) {
	low, high := presets.GCSCpp(0, 0, 0, 0), presets.GCSCpp(0, 0, 0, 0)
	low.Rand, high.Rand = always(0), always(top)
	for retry := 2; retry <= 8; retry++ {
		require.InDelta(t, high.Delay(retry-1), low.Delay(retry), float64(time.Millisecond))
	}
	for _, retry := range []int{9, 10, 64, 1000} {
		require.Equal(t, 150*time.Second, low.Delay(retry), "not where the last one ended, 256 s")
		require.InDelta(t, 300*time.Second, high.Delay(retry), float64(time.Millisecond))
	}
}

// Contract row 103.
func TestGCSCppFourthWindowIsThatOfTheCodeNotOfTheDocument(t *testing.T) {
	p := presets.GCSCpp(time.Second, time.Minute, 3, 0)
	p.Rand = always(0)
	require.Equal(t, 20*time.Second, p.Delay(4))
}

func TestGCSCppWindowNeverStartsBelowTheInitialDelay(t *testing.T) {
	p := presets.GCSCpp(time.Second, 1500*time.Millisecond, 3, 0)
	p.Rand = always(0)
	require.Equal(t, time.Second, p.Delay(1))
	require.Equal(t, time.Second, p.Delay(9))
	require.NoError(t, p.Validate())
}

func TestGCSCppWaitsWholeMilliseconds(t *testing.T) {
	p := presets.GCSCpp(0, 0, 0, 0)
	p.Rand = always(1.0 / 3)
	require.Equal(t, 1333*time.Millisecond, p.Delay(1))
}

func TestGCSCppRefusesAScalingBelowOne(t *testing.T) {
	p := presets.GCSCpp(0, 0, 0.5, 0)
	require.Error(t, p.Validate())
}

func TestGCSGoNeverWaitsZero(t *testing.T) {
	p := presets.GCSGoDefault()
	require.Equal(t, time.Duration(1), p.Jitter(time.Second, 0, 0))
	require.Equal(t, time.Duration(1), p.Jitter(1, 0, top))
	require.Zero(t, p.Jitter(0, 0, 0.5))
}

func TestGCSGoEndsWithItsContextOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSGoDefault()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		err := p.Do(ctx, fails)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errTransient)
		require.Greater(t, time.Since(start), 59*time.Minute)
		require.LessOrEqual(t, time.Since(start), time.Hour)
	})
}

func TestGCSGoResumableChunkStartsAgainWithProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSGoResumableChunk()
		p.Rand = always(0.5) // waits 50 ms, 100 ms, ...: nine of them take 25.55 s, the tenth would pass 32 s
		run := p.Start(t.Context())
		start := time.Now()
		var at []time.Duration
		for n := range run.Attempts() {
			if n == 10 {
				run.Progress() // the first chunk is through, and the second one fails
			}
			at = append(at, time.Since(start).Round(time.Millisecond))
			run.Fail(errTransient)
		}
		require.ErrorIs(t, run.Err(), backoff.ErrExhausted)
		require.Len(t, at, 19)
		require.Equal(t, 25550*time.Millisecond, at[9])
		require.Equal(t, 25600*time.Millisecond, at[10], "the schedule starts again")
		require.Equal(t, 51100*time.Millisecond, at[18], "and so do the 32 s")
	})
}

// Contract row 110.
func TestGCSGoCustomEndsWithAContextOf500Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSGoCustom()
		require.Equal(t, backoff.AlwaysRetry, p.Idempotency)
		p.MaxElapsed = 0
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Second)
		defer cancel()
		start := time.Now()
		err := p.Do(ctx, fails)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errTransient, "the last error is joined")
		require.LessOrEqual(t, time.Since(start), 500*time.Second)
	})
}

// Contract row 115.
func TestGCSJavaCutsTheAttemptToWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSJavaDefault()
		p.Rand = always(0.5)
		var limits []time.Duration
		err := p.Do(t.Context(), func(ctx context.Context) error {
			limits = append(limits, remaining(t, ctx))
			if len(limits) == 1 {
				time.Sleep(30 * time.Second)
				return errTransient
			}
			<-ctx.Done()
			return ctx.Err()
		})
		var gaveUp *backoff.Error
		require.ErrorAs(t, err, &gaveUp)
		require.Equal(t, backoff.ReasonElapsed, gaveUp.Reason)
		require.Equal(t, 50*time.Second, gaveUp.Elapsed)
		require.Equal(t, []time.Duration{50 * time.Second, 19500 * time.Millisecond}, limits)
	})
}

func TestGCSJavaGivesEveryAttemptFiftySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSJavaCustom()
		p.Rand = always(0)
		var limits []time.Duration
		err := p.Do(t.Context(), func(ctx context.Context) error {
			limits = append(limits, remaining(t, ctx))
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, slices.Repeat([]time.Duration{50 * time.Second}, 6), limits, "which are the 5 min")
	})
}

func TestGCSJavaAttemptTimeoutGrowsByItsOwnMultiplier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSJavaDefault()
		p.MaxAttempts = 4
		p.AttemptTimeoutSchedule = backoff.Exponential{Initial: time.Second, Max: 4 * time.Second, Multiplier: 2}
		var limits []time.Duration
		err := p.Do(t.Context(), func(ctx context.Context) error {
			limits = append(limits, remaining(t, ctx))
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, []time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second}, limits)
	})
}

func TestGCSJavaDoesNotWaitUntilTheVeryEndAndPythonDoes(t *testing.T) {
	java, python := presets.GCSJavaDefault(), presets.GCSPythonDefault()
	for p, want := range map[*backoff.Policy]int{&java: 2, &python: 3} {
		synctest.Test(t, func(t *testing.T) {
			p.Jitter, p.MaxElapsed = backoff.NoJitter, 3*time.Second // 1 s and 2 s
			made, err := exhaust(t, p)
			require.Equal(t, want, made)
			require.Equal(t, backoff.ReasonElapsed, err.Reason)
		})
	}
}

func TestGCSJavaCustomIsTheInitialAttemptAndNineRetries(t *testing.T) {
	p := presets.GCSJavaCustom()
	require.Equal(t, 10, p.MaxAttempts)
}

func TestGCSNodeShortensItsLastWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSNode(-1, 0, 0, 10*time.Second)
		p.Rand = always(0) // waits 2 s, 4 s, and of the next 8 s the 4 s that are left
		made, err := exhaust(t, &p)
		require.Equal(t, 4, made)
		require.Equal(t, backoff.ReasonElapsed, err.Reason, "nothing is left to wait")
		require.Equal(t, 10*time.Second, err.Elapsed)
	})
}

// Contract rows 118 and 120: getUniformStorageRetryStrategy of Java,
// IdempotencyStrategy.RetryAlways of Node, RetryAlways of Go, and a DEFAULT_RETRY
// that replaces the conditional one of Python.
func TestTheExamplesThatRetryAlwaysSaySo(t *testing.T) {
	always := map[string]bool{"gcs-go-custom": true, "gcs-java-custom": true, "gcs-node-custom": true, "gcs-python-custom": true}
	for name, p := range presets.All() {
		if strings.HasPrefix(name, "gcs-") {
			require.Equal(t, always[name], p.Idempotency == backoff.AlwaysRetry, name)
		}
	}
}

func TestGCSNodeIsSwitchedOffByOneAttempt(t *testing.T) {
	p := presets.GCSNode(0, 0, 0, 0)
	p.MaxAttempts = 1
	made, _ := exhaust(t, &p)
	require.Equal(t, 1, made)
}

func TestGCSNodeTakesAPredicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSNode(0, 0, 0, 0)
		p.Classify = backoff.RetryIf(func(err error) bool { return errors.Is(err, errTransient) })
		errFinal, calls := errors.New("final"), 0
		err := p.Do(t.Context(), func(context.Context) error {
			if calls++; calls == 2 {
				return errFinal
			}
			return errTransient
		})
		require.ErrorIs(t, err, errFinal)
		require.Equal(t, 2, calls)
	})
}

func TestGCSNodeTakesNegativeForNoLimit(t *testing.T) {
	p := presets.GCSNode(-1, 0, -1, -1)
	p.Rand = always(0)
	require.Equal(t, -1, p.MaxAttempts)
	require.Equal(t, 1024*time.Second, p.Delay(10))
	require.NoError(t, p.Validate())
}

func TestGCSNodeRefusesALongestDelayBelowTheFirst(t *testing.T) {
	p := presets.GCSNode(0, 3, 2*time.Second, 0)
	require.Error(t, p.Validate())
}

func TestGCSPythonCopiesLeaveTheOriginalAsItIs(t *testing.T) {
	original := presets.GCSPythonDefault()
	changed := original
	changed.MaxElapsed = time.Minute
	changed.Schedule = backoff.Constant(time.Second)
	changed.Classify = backoff.RetryIf(func(error) bool { return false })

	require.Equal(t, 120*time.Second, original.MaxElapsed)
	require.Equal(t, 60*time.Second, original.Schedule.Delay(7))
	require.Nil(t, original.Classify)
}

func TestGCSPythonDoesNotBeginAWaitThatPassesItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSPythonDefault()
		p.Rand = always(top) // 1 s to 32 s take 63 s, and 60 s more would pass 120 s
		made, err := exhaust(t, &p)
		require.Equal(t, 7, made)
		require.InDelta(t, 63*time.Second, err.Elapsed, 10)
	})
}

func TestGCSRubyMayWaitNinetySecondsAtACapOfSixty(t *testing.T) {
	p := presets.GCSRubyDefault()
	p.Rand = always(top)
	require.InDelta(t, 90*time.Second, p.Delay(7), float64(float))
	require.Equal(t, 4, p.MaxAttempts)
	require.Less(t, p.Delay(3), 60*time.Second, "which three retries do not reach")
}

func TestGCSRubyRetriesAreOverriddenPerOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSRubyCustom()
		operation := p
		operation.MaxAttempts = 1 + 4
		made, _ := exhaust(t, &operation)
		require.Equal(t, 5, made)
		made, _ = exhaust(t, &p)
		require.Equal(t, 6, made)
	})
}

// Contract row 107; gcs-csharp-default above is the other half.
func TestGCSPHPAddsWholeMicroseconds(t *testing.T) {
	p := presets.GCSPHP()
	draw := seeded()
	for range 10_000 {
		require.Zero(t, p.Jitter(time.Second, 0, draw())%time.Microsecond)
	}
	require.Equal(t, 2*time.Second, p.Jitter(time.Second, 0, top), "a million of them included")
}

func fails(context.Context) error { return errTransient }

// remaining is the time that ctx leaves.
func remaining(t *testing.T, ctx context.Context) time.Duration {
	t.Helper()
	deadline, ok := ctx.Deadline()
	require.True(t, ok)
	return time.Until(deadline)
}
