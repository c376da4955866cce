//go:build nightly

package compare

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

// The configurations of other systems, in their code and as policies of package
// presets. A course is one call that always fails: the gaps between its
// attempts, and when it ended.
type course struct {
	gaps []time.Duration
	end  time.Duration
}

// follow records the course of a call, up to most attempts.
func follow(t *testing.T, most int, call func(ctx context.Context, attempt func() error)) (c course) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began, last := time.Now(), time.Now()
		attempts := 0
		call(ctx, func() error {
			if attempts++; attempts > 1 {
				c.gaps = append(c.gaps, time.Since(last))
			}
			if last = time.Now(); attempts == most {
				cancel()
			}
			return errDown
		})
		c.end = time.Since(began)
	})
	return c
}

// followPolicy records the course of a call under a policy.
func followPolicy(t *testing.T, p backoff.Policy, most int) course {
	return follow(t, most, func(ctx context.Context, attempt func() error) {
		p.Do(ctx, func(context.Context) error { return attempt() })
	})
}

// requireSameDraws compares two samples of 1,000 waits: their smallest and
// largest, which are within a 40th of the whole, and the largest distance of
// their distributions, which is below 0.15. By chance one of them is not, once
// in 10^9 tests.
func requireSameDraws(t *testing.T, theirs, ours []time.Duration, what string) {
	t.Helper()
	require.Len(t, theirs, 1000)
	require.Len(t, ours, 1000)
	slices.Sort(theirs)
	slices.Sort(ours)
	off := float64(ours[999]-ours[0])/40 + 4
	require.InDelta(t, theirs[0], ours[0], off, "%s: the smallest: %v, %v", what, theirs[0], ours[0])
	require.InDelta(t, theirs[999], ours[999], off, "%s: the largest: %v, %v", what, theirs[999], ours[999])
	for _, at := range slices.Concat(theirs, ours) {
		a, _ := slices.BinarySearch(theirs, at+2)
		b, _ := slices.BinarySearch(ours, at)
		c, _ := slices.BinarySearch(theirs, at-2)
		d, _ := slices.BinarySearch(ours, at+1)
		require.False(t, b-a > 150 || c-d > 150, "%s: up to %v there were %d to %d of theirs and %d to %d of ours", what, at, c, a, b, d)
	}
}

// thousand makes 1,000 draws of each of the first n waits.
func thousand(n int, draw func(retry int) time.Duration, reset func()) [][]time.Duration {
	all := make([][]time.Duration, n)
	for range 1000 {
		reset()
		for i := range all {
			all[i] = append(all[i], draw(i+1))
		}
	}
	return all
}

// exporterFails is an exporter's connection to a service that is down.
type exporterFails func() error

func (f exporterFails) RoundTrip(r *http.Request) (*http.Response, error) {
	f()
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
}

func followOTLP(t *testing.T, c otlptracehttp.RetryConfig, most int) course {
	return follow(t, most, func(ctx context.Context, attempt func() error) {
		client := otlptracehttp.NewClient(otlptracehttp.WithRetry(c), otlptracehttp.WithInsecure(),
			otlptracehttp.WithHTTPClient(&http.Client{Transport: exporterFails(attempt)}))
		require.Error(t, client.UploadTraces(ctx, nil))
	})
}

func TestAnOTLPExporterAndItsPolicyWaitAlike(t *testing.T) {
	const attempts = 9
	for _, c := range []otlptracehttp.RetryConfig{
		{},
		{InitialInterval: time.Second, MaxInterval: time.Second},
		{Enabled: true},
		{Enabled: true, InitialInterval: 5 * time.Second, MaxInterval: 30 * time.Second},
		{Enabled: true, InitialInterval: 5 * time.Second},
		{Enabled: true, MaxInterval: 5 * time.Second},
		{Enabled: true, InitialInterval: 5 * time.Second, MaxInterval: 2 * time.Second},
		{Enabled: true, InitialInterval: 5 * time.Second, MaxInterval: 5 * time.Second},
		{Enabled: true, InitialInterval: 1000 * time.Hour, MaxInterval: 3000 * time.Hour},
	} {
		p, err := presets.OTLPRetry(c).Policy()
		require.NoError(t, err)
		var theirs, ours [attempts][]time.Duration
		for range 1000 {
			there, here := followOTLP(t, c, attempts), followPolicy(t, p, attempts)
			require.Equal(t, len(there.gaps), len(here.gaps), "%+v", c)
			for i := range there.gaps {
				theirs[i], ours[i] = append(theirs[i], there.gaps[i]), append(ours[i], here.gaps[i])
			}
		}
		for i := range theirs {
			if len(theirs[i]) > 0 {
				requireSameDraws(t, theirs[i], ours[i], fmt.Sprintf("%+v: retry %d", c, i+1))
			}
		}
	}
}

func TestTheCollectorAndItsPolicyWaitAlike(t *testing.T) {
	for _, c := range []configretry.BackOffConfig{
		configretry.NewDefaultBackOffConfig(),
		{},
		{InitialInterval: time.Second, Multiplier: 2, MaxInterval: 4 * time.Second},
		{InitialInterval: time.Second, RandomizationFactor: 0.2},
		{InitialInterval: time.Second, MaxInterval: time.Minute},
		{InitialInterval: time.Second, Multiplier: 3},
		{RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: time.Minute},
		{InitialInterval: time.Second, RandomizationFactor: 1, Multiplier: 1, MaxInterval: time.Minute},
		{InitialInterval: time.Minute, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: time.Second},
		{InitialInterval: math.MaxInt64, Multiplier: 2, MaxInterval: math.MaxInt64},
		{InitialInterval: time.Second, RandomizationFactor: 0.2, Multiplier: 0.7, MaxInterval: 500 * time.Millisecond},
		{InitialInterval: 16, Multiplier: 0.5, MaxInterval: time.Second},
	} {
		c.Enabled = true
		require.NoError(t, c.Validate())
		p, err := collectorRetry(c).Policy()
		require.NoError(t, err)
		require.Equal(t, -1, p.MaxAttempts)
		require.Equal(t, c.MaxElapsedTime, p.MaxElapsed)
		b := cenkalti.ExponentialBackOff{InitialInterval: c.InitialInterval, RandomizationFactor: c.RandomizationFactor,
			Multiplier: c.Multiplier, MaxInterval: c.MaxInterval}
		const waits = 8
		theirs := thousand(waits, func(int) time.Duration { return b.NextBackOff() }, b.Reset)
		ours := thousand(waits, p.WaitBefore, func() {})
		for i := range theirs {
			requireSameDraws(t, theirs[i], ours[i], fmt.Sprintf("%+v: retry %d", c, i+1))
		}
	}
}

func collectorRetry(c configretry.BackOffConfig) presets.CollectorRetry {
	return presets.CollectorRetry{
		Enabled:             c.Enabled,
		InitialInterval:     c.InitialInterval,
		RandomizationFactor: c.RandomizationFactor,
		Multiplier:          c.Multiplier,
		MaxInterval:         c.MaxInterval,
		MaxElapsedTime:      c.MaxElapsedTime,
	}
}

func TestALoopOfKubernetesAndItsPolicyWaitAlike(t *testing.T) {
	const most = 40
	for _, b := range []wait.Backoff{
		retry.DefaultRetry,
		retry.DefaultBackoff,
		{Steps: 1},
		{Steps: 3},
		{Duration: time.Second, Steps: 1},
		{Duration: time.Second, Steps: 3},
		{Duration: time.Second, Factor: 2, Steps: 30},
		{Duration: time.Second, Factor: 1, Steps: math.MaxInt},
		{Duration: time.Second, Factor: 1, Steps: 9, Cap: time.Second},
		{Duration: time.Second, Factor: 1, Steps: 9, Cap: time.Millisecond},
		{Duration: time.Second, Factor: 0, Steps: 9, Cap: time.Millisecond},
		{Duration: time.Second, Factor: 0.5, Steps: 9},
		{Duration: time.Second, Factor: 0.5, Steps: 9, Cap: 500 * time.Millisecond},
		{Duration: time.Second, Factor: 0.5, Steps: 9, Cap: 499 * time.Millisecond},
		{Duration: time.Second, Factor: 2, Steps: 9, Cap: 8 * time.Second},
		{Duration: time.Second, Factor: 2, Steps: 9, Cap: 8*time.Second - 1},
		{Duration: time.Second, Factor: 2, Steps: 3, Cap: 8 * time.Second},
		{Duration: time.Second, Factor: 2, Steps: 9, Cap: time.Second},
		{Duration: time.Second, Factor: 2, Steps: 9, Cap: time.Millisecond},
		{Duration: time.Second, Factor: 2, Steps: 9, Cap: -1},
		{Duration: 100 * time.Millisecond, Factor: 1.1, Steps: 35, Cap: time.Second},
		{Duration: 10 * time.Millisecond, Factor: 1.5, Steps: 35, Cap: 10 * time.Minute},
		{Duration: 10 * time.Millisecond, Factor: 3, Jitter: 1, Steps: 10, Cap: time.Minute},
		{Duration: time.Second, Factor: 2, Jitter: -1, Steps: 9},
		{Factor: 2, Jitter: 0.1, Steps: 5, Cap: time.Second},
	} {
		p, err := presets.KubernetesBackoff(b).Policy()
		require.NoError(t, err)
		runs := 1
		if b.Jitter > 0 {
			runs = 1000
		}
		theirs, ours := make([][]time.Duration, most), make([][]time.Duration, most)
		for range runs {
			there := follow(t, most, func(ctx context.Context, attempt func() error) {
				wait.ExponentialBackoffWithContext(ctx, b, func(context.Context) (bool, error) { attempt(); return false, nil })
			})
			here := followPolicy(t, p, most)
			require.Equal(t, len(there.gaps), len(here.gaps), "%+v: attempts", b)
			for i := range there.gaps {
				if b.Jitter <= 0 {
					require.InDelta(t, there.gaps[i], here.gaps[i], 4+float64(there.gaps[i])/1e6, "%+v: gap %d", b, i)
					require.LessOrEqual(t, here.end, there.end+time.Microsecond, "%+v: end", b)
				}
				theirs[i], ours[i] = append(theirs[i], there.gaps[i]), append(ours[i], here.gaps[i])
			}
		}
		for i := 0; runs > 1 && len(theirs[i]) > 0; i++ {
			requireSameDraws(t, theirs[i], ours[i], fmt.Sprintf("%+v: retry %d", b, i+1))
		}
	}
}

// The recipes of the page on settings for what has no configuration.
func TestRateLimitersOfKubernetesWaitAsTheirRecipes(t *testing.T) {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
	restarts := flowcontrol.NewBackOff(10*time.Second, 300*time.Second)
	queue := backoff.Exponential{Initial: 5 * time.Millisecond, Max: 1000 * time.Second}
	pods := backoff.Exponential{Initial: 10 * time.Second, Max: 300 * time.Second}
	now := time.Now()
	for failure := range 100 {
		require.Equal(t, limiter.When("item"), queue.Delay(failure+1))
		restarts.Next("pod", now)
		require.Equal(t, restarts.Get("pod"), pods.Delay(failure+1))
	}
}

func TestTheAWSSDKReadsItsEnvironmentAsThePolicyDoes(t *testing.T) {
	for _, attempts := range []string{"", "0", "1", "2", "7", "-1", "-5", "+4", "three", "1.5", " 3"} {
		for _, mode := range []string{"", "standard", "adaptive", "legacy", "Standard"} {
			t.Setenv("AWS_MAX_ATTEMPTS", attempts)
			t.Setenv("AWS_RETRY_MODE", mode)
			p, err := presets.AWSRetry{MaxAttempts: os.Getenv("AWS_MAX_ATTEMPTS"), Mode: os.Getenv("AWS_RETRY_MODE")}.Policy()
			env, theirs := awsconfig.NewEnvConfig()
			require.Equal(t, theirs != nil, err != nil, "%q, %q: %v", attempts, mode, theirs)
			if err != nil {
				continue
			}
			client := s3.New(s3.Options{Region: "eu-west-1", RetryMaxAttempts: env.RetryMaxAttempts, RetryMode: env.RetryMode})
			retryer := client.Options().Retryer
			require.Equal(t, max(retryer.MaxAttempts(), -1), max(p.MaxAttempts, -1), "%q, %q", attempts, mode)
			there := thousand(6, func(retry int) time.Duration {
				d, err := retryer.RetryDelay(retry, errDown)
				require.NoError(t, err)
				return d
			}, func() {})
			here := thousand(6, p.WaitBefore, func() {})
			for i := range there {
				requireSameDraws(t, there[i], here[i], fmt.Sprintf("%q, %q: retry %d", attempts, mode, i+1))
			}
		}
	}
}
