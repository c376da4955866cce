package migrate

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
	"github.com/gobackoff/backoff/spec"
)

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
