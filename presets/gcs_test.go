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

func TestGCSGoNeverWaitsZero(t *testing.T) {
	p := presets.GCSGo()
	require.Equal(t, time.Duration(1), p.Jitter(time.Second, 0, 0))
	require.Equal(t, time.Duration(1), p.Jitter(1, 0, top))
	require.Zero(t, p.Jitter(0, 0, 0.5))
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

// A wait that would pass the total is not begun, one that ends with it only by
// Python, and Node.js shortens its last one.
func TestGCSLibrariesEndByTheirOwnRuleOfTime(t *testing.T) {
	const sec = time.Second
	for name, c := range map[string]struct {
		policy  backoff.Policy
		jitter  backoff.Jitter
		total   time.Duration
		draw    float64
		made    int
		elapsed time.Duration
	}{
		"Java, waits of 1 s and 2 s":      {presets.GCSJava(), backoff.NoJitter, 3 * sec, 0, 2, sec},
		"Python, waits of 1 s and 2 s":    {presets.GCSPython(), backoff.NoJitter, 3 * sec, 0, 3, 3 * sec},
		"Python, 63 s, and 60 s would be": {presets.GCSPython(), backoff.FullJitter, 120 * sec, top, 7, 63 * sec},
		"Node.js, 2 s, 4 s, and 4 of 8 s": {presets.GCSNode(-1, 0, 0, 0), presets.GCSNode(0, 0, 0, 0).Jitter, 10 * sec, 0, 4, 10 * sec},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := c.policy
			p.Jitter, p.MaxElapsed, p.Rand = c.jitter, c.total, always(c.draw)
			made, err := exhaust(t, p)
			require.Equal(t, c.made, made, name)
			require.Equal(t, backoff.ReasonElapsed, err.Reason, name)
			require.InDelta(t, c.elapsed, err.Elapsed, 10, name)
		})
	}
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

func TestGCSPHPAddsWholeMicroseconds(t *testing.T) {
	p := presets.GCSPHP()
	draw := seeded()
	for range 10_000 {
		require.Zero(t, p.Jitter(time.Second, 0, draw())%time.Microsecond)
	}
	require.Equal(t, 2*time.Second, p.Jitter(time.Second, 0, top), "a million of them included")
}
