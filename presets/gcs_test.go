package presets_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

var gcsRows = []row{
	{"gcs-cpp-default", -1, 900 * time.Second, time.Millisecond,
		"",
		"[1s,2s] [2s,4s] [4s,8s] [8s,16s] [16s,32s] [32s,64s] [64s,128s] [128s,256s]"},
	{"gcs-cpp-custom-3x", -1, 300 * time.Second, time.Millisecond,
		"",
		"[1s,3s] [3s,9s] [9s,27s] [20s,60s] [20s,60s] [20s,60s] [20s,60s] [20s,60s]"},
	{"gcs-go-default", -1, 0, 0,
		"1s 2s 4s 8s 16s 30s 30s 30s",
		"[0.001us,1s] [0.001us,2s] [0.001us,4s] [0.001us,8s] [0.001us,16s] [0.001us,30s] [0.001us,30s] [0.001us,30s]"},
	{"gcs-go-resumable-chunk", -1, 32 * time.Second, 0,
		"100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s",
		"[0.001us,100ms] [0.001us,200ms] [0.001us,400ms] [0.001us,800ms] [0.001us,1.6s] [0.001us,3.2s] [0.001us,6.4s] [0.001us,12.8s]"},
	{"gcs-go-custom", -1, 500 * time.Second, 0,
		"2s 6s 18s 54s 60s 60s 60s 60s",
		"[0.001us,2s] [0.001us,6s] [0.001us,18s] [0.001us,54s] [0.001us,60s] [0.001us,60s] [0.001us,60s] [0.001us,60s]"},
	{"gcs-java-default", 6, 50 * time.Second, time.Millisecond,
		"1s 2s 4s 8s 16s 32s 32s 32s",
		"[0us,1s] [0us,2s] [0us,4s] [0us,8s] [0us,16s] [0us,32s] [0us,32s] [0us,32s]"},
	{"gcs-java-custom", 10, 300 * time.Second, time.Millisecond,
		"1s 3s 9s 27s 32s 32s 32s 32s",
		"[0us,1s] [0us,3s] [0us,9s] [0us,27s] [0us,32s] [0us,32s] [0us,32s] [0us,32s]"},
	{"gcs-node-seed", 4, 600 * time.Second, 0,
		"1s 2s 4s 8s 16s 32s 64s 64s",
		"[1s,1s] [2s,2s] [4s,4s] [8s,8s] [16s,16s] [32s,32s] [64s,64s] [64s,64s]"},
	{"gcs-node-primary", 4, 600 * time.Second, 0,
		"2s 4s 8s 16s 32s 64s 64s 64s",
		"[2s,2.999s] [4s,4.999s] [8s,8.999s] [16s,16.999s] [32s,32.999s] [64s,64s] [64s,64s] [64s,64s]"},
	{"gcs-node-custom", 6, 500 * time.Second, 0,
		"3s 9s 27s 60s 60s 60s 60s 60s",
		"[3s,3.999s] [9s,9.999s] [27s,27.999s] [60s,60s] [60s,60s] [60s,60s] [60s,60s] [60s,60s]"},
	{"gcs-python-default", -1, 120 * time.Second, 0,
		"1s 2s 4s 8s 16s 32s 60s 60s",
		"[0us,1s] [0us,2s] [0us,4s] [0us,8s] [0us,16s] [0us,32s] [0us,60s] [0us,60s]"},
	{"gcs-python-custom", -1, 500 * time.Second, 0,
		"1.5s 1.8s 2.16s 2.592s 3.1104s 3.73248s 4.478976s 5.3747712s",
		"[0us,1.5s] [0us,1.8s] [0us,2.16s] [0us,2.592s] [0us,3.1104s] [0us,3.73248s] [0us,4.478976s] [0us,5.3747712s]"},
	{"gcs-ruby-default", 4, 900 * time.Second, 0,
		"1s 2s 4s 8s 16s 32s 60s 60s",
		"[500ms,1.5s] [1s,3s] [2s,6s] [4s,12s] [8s,24s] [16s,48s] [30s,90s] [30s,90s]"},
	{"gcs-ruby-custom", 6, 500 * time.Second, 0,
		"1.5s 1.8s 2.16s 2.592s 3.1104s 3.73248s 4.478976s 5.3747712s",
		"[750ms,2.25s] [900ms,2.7s] [1.08s,3.24s] [1.296s,3.888s] [1.5552s,4.6656s] [1.86624s,5.59872s] [2.239488s,6.718464s] [2.6873856s,8.0621568s]"},
	{"gcs-php-default", 4, 0, 0,
		"1s 2s 4s 8s 16s 32s 60s 60s",
		"[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,33s] [60s,60s] [60s,60s]"},
	{"gcs-csharp-default", 0, 0, 0,
		"1s 2s 4s 8s 16s 32s 32s 32s",
		"[1s,1s] [2s,2s] [4s,4s] [8s,8s] [16s,16s] [32s,32s] [32s,32s] [32s,32s]"},
}

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

func TestGCSGoNeverWaitsZero(t *testing.T) {
	p := presets.GCSGo()
	require.Equal(t, time.Duration(1), p.Jitter(time.Second, 0, 0))
	require.Equal(t, time.Duration(1), p.Jitter(1, 0, top))
	require.Zero(t, p.Jitter(0, 0, 0.5))
}

func TestGCSGoEndsWithItsContextOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSGo()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Second)
		defer cancel()
		start := time.Now()
		err := p.Do(ctx, func(context.Context) error { return errTransient })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errTransient, "the last error is joined")
		require.Greater(t, time.Since(start), 460*time.Second)
		require.LessOrEqual(t, time.Since(start), 500*time.Second)
	})
}

func TestGCSGoResumableChunkStartsAgainWithProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSGoResumableChunk()
		p.Rand = always(0.5) // waits 50 ms, 100 ms, ...: nine of them take 25.55 s, the tenth would pass 32 s
		run := p.Start(t.Context())
		start := time.Now()
		var at []time.Duration
		for range run.Attempts() {
			if run.Attempt() == 10 {
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

// The timeouts of attempts that hang, but for the first one, which fails after
// 30 s if it has more.
func TestGCSJavaTimesOutEachAttemptAndCutsItToTheTimeLeft(t *testing.T) {
	growing := presets.GCSJava()
	growing.MaxAttempts = 4
	growing.AttemptTimeoutSchedule = backoff.Exponential{Initial: time.Second, Max: 4 * time.Second, Multiplier: 2}
	for name, c := range map[string]struct {
		policy backoff.Policy
		draw   float64
		want   []float64 // seconds
	}{
		"cut to what is left of 50 s": {presets.GCSJava(), 0.5, []float64{50, 19.5}},
		"all of 5 min":                {byName(t, "gcs-java-custom"), 0, []float64{50, 50, 50, 50, 50, 50, 20}},
		"by its own multiplier":       {growing, 0.5, []float64{1, 2, 4, 4}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := c.policy
			p.Rand = always(c.draw)
			var timeouts []float64
			err := p.Do(t.Context(), func(ctx context.Context) error {
				deadline, ok := ctx.Deadline()
				require.True(t, ok)
				timeouts = append(timeouts, time.Until(deadline).Seconds())
				if len(timeouts) == 1 && timeouts[0] > 30 {
					time.Sleep(30 * time.Second)
					return errTransient
				}
				<-ctx.Done()
				return ctx.Err()
			})
			require.ErrorIs(t, err, backoff.ErrExhausted, name)
			require.Equal(t, c.want, timeouts, name)
		})
	}
}

func TestGCSJavaDoesNotWaitUntilTheVeryEndAndPythonDoes(t *testing.T) {
	for want, p := range map[int]backoff.Policy{2: presets.GCSJava(), 3: presets.GCSPython()} {
		synctest.Test(t, func(t *testing.T) {
			p.Jitter, p.MaxElapsed = backoff.NoJitter, 3*time.Second // 1 s and 2 s
			made, err := exhaust(t, p)
			require.Equal(t, want, made)
			require.Equal(t, backoff.ReasonElapsed, err.Reason)
		})
	}
}

func TestGCSNodeShortensItsLastWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSNode(-1, 0, 0, 10*time.Second)
		p.Rand = always(0) // waits 2 s, 4 s, and of the next 8 s the 4 s that are left
		made, err := exhaust(t, p)
		require.Equal(t, 4, made)
		require.Equal(t, backoff.ReasonElapsed, err.Reason, "nothing is left to wait")
		require.Equal(t, 10*time.Second, err.Elapsed)
	})
}

// IdempotencyStrategy.RetryAlways of Node, RetryAlways of Go, and a DEFAULT_RETRY
// that replaces the conditional one of Python.
func TestTheExamplesThatRetryAlwaysSaySo(t *testing.T) {
	always := map[string]bool{"gcs-go-custom": true, "gcs-java-custom": true, "gcs-node-custom": true, "gcs-python-custom": true}
	for name, p := range presets.All() {
		if strings.HasPrefix(name, "gcs-") {
			require.Equal(t, always[name], p.Idempotency == backoff.Idempotent, name)
		}
	}
}

func TestGCSNodeTakesNegativeForNoLimit(t *testing.T) {
	p := presets.GCSNode(-1, 0, -1, -1)
	p.Rand = always(0)
	require.Equal(t, -1, p.MaxAttempts)
	require.Equal(t, 1024*time.Second, p.Delay(10))
	require.NoError(t, p.Validate())
}

func TestGCSPythonDoesNotBeginAWaitThatPassesItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.GCSPython()
		p.Rand = always(top) // 1 s to 32 s take 63 s, and 60 s more would pass 120 s
		made, err := exhaust(t, p)
		require.Equal(t, 7, made)
		require.InDelta(t, 63*time.Second, err.Elapsed, 10)
	})
}

func TestGCSRubyMayWaitNinetySecondsAtACapOfSixty(t *testing.T) {
	p := presets.GCSRuby()
	p.Rand = always(top)
	require.InDelta(t, 90*time.Second, p.Delay(7), float64(float))
	require.Less(t, p.Delay(3), 60*time.Second, "which three retries do not reach")
}

func TestGCSPHPAddsWholeMicroseconds(t *testing.T) {
	p := presets.GCSPHP()
	draw := seeded()
	for range 10_000 {
		require.Zero(t, p.Jitter(time.Second, 0, draw())%time.Microsecond)
	}
	require.Equal(t, 2*time.Second, p.Jitter(time.Second, 0, top), "a million of them included")
}
