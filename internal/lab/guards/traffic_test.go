package guards

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A load is calls that begin whether earlier ones have ended or not. Each begins
// at a random time of its share of the second, so that few runs tell much.
type load struct {
	rate     float64 // calls a second
	length   time.Duration
	deadline time.Duration // of a call
	seed     uint64
}

// A call is what a caller saw.
type call struct {
	began, took time.Duration
	ok          bool
}

// run makes the calls, and returns what became of them when all have ended. do
// gets the number of the call.
func (l load) run(do func(ctx context.Context, n int) bool) calls {
	all := make(calls, int(l.rate*l.length.Seconds()))
	times := rand.New(rand.NewPCG(l.seed, 2))
	var group sync.WaitGroup
	began := time.Now()
	for n := range all {
		at := time.Duration((float64(n) + times.Float64()) / l.rate * float64(time.Second))
		time.Sleep(at - time.Since(began))
		group.Go(func() { all[n] = one(began, l.deadline, n, do) })
	}
	group.Wait()
	return all
}

// A job is a number of calls by workers. Each makes one at a time.
type job struct {
	workers, calls int
	length         time.Duration // in place of calls; 0 means no limit
	deadline       time.Duration
}

func (j job) run(do func(ctx context.Context, n int) bool) calls {
	var all calls
	var mu sync.Mutex
	var next atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range j.workers {
		group.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if j.calls > 0 && n >= j.calls || j.length > 0 && time.Since(began) >= j.length {
					return
				}
				c := one(began, j.deadline, n, do)
				mu.Lock()
				all = append(all, c)
				mu.Unlock()
				if c.took == 0 {
					time.Sleep(usual) // or time would not pass while a client refuses all calls
				}
			}
		})
	}
	group.Wait()
	return all
}

// one makes a call.
func one(began time.Time, deadline time.Duration, n int, do func(context.Context, int) bool) call {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	start := time.Now()
	ok := do(ctx, n)
	return call{began: start.Sub(began), took: time.Since(start), ok: ok}
}

// calls are the calls of a run.
type calls []call

// good returns how many succeeded.
func (c calls) good() (n int) {
	for _, one := range c {
		if one.ok {
			n++
		}
	}
	return n
}

// share returns how many of a hundred succeeded.
func (c calls) share() float64 { return 100 * float64(c.good()) / float64(max(1, len(c))) }

// waits returns how long the callers waited who got an answer, the shortest first.
func (c calls) waits() (all []time.Duration) {
	for _, one := range c {
		if one.ok {
			all = append(all, one.took)
		}
	}
	slices.Sort(all)
	return all
}

// between returns the calls that began in a part of the run.
func (c calls) between(from, to time.Duration) (some calls) {
	for _, one := range c {
		if from <= one.began && one.began < to {
			some = append(some, one)
		}
	}
	return some
}

// end returns when the last call ended.
func (c calls) end() (last time.Duration) {
	for _, one := range c {
		last = max(last, one.began+one.took)
	}
	return last
}

// quantile returns a quantile of sorted times in seconds, and -1 if there are
// none.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return -1
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Seconds()
}
