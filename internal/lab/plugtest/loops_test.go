//go:build nightly

package plugtest

import (
	"context"
	"testing"
	"time"

	cenkalti4 "github.com/cenkalti/backoff/v4"
	cenkalti5 "github.com/cenkalti/backoff/v5"
	grpcretry "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

func TestCenkaltiRetriesAsThePolicySays(t *testing.T) {
	attempts := 0
	op := func() error { attempts++; return errDown }
	began := time.Now()
	b := plug.Cenkalti(t.Context(), steps)
	require.ErrorIs(t, cenkalti4.Retry(op, b), errDown)
	require.Equal(t, 4, attempts)
	require.GreaterOrEqual(t, time.Since(began), 140*time.Millisecond)
	require.ErrorIs(t, b.Err(), backoff.ErrExhausted)

	attempts = 0
	value := func() (int, error) { attempts++; return 0, errDown }
	_, err := cenkalti5.Retry(t.Context(), value, cenkalti5.WithBackOff(b), cenkalti5.WithMaxTries(10))
	require.ErrorIs(t, err, errDown)
	require.Equal(t, 4, attempts, "it is reset")
}

func TestWorkqueueDelaysItemsByTheirOwnFailures(t *testing.T) {
	limiter := plug.Workqueue[string](steps)
	queue := workqueue.NewTypedRateLimitingQueue(limiter)
	defer queue.ShutDown()
	began := time.Now()
	for _, want := range []time.Duration{20, 40, 80} {
		queue.AddRateLimited("pod")
		item, _ := queue.Get()
		require.Equal(t, "pod", item)
		queue.Done(item)
		require.GreaterOrEqual(t, time.Since(began), want*time.Millisecond)
		began = time.Now()
	}
	require.Equal(t, 3, queue.NumRequeues("pod"))
	require.Zero(t, queue.NumRequeues("other"))
	queue.Forget("pod")
	require.Zero(t, queue.NumRequeues("pod"))
	require.Equal(t, 20*time.Millisecond, limiter.When("pod"))
}

func TestDelayFuncDrivesAKubernetesLoop(t *testing.T) {
	tries := 0
	began := time.Now()
	err := wait.DelayFunc(plug.DelayFunc(steps)).Until(t.Context(), true, false, func(context.Context) (bool, error) {
		tries++
		return tries == 3, nil
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
}

func TestGRPCMiddlewareRetriesAsThePolicySays(t *testing.T) {
	var seen []backoff.Event
	p := steps
	p.Classify = plug.OnCode(status.Code, codes.Unavailable)
	p.Observer = func(_ context.Context, e backoff.Event) { seen = append(seen, e) }
	hooks := plug.GRPC(p)
	intercept := grpcretry.UnaryClientInterceptor(
		grpcretry.WithMax(hooks.Max()),
		grpcretry.WithBackoff(hooks.Backoff),
		grpcretry.WithRetriable(hooks.Retriable),
		grpcretry.WithOnRetryCallback(hooks.OnRetry),
	)
	call := func(code codes.Code) (attempts int, took time.Duration, err error) {
		began := time.Now()
		err = intercept(t.Context(), "/s/m", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			attempts++
			return status.Error(code, "")
		})
		return attempts, time.Since(began), err
	}
	attempts, took, err := call(codes.Unavailable)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, 4, attempts)
	require.GreaterOrEqual(t, took, 140*time.Millisecond)
	require.Equal(t, "test", seen[0].Name)
	require.Equal(t, 1, seen[0].Attempt)

	attempts, _, err = call(codes.NotFound)
	require.Equal(t, codes.NotFound, status.Code(err))
	require.Equal(t, 1, attempts)
}
