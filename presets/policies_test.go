package presets_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

func TestZeroPolicyIsWhatTheArticleRecommends(t *testing.T) {
	var zero backoff.Policy
	helper := byName(t, "ts-helper-defaults")
	for retry := range 12 {
		for _, u := range []float64{0, 0.5, top} {
			zero.Rand, helper.Rand = always(u), always(u)
			require.Equal(t, helper.WaitBefore(retry), zero.WaitBefore(retry))
		}
	}

	synctest.Test(t, func(t *testing.T) {
		made, _ := exhaust(t, zero)
		require.GreaterOrEqual(t, made, 3)
		require.LessOrEqual(t, made, 5)
	})
}

func TestIoTCoreAddsOneOf1001WholeMilliseconds(t *testing.T) {
	p := presets.IoTCore(32 * time.Second)
	draw := seeded()
	counts := make([]float64, 1001)
	for range 200_000 {
		extra := p.Jitter(time.Second, 0, draw()) - time.Second
		require.Zero(t, extra%time.Millisecond)
		counts[extra/time.Millisecond]++
	}
	uniform(t, counts, "milliseconds")
}

func TestAWSStandardDocsPutsAMassOnTheCap(t *testing.T) {
	const n = 100_000
	p := byName(t, "aws-sdk-standard-doc")
	p.Rand = seeded()
	for i := 3; i <= 9; i++ { // the exponent, which is 0 at the first retry
		at := 0
		for range n {
			if p.WaitBefore(i+1) == 20*time.Second {
				at++
			}
		}
		want := max(0, 1-20/math.Exp2(float64(i)))
		require.InDelta(t, want, float64(at)/n, 3*math.Sqrt(.25/n), "exponent %d", i)
	}
}

var errThrottled = backoff.OfClass(errTransient, backoff.ClassThrottled)

// The base is that of the error, the exponent that of the call.
func TestAWS2026LooksAtEachError(t *testing.T) {
	p := endless(presets.AWS2026(), always(top))
	run := p.Start(t.Context())
	for i, row := range []struct {
		err  error
		wait time.Duration
	}{
		{errTransient, 50 * time.Millisecond}, {errThrottled, 2 * time.Second}, {errTransient, 200 * time.Millisecond},
		{errThrottled, 8 * time.Second}, {errThrottled, 16 * time.Second}, {errThrottled, 20 * time.Second}, {errTransient, 3200 * time.Millisecond},
	} {
		wait, ok := run.Tried(row.err)
		require.True(t, ok)
		require.InDelta(t, row.wait, wait, float64(float), "retry %d", i+1)
	}
}

func TestAPolicyHasTheTimesOfItsSystem(t *testing.T) {
	require.Equal(t, 2*time.Second, presets.Istio().AttemptTimeout, "of every try, the first included")
	require.Equal(t, time.Minute, byName(t, "extra-azure-azcore").MaxRetryAfter, "its longest delay")
}

func TestIstiosOutlierDetectionEjectsAfterFiveFailuresAndForLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := presets.IstioOutlierDetection()
		fail := func(context.Context) error { return errTransient }
		for _, ejected := range []time.Duration{30 * time.Second, time.Minute} {
			for b.State() != backoff.BreakerOpen {
				require.Equal(t, errTransient, b.Do(t.Context(), fail))
			}
			time.Sleep(ejected - 1)
			require.ErrorIs(t, b.Do(t.Context(), fail), backoff.ErrOpen)
			time.Sleep(time.Nanosecond)
		}
		require.NoError(t, b.Do(t.Context(), func(context.Context) error { return nil }))
		require.Equal(t, backoff.BreakerClosed, b.State())
	})
}

func TestGCSGoNeverWaitsZero(t *testing.T) {
	p := presets.GCSGo()
	require.Equal(t, time.Duration(1), p.Jitter(time.Second, 0, 0))
	require.Equal(t, time.Duration(1), p.Jitter(1, 0, top))
	require.Zero(t, p.Jitter(0, 0, 0.5))
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
			began := time.Now()
			made, err := exhaust(t, p)
			require.Equal(t, c.made, made, name)
			require.Equal(t, backoff.ReasonElapsed, err.Reason, name)
			require.InDelta(t, c.elapsed, time.Since(began), 10, name)
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
