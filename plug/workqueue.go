package plug

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
)

// RateLimiter makes a policy a TypedRateLimiter[T] of Kubernetes'
// client-go/util/workqueue. See [Workqueue].
type RateLimiter[T comparable] struct {
	rule rule

	mu       sync.Mutex
	failures map[T]int
}

// Workqueue returns p as a rate limiter for the queue of a controller. It
// counts the failures of each item until the item is forgotten:
//
//	queue := workqueue.NewTypedRateLimitingQueue(plug.Workqueue[reconcile.Request](policy))
//
// The shape has only Schedule, Jitter (without its memory of the previous
// wait) and MaxDelay. The controller decides when to give up. This one drops an
// item after ten failures:
//
//	if !policy.Retryable(err) || queue.NumRequeues(item) >= 10 {
//		queue.Forget(item)
//	} else {
//		queue.AddRateLimited(item)
//	}
//
// One that retries an item until it succeeds, and obeys a Retry-After, asks
// Decide(1, err) of the policy: see docs/recipes.md.
//
// An invalid policy gives the delays of the zero [backoff.Policy]. A RateLimiter
// is safe for concurrent use. It keeps a number for each item that failed and was
// not forgotten.
func Workqueue[T comparable](p backoff.Policy) *RateLimiter[T] {
	return &RateLimiter[T]{rule: newDelayRule(p), failures: make(map[T]int)}
}

// When counts a failure of item, and returns how long item should wait.
func (l *RateLimiter[T]) When(item T) time.Duration {
	l.mu.Lock()
	n := fromOne(l.failures[item])
	l.failures[item] = n
	l.mu.Unlock()
	return l.rule.delay(n)
}

// Forget forgets the failures of item.
func (l *RateLimiter[T]) Forget(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failures, item)
}

// NumRequeues returns how often item has failed.
func (l *RateLimiter[T]) NumRequeues(item T) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures[item]
}

// DelayFunc returns p as a wait.DelayFunc of Kubernetes' apimachinery. It also
// suits other code that asks for one delay after the other: the first call
// returns the delay before the first retry, and so on.
//
//	err := wait.DelayFunc(plug.DelayFunc(policy)).Until(ctx, true, false, condition)
//
// The shape has only Schedule, Jitter (without its memory of the previous
// wait) and MaxDelay. An invalid policy gives the delays of the zero
// [backoff.Policy]. The function is safe for concurrent use; its callers share
// the count.
func DelayFunc(p backoff.Policy) func() time.Duration {
	rule := newDelayRule(p)
	var asked atomic.Int64
	return func() time.Duration { return rule.delay(int(min(asked.Add(1), math.MaxInt))) }
}

// newDelayRule is newRule for shapes that cannot refuse a call: instead of an
// invalid policy it takes the zero policy.
func newDelayRule(p backoff.Policy) rule {
	if r := newRule(p); r.err == nil {
		return r
	}
	return newRule(backoff.Policy{})
}
