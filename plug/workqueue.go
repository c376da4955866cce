package plug

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
)

// RateLimiter is a policy in the shape of TypedRateLimiter[T] of client-go/util/workqueue
// of Kubernetes. See [Workqueue].
type RateLimiter[T comparable] struct {
	rule rule

	mu       sync.Mutex
	failures map[T]int
}

// Workqueue returns p as a rate limiter for the queue of a controller, which counts the failures of
// each item until it is forgotten:
//
//	queue := workqueue.NewTypedRateLimitingQueue(plug.Workqueue[reconcile.Request](&policy))
//
// Only Schedule, Jitter (without its memory of the wait before) and MaxDelay have a place in the
// shape. It is the controller that gives up, if it does, by asking NumRequeues:
//
//	if !policy.Retryable(err) || queue.NumRequeues(item) >= 10 {
//		queue.Forget(item)
//	} else {
//		queue.AddRateLimited(item)
//	}
//
// A nil or invalid policy gives the delays of the zero [backoff.Policy]. A RateLimiter is safe for
// concurrent use, and keeps a number per item that failed and was not forgotten.
func Workqueue[T comparable](p *backoff.Policy) *RateLimiter[T] {
	return &RateLimiter[T]{rule: sound(p), failures: make(map[T]int)}
}

// When counts a failure of item, and returns how long it should wait.
func (l *RateLimiter[T]) When(item T) time.Duration {
	l.mu.Lock()
	n := fromOne(l.failures[item])
	l.failures[item] = n
	l.mu.Unlock()
	return l.rule.delay(n)
}

// Forget begins anew with item, of which nothing is kept.
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

// DelayFunc returns p in the shape of wait.DelayFunc of Kubernetes' apimachinery, and of
// whoever else asks for one delay after the other: the first call gives the delay before the first
// retry, and so on.
//
//	err := wait.DelayFunc(plug.DelayFunc(&policy)).Until(ctx, true, false, condition)
//
// Only Schedule, Jitter (without its memory of the wait before) and MaxDelay have a place in the
// shape. A nil or invalid policy gives the delays of the zero [backoff.Policy]. The function is safe
// for concurrent use; its callers share the count.
func DelayFunc(p *backoff.Policy) func() time.Duration {
	rule := sound(p)
	var asked atomic.Int64
	return func() time.Duration { return rule.delay(int(min(asked.Add(1), math.MaxInt))) }
}

// sound is ruleOf for shapes that cannot refuse.
func sound(p *backoff.Policy) rule {
	if r := ruleOf(p); r.err == nil {
		return r
	}
	return ruleOf(new(backoff.Policy))
}
