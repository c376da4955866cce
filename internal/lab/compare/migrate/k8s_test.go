package migrate

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func k8sTimeout(ctx context.Context, isReady condition) error {
	err := wait.PollUntilContextTimeout(ctx, 10*time.Second, 55*time.Second, true, isReady)
	return err
}

func k8sCancel(ctx context.Context, isReady condition) error {
	err := wait.PollUntilContextCancel(ctx, 10*time.Second, true, isReady)
	return err
}

func k8sExponential(ctx context.Context, isReady condition) error {
	err := wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5}, isReady)
	return err
}

func k8sSleep(ctx context.Context, save operation) error {
	b := wait.Backoff{Duration: time.Second, Factor: 3, Jitter: 0.1, Steps: 3}
	for {
		err := save(ctx)
		if err == nil || !isBusy(err) || b.Steps == 1 {
			return err
		}
		time.Sleep(b.Step())
	}
}
