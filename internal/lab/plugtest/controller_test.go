package plugtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

var reconciling = backoff.Policy{
	Schedule:      backoff.Exponential{Initial: 20 * time.Millisecond, Max: 5 * time.Minute},
	Jitter:        backoff.EqualJitter,
	MaxRetryAfter: -1, // no limit: a longer Retry-After would drop the item
}

func newQueue() workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueue(plug.Workqueue[string](reconciling))
}

// work reconciles one item of the queue. It returns false when the queue has shut down.
func work(queue workqueue.TypedRateLimitingInterface[string], reconcile func(string) error) bool {
	item, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(item)
	err := reconcile(item) // and log it
	if after, ok := apierrors.SuggestsClientDelay(err); ok {
		err = backoff.RetryAfter(err, time.Duration(after)*time.Second)
	}
	d := reconciling.Decide(1, err) // 1 each time: there is no limit on retries
	switch {
	case err == nil, !d.Again: // done, or permanent: the item comes back when its object changes
		queue.Forget(item)
	case d.RetryAfter > 0:
		queue.AddAfter(item, d.Wait) // the server said when
	default:
		queue.AddRateLimited(item)
	}
	return true
}

func TestAControllerRetriesEachItemByItsOwnFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newQueue()
		at := map[string][]time.Time{}
		reconcile := func(item string) error {
			at[item] = append(at[item], time.Now())
			n := len(at[item])
			switch {
			case item == "pod" && n <= 4:
				return errors.New("conflict")
			case item == "gone":
				return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, item)
			case item == "early" && n == 1:
				err := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "settings")
				return backoff.OfClass(err, backoff.ClassRetryable) // it may appear later
			case item == "busy" && n == 1:
				return backoff.RetryAfter(errors.New("busy"), 500*time.Millisecond)
			}
			return nil
		}
		for _, item := range []string{"pod", "gone", "early", "busy"} {
			queue.Add(item)
		}
		for n := range 50 {
			queue.Add(fmt.Sprint(n))
		}
		time.AfterFunc(time.Second, queue.ShutDown)
		for work(queue, reconcile) {
		}

		require.Len(t, at, 54)
		require.Len(t, at["gone"], 1, "a permanent error")
		require.Len(t, at["early"], 2, "another object that was not there yet")
		require.Len(t, at["busy"], 2)
		require.GreaterOrEqual(t, at["busy"][1].Sub(at["busy"][0]), 500*time.Millisecond, "what the server asked for")
		require.Len(t, at["pod"], 5)
		for n, delay := range []time.Duration{10, 20, 40, 80} {
			require.GreaterOrEqual(t, at["pod"][n+1].Sub(at["pod"][n]), delay*time.Millisecond, "the waits grow")
		}
		require.Zero(t, queue.NumRequeues("pod"), "it was forgotten")
	})
}

// A typed client makes such requests, and has no MaxRetries. A deadline ends its wait.
func TestAClientOfKubernetesRetriesByItself(t *testing.T) {
	var after string
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{
		NegotiatedSerializer: serializer.NewCodecFactory(k8sruntime.NewScheme()).WithoutConversion()}})
	require.NoError(t, err)
	after = "0"
	require.True(t, apierrors.IsTooManyRequests(client.Get().Do(t.Context()).Error()))
	require.Equal(t, 11, requests)

	requests = 0
	require.True(t, apierrors.IsTooManyRequests(client.Get().MaxRetries(0).Do(t.Context()).Error()))
	require.Equal(t, 1, requests)

	after, requests = "3600", 0
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, client.Get().Do(ctx).Error(), context.DeadlineExceeded)
	require.LessOrEqual(t, requests, 1)
}
