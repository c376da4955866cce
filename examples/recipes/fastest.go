package recipes

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// The replicas answer reads. One that fails, or is slow, five times in a row over at least
// 200 ms is left out, and then tried every two seconds.
type replicas struct {
	all   []*replica
	hedge hedge.Hedge
}

type replica struct {
	addr    string
	breaker backoff.Breaker
}

var errSlow = errors.New("the replica is slow")

// newReplicas takes the time that nearly all reads stay below.
func newReplicas(delay time.Duration, addrs ...string) *replicas {
	r := &replicas{hedge: hedge.Hedge{Delay: delay, MaxAttempts: len(addrs), MaxExtraLoad: -1}}
	for _, addr := range addrs {
		r.all = append(r.all, &replica{addr: addr, breaker: backoff.Breaker{
			Name: addr, ConsecutiveSpan: 200 * time.Millisecond, OpenFor: backoff.Constant(2 * time.Second),
		}})
	}
	return r
}

// readFrom asks one replica after the other, each of them once, and returns the first answer. The
// next one is asked after the delay, or when the one before it fails. ask must return when its
// context ends.
func readFrom[T any](ctx context.Context, r *replicas, ask func(ctx context.Context, addr string) (T, error)) (T, error) {
	o := order{left: slices.Clone(r.all)}
	rand.Shuffle(len(o.left), func(i, k int) { o.left[i], o.left[k] = o.left[k], o.left[i] })
	return hedge.Value(ctx, &r.hedge, func(ctx context.Context) (T, error) {
		addr, done := o.next()
		began := time.Now()
		v, err := ask(ctx, addr)
		switch {
		case time.Since(began) > r.hedge.Delay:
			done(errSlow) // also if it has answered, or another one was faster
		case ctx.Err() != nil:
			done(context.Canceled) // does not count
		default:
			done(err)
		}
		return v, err
	}, nil)
}

// An order has the replicas that a read has not asked.
type order struct {
	mu   sync.Mutex
	left []*replica
}

// next returns a replica whose circuit is closed. If there is none, any will do.
func (o *order) next() (addr string, done func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, done := 0, func(error) {}
	for i, r := range o.left {
		if allowed, err := r.breaker.Allow(); err == nil {
			at, done = i, allowed
			break
		}
	}
	addr = o.left[at].addr
	o.left = slices.Delete(o.left, at, at+1)
	return addr, done
}
