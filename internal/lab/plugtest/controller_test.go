package plugtest

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
				return backoff.Permanent(errors.New("gone"))
			case item == "busy" && n == 1:
				return backoff.RetryAfter(errors.New("busy"), 500*time.Millisecond)
			}
			return nil
		}
		for _, item := range []string{"pod", "gone", "busy"} {
			queue.Add(item)
		}
		for n := range 50 {
			queue.Add(fmt.Sprint(n))
		}
		time.AfterFunc(time.Second, queue.ShutDown)
		for work(queue, reconcile) {
		}

		require.Len(t, at, 53)
		require.Len(t, at["gone"], 1, "a permanent error")
		require.Len(t, at["busy"], 2)
		require.GreaterOrEqual(t, at["busy"][1].Sub(at["busy"][0]), 500*time.Millisecond, "what the server asked for")
		require.Len(t, at["pod"], 5)
		for n, delay := range []time.Duration{10, 20, 40, 80} {
			require.GreaterOrEqual(t, at["pod"][n+1].Sub(at["pod"][n]), delay*time.Millisecond, "the waits grow")
		}
		require.Zero(t, queue.NumRequeues("pod"), "it was forgotten")
	})
}
