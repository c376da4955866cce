package fleet_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

// upTo draws a time of any order of magnitude below the limit.
func upTo(r *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(1 + r.Int64N(1+int64(limit)>>r.IntN(12)))
}

// faulty returns a store whose calls or answers are slow, or that is cut off.
// It may also lose one of every few calls.
func faulty(r *rand.Rand, s fleet.Store) *faultyStore {
	loses := 2 + r.Int64N(10)
	f := &faultyStore{Store: s, Delay: upTo(r, 45*time.Millisecond)}
	if r.IntN(2) == 0 {
		f.Delay = -f.Delay
	}
	if r.IntN(5) == 0 {
		f.Cut()
	}
	if r.IntN(2) == 0 {
		f.Fail = func(n int64) bool { return n%loses == 0 }
	}
	return f
}

// member is a process that calls a service every now and then. A call takes a
// while.
type member struct {
	breaker     *backoff.Breaker
	every, call time.Duration
}

// run calls until the circuit is closed and the service is up, and returns when
// that was.
func (m *member) run(t *testing.T, up time.Time) time.Duration {
	for {
		_ = m.breaker.Do(t.Context(), func(context.Context) error {
			down := time.Now().Before(up)
			time.Sleep(m.call)
			if down {
				return errDown
			}
			return nil
		})
		if since := time.Since(up); since >= 0 && m.breaker.State() == backoff.BreakerClosed || since > time.Hour {
			return since
		}
		time.Sleep(m.every)
	}
}

// When the service is back, each process of a fleet finds out soon, however bad
// the store is, however short the open times are, and however seldom the
// process calls.
func TestAFleetRecovers(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			store, openFor := new(fleet.Memory), upTo(r, 5*time.Second)
			up := time.Now().Add(10 * time.Second)
			var group sync.WaitGroup
			took := make([]time.Duration, 1+r.IntN(4))
			for i := range took {
				m := &member{breaker: breaker(&fleet.Client{Store: faulty(r, store), Quorum: -1})}
				m.every, m.call = upTo(r, time.Second)+5*time.Millisecond, upTo(r, openFor)
				m.breaker.OpenFor = backoff.Constant(openFor)
				group.Go(func() { took[i] = m.run(t, up) })
			}
			group.Wait()
			time.Sleep(time.Minute) // for what is under way to the store
			for _, d := range took {
				require.Less(t, d, time.Minute, "seed %d: %v open, %v", seed, openFor, took)
			}
		})
	}
}

// outage lets 100 processes call at intervals: for a minute before an outage,
// for its two minutes, and after it. It returns how many calls the service had
// while it was down, and when the last process had three answers in a row.
func outage(t *testing.T, every time.Duration, hub func(fleet.Store) *fleet.Client) (calls int64, back time.Duration) {
	store := new(fleet.Memory)
	var down atomic.Int64
	var group sync.WaitGroup
	ends := make([]time.Duration, 100)
	up := time.Now().Add(3 * time.Minute)
	for i := range ends {
		b := &backoff.Breaker{Name: "db"}
		if hub != nil {
			b.Shared = hub(&faultyStore{Store: store, Delay: time.Millisecond})
		}
		group.Go(func() {
			time.Sleep(every * time.Duration(i) / time.Duration(len(ends)))
			for row := 0; row < 3 && time.Since(up) < time.Hour; time.Sleep(every) {
				row++
				err := b.Do(t.Context(), func(context.Context) error {
					time.Sleep(10 * time.Millisecond)
					if left := time.Until(up); left > 0 && left < 2*time.Minute {
						down.Add(1)
						return errDown
					}
					return nil
				})
				if err != nil || time.Now().Before(up) {
					row = 0
				}
			}
			ends[i] = time.Since(up)
		})
	}
	group.Wait()
	time.Sleep(time.Minute) // for what is under way to the store
	return down.Load(), slices.Max(ends)
}

// No single process makes enough calls to learn from, but all together do. A
// process that calls seldom is also refused seldom, and must not miss its
// chance to probe.
func TestProcessesWithLittleTraffic(t *testing.T) {
	for _, every := range []time.Duration{2 * time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			alone, _ := outage(t, every, nil)
			joined, back := outage(t, every, func(s fleet.Store) *fleet.Client { return &fleet.Client{Store: s} })
			asking, soon := outage(t, every, func(s fleet.Store) *fleet.Client { return &fleet.Client{Store: s, Wait: 50 * time.Millisecond} })
			t.Log(every, "apart, calls in the outage:", alone, joined, asking, "back after:", back, soon)
			require.Less(t, float64(joined), 0.7*float64(alone))
			require.Less(t, float64(asking), 0.6*float64(alone))
			require.Less(t, max(back, soon), 150*time.Second, "72 s for the open time, six calls in vain or of others' probes, and some")
		})
	}
}

var errStore = errors.New("the store is gone")

// A faultyStore is slow, fails or is unreachable. The zero value of each field
// but Store means no such fault.
type faultyStore struct {
	fleet.Store
	// Delay passes before each call, unless ctx ends first. A negative Delay
	// passes after the call: the change is made, and the response is late.
	Delay time.Duration
	// Fail says whether the nth call fails, counted from 1. nil means that no
	// call fails.
	Fail func(n int64) bool

	calls atomic.Int64
	cut   atomic.Bool
}

// Cut makes all calls wait for the end of their context, as in a network that
// drops every packet.
func (f *faultyStore) Cut() { f.cut.Store(true) }

// Restore ends the effect of Cut.
func (f *faultyStore) Restore() { f.cut.Store(false) }

// Calls returns how many calls there have been.
func (f *faultyStore) Calls() int64 { return f.calls.Load() }

func (f *faultyStore) Load(ctx context.Context, key string) (fleet.Circuit, error) {
	return through(ctx, f, func() (fleet.Circuit, error) { return f.Store.Load(ctx, key) })
}

func (f *faultyStore) Trip(ctx context.Context, key string, t fleet.Trip) (fleet.Circuit, error) {
	return through(ctx, f, func() (fleet.Circuit, error) { return f.Store.Trip(ctx, key, t) })
}

func (f *faultyStore) Lease(ctx context.Context, key, by string, d time.Duration) (fleet.Circuit, error) {
	return through(ctx, f, func() (fleet.Circuit, error) { return f.Store.Lease(ctx, key, by, d) })
}

func (f *faultyStore) Reset(ctx context.Context, key, by string, generation uint64) (fleet.Circuit, error) {
	return through(ctx, f, func() (fleet.Circuit, error) { return f.Store.Reset(ctx, key, by, generation) })
}

func (f *faultyStore) Take(ctx context.Context, key string, c fleet.Claim) (int, error) {
	return through(ctx, f, func() (int, error) { return f.Store.Take(ctx, key, c) })
}

func (f *faultyStore) Give(ctx context.Context, key, block string, n int) error {
	_, err := through(ctx, f, func() (int, error) { return 0, f.Store.Give(ctx, key, block, n) })
	return err
}

// through makes a call, with the faults.
func through[T any](ctx context.Context, f *faultyStore, call func() (T, error)) (result T, err error) {
	n := f.calls.Add(1)
	if f.cut.Load() {
		<-ctx.Done()
		return result, ctx.Err()
	}
	if err := wait(ctx, f.Delay); err != nil {
		return result, err
	}
	if f.Fail != nil && f.Fail(n) {
		return result, errStore
	}
	if result, err = call(); err != nil {
		return result, err
	}
	return result, wait(ctx, -f.Delay)
}

// wait waits for d if that is positive, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
