package migrate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

func hereSleep(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		Name:        "save",
		MaxAttempts: 3,
		Schedule:    backoff.Exponential{Initial: time.Second, Multiplier: 3, Max: -1},
		Jitter:      backoff.UniformJitter(1, 1.1),
		Classify:    backoff.RetryIf(isBusy),
	}
	return backoff.Cause(policy.Do(ctx, save))
}

func hereConverted(ctx context.Context, save operation) error {
	b := wait.Backoff{Duration: time.Second, Factor: 3, Jitter: 0.1, Steps: 3}
	policy, err := presets.KubernetesBackoff(b).Policy() // once, when the program starts
	if err != nil {
		return err
	}
	policy.Classify = backoff.RetryIf(isBusy)
	return backoff.Cause(policy.Do(ctx, save))
}

func TestACopyOfWaitBackoffBecomesAPolicyWithTheSameAttemptsWaitsAndErrors(t *testing.T) {
	for _, c := range []call{k8sSleep, hereSleep, hereConverted} {
		for _, results := range [][]error{{nil}, {errBusy, nil}, {errBusy}, {errBusy, errGone}, {errGone}} {
			r := recorded(t, c, results...)
			want := map[error]int{nil: 1, errBusy: 3, errGone: 1}[results[0]]
			if len(results) > 1 {
				want = 2
			}
			require.Len(t, r.at, want, "%v", results)
			require.True(t, r.err == results[len(results)-1], "%v", r.err)
			for i, w := range r.waits() {
				least := []time.Duration{time.Second, 3 * time.Second}[i]
				require.GreaterOrEqual(t, w, least)
				require.LessOrEqual(t, w, least*11/10)
			}
		}
	}
}

func TestASleepDoesNotHearThatItsContextHasEnded(t *testing.T) {
	for i, c := range []call{k8sSleep, hereSleep, hereConverted} {
		var took time.Duration
		recorded(t, func(ctx context.Context, save operation) error {
			began := time.Now()
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(100*time.Millisecond, cancel)
			err := c(ctx, save)
			took = time.Since(began)
			return err
		}, errBusy)
		if i == 0 {
			require.GreaterOrEqual(t, took, 4*time.Second)
		} else {
			require.Equal(t, 100*time.Millisecond, took)
		}
	}
}
