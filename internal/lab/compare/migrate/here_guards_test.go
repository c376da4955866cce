package migrate

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/presets"
	"github.com/gobackoff/backoff/spec"
)

func hereFailsafeRetry(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: 5 * time.Second},
		Jitter:      backoff.UniformJitter(0.75, 1.25),
		Classify: func(err error) backoff.Class {
			if errors.Is(err, errGone) {
				return backoff.ClassPermanent
			}
			return backoff.ClassUnknown // as usual
		},
	}
	err := policy.Do(ctx, save)
	return err
}

func hereFailsafeStack(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts:    3,
		AttemptTimeout: 2 * time.Second,
		Budget:         &backoff.RetryBudget{},
	}
	breaker := &backoff.Breaker{}

	err := policy.Do(ctx, breaker.Wrap(save))
	return err
}

func hereHedge(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	hedged := &hedge.Hedge{Delay: time.Second}
	page, err := hedge.Value(ctx, hedged, fetch, nil)
	return page, err
}

func hereFallback(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := backoff.DoValue(ctx, backoff.Policy{}, fetch)
	if err != nil {
		page, err = "yesterday's", nil
	}
	return page, err
}

func hereByResult(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := backoff.DoValue(ctx, backoff.Policy{MaxAttempts: 3}, func(ctx context.Context) (string, error) {
		page, err := fetch(ctx)
		if err == nil && page == "" {
			err = errEmpty
		}
		return page, err
	})
	return page, err
}

func hereClient() *http.Client {
	client := backoffhttp.Client(backoff.Policy{
		Schedule: backoff.Exponential{Initial: time.Second, Max: 30 * time.Second},
	})
	return client
}

func hereBreaker() (do func(context.Context, operation) error) {
	breaker := &backoff.Breaker{
		Name:                "search",
		ConsecutiveFailures: 6,
		ConsecutiveSpan:     -1,
		FailureRate:         -1,
		ProbeSuccesses:      1,
		OpenFor:             backoff.Constant(time.Minute),
		Jitter:              backoff.NoJitter,
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventTransition {
				log.Printf("%s: %v to %v", e.Name, e.Transition.From, e.Transition.To)
			}
		},
	}
	return func(ctx context.Context, save operation) error {
		err := breaker.Do(ctx, save)
		return err
	}
}

func hereBreakerValue(breaker *backoff.Breaker, ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := backoff.DoValue(ctx, breaker, fetch)
	if open, ok := errors.AsType[*backoff.OpenError](err); ok {
		log.Printf("try again in %v", open.RetryAfter())
		return "", errBusy
	}
	return page, err
}

func hereBreakerTwoStep(breaker *backoff.Breaker, ctx context.Context, save operation) error {
	done, err := breaker.Allow()
	if err != nil {
		return err
	}
	err = save(ctx)
	done(err)
	return err
}

func hereDskitLoop(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		Name:        "save",
		MaxAttempts: 10,
		Schedule:    backoff.Exponential{Initial: 200 * time.Millisecond, Max: 1600 * time.Millisecond}, // 2 * MinBackoff
		Jitter:      backoff.EqualJitter,
	}
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		err := save(ctx)
		if err == nil {
			return nil
		}
		r.Fail(err)
	}
	return r.Err()
}

func hereDskitWatch(ctx context.Context, fetch func(context.Context) (string, error), handle func(string)) error {
	policy := backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: 2 * time.Second, Max: time.Minute},
		Jitter:      backoff.EqualJitter,
	}
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		for {
			page, err := fetch(ctx)
			if err != nil {
				r.Fail(backoff.OfClass(err, backoff.ClassRetryable))
				break
			}
			r.Progress()
			handle(page)
		}
	}
	return r.Err()
}

// hereForgetful is a loop that says nothing about a failure.
func hereForgetful(ctx context.Context, save operation) error {
	r := backoff.Policy{MaxAttempts: -1, Jitter: backoff.NoJitter}.Start(ctx)
	for ctx := range r.Attempts() {
		if save(ctx) == nil {
			return nil
		}
	}
	return r.Err()
}

func TestALoopOfDskitHasTheSameWaits(t *testing.T) {
	for _, c := range []call{dskitLoop, hereDskitLoop} {
		for range 20 {
			r := recorded(t, c, errDown)
			require.Len(t, r.at, 10)
			for i, wait := range r.waits() {
				most := min(time.Duration(200<<i), 1600) * time.Millisecond
				require.True(t, most/2 <= wait && wait <= most, "%v", r.waits())
			}
		}
	}
}

func TestALoopOfDskitSaysNothingOfTheLastFailure(t *testing.T) {
	require.EqualError(t, recorded(t, dskitLoop, errDown).err, "terminated after 10 retries")
	err := recorded(t, hereDskitLoop, errDown).err
	require.ErrorIs(t, err, errDown)
	require.EqualError(t, err, "backoff: save: gave up after 10 attempts: down")
}

func TestALoopWithoutAWaitSpinsInDskitOnly(t *testing.T) {
	const enough = 1000
	looks := func(c call) (n int, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			_ = c(ctx, func(context.Context) error {
				if n++; n == enough {
					return nil
				}
				return errDown
			})
			took = time.Since(began)
		})
		return n, took
	}
	n, took := looks(dskitForgetful)
	require.Equal(t, enough, n)
	require.Zero(t, took)
	n, took = looks(hereForgetful)
	require.Equal(t, 10, n)
	require.Equal(t, 51100*time.Millisecond, took)
}

// A watch gets three pages, fails three times, gets a page, and fails until it
// is stopped.
func TestAWatchGoesOnAtOnceAfterASuccess(t *testing.T) {
	type watch = func(context.Context, func(context.Context) (string, error), func(string)) error
	for name, w := range map[string]watch{"dskit": dskitWatch, ours: hereDskitWatch} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			began, handled := time.Now(), 0
			var at []time.Duration
			err := w(ctx, func(context.Context) (string, error) {
				at = append(at, time.Since(began))
				switch n := len(at); {
				case n == 9:
					cancel()
					return "", context.Canceled
				case n <= 3, n == 7:
					return "page", nil
				}
				return "", noSuchName // which is permanent in Do
			}, func(string) { handled++ })
			require.ErrorIs(t, err, context.Canceled, name)
			require.Equal(t, 4, handled, name)
			require.Len(t, at, 9, name)
			for i, most := range seconds(0, 0, 0, 2, 4, 8, 0, 2) {
				wait := at[i+1] - at[i]
				require.True(t, most/2 <= wait && wait <= most, "%s: %v", name, at)
			}
		})
	}
}

func hereOTLP(ctx context.Context, save operation, config otlptracehttp.RetryConfig) error {
	policy, err := presets.OTLPRetry(config).Policy()
	if err != nil {
		return err // it names the field and its value
	}
	return policy.Do(ctx, save)
}

func hereKubernetes(config wait.Backoff) (backoff.Policy, error) {
	return presets.KubernetesBackoff(config).Policy()
}

func hereAWS() (backoff.Policy, error) {
	return presets.AWSRetry{
		MaxAttempts: os.Getenv("AWS_MAX_ATTEMPTS"),
		Mode:        os.Getenv("AWS_RETRY_MODE"),
	}.Policy()
}

func hereStepLoop(config wait.Backoff) backoff.Policy {
	return backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: config.Duration, Max: config.Cap, Multiplier: config.Factor},
		Jitter:      backoff.UniformJitter(1, 1+config.Jitter),
	}
}

func hereWorkqueue() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: 5 * time.Millisecond, Max: 1000 * time.Second},
		Jitter:      backoff.NoJitter,
	}
}

func herePods() backoff.Supervisor {
	return backoff.Supervisor{
		Policy: backoff.Policy{
			Schedule: backoff.Exponential{Initial: 10 * time.Second, Max: 5 * time.Minute},
			Jitter:   backoff.NoJitter,
		},
		ResetAfter: 10 * time.Minute,
	}
}

func hereCompose() backoff.Supervisor {
	return backoff.Supervisor{
		Policy:     backoff.Policy{Schedule: backoff.Constant(5 * time.Second), Jitter: backoff.NoJitter},
		MaxRuns:    3 + 1,           // max_attempts: 3; 0 is 0 here, too
		ResetAfter: 2 * time.Minute, // window; 0 is a long time here, such as math.MaxInt64
	}
}

const noRetries = `{"maxAttempts": 1}`

const forEver = `{"maxAttempts": -1}`

const atOnce = `{"schedule": "0s", "jitter": "none"}`

func TestARecipeIsAValidPolicy(t *testing.T) {
	for _, p := range []interface{ Validate() error }{
		hereStepLoop(wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Cap: time.Minute}),
		hereWorkqueue(), herePods(), hereCompose(),
	} {
		require.NoError(t, p.Validate())
	}
	for _, convert := range []func() (backoff.Policy, error){
		hereAWS,
		func() (backoff.Policy, error) { return hereKubernetes(wait.Backoff{Steps: 3, Duration: time.Second}) },
	} {
		p, err := convert()
		require.NoError(t, err)
		require.NoError(t, p.Validate())
	}
	err := hereOTLP(t.Context(), func(context.Context) error { return nil }, otlptracehttp.RetryConfig{InitialInterval: -1})
	require.EqualError(t, err, "backoff: presets.OTLPRetry.InitialInterval is -1ns, want 0 or more")
}

func TestAFileSaysThat0Is0(t *testing.T) {
	for text, want := range map[string]backoff.Policy{
		noRetries: {MaxAttempts: 1},
		forEver:   {MaxAttempts: -1},
		atOnce:    {Schedule: backoff.Constant(0)},
	} {
		s, err := spec.Parse([]byte(text))
		require.NoError(t, err)
		p, err := s.Policy()
		require.NoError(t, err)
		require.Equal(t, want.MaxAttempts, p.MaxAttempts)
		require.Equal(t, want.Schedule, p.Schedule)
	}
}
