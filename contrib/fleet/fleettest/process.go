package fleettest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

var errService = errors.New("fleettest: the service is down")

// process is one process of a fleet. All of them call the same service.
type process struct {
	probe
	breaker *backoff.Breaker
	client  *fleet.Client
	down    *atomic.Bool  // the service
	calls   *atomic.Int64 // that reached the service
}

// newProcess returns a process whose breaker opens at the third failure in a
// row, for short.
func newProcess(p probe, s fleet.Store) *process {
	client := &fleet.Client{Store: s, Every: 50 * time.Millisecond, Quorum: -1, Trust: time.Second}
	return &process{
		probe:  p,
		client: client,
		breaker: &backoff.Breaker{
			Name: p.key, Shared: client, ConsecutiveFailures: 3, ConsecutiveSpan: -1, FailureRate: -1,
			OpenFor: backoff.Constant(short), Jitter: backoff.NoJitter,
		},
		down:  new(atomic.Bool),
		calls: new(atomic.Int64),
	}
}

// peer returns another process that calls the same service.
func (m *process) peer(s fleet.Store) *process {
	other := newProcess(m.probe, s)
	other.down, other.calls = m.down, m.calls
	return other
}

// close closes the client. A bubble ends only after all its goroutines.
func (m *process) close() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	m.want(m.client.Close(ctx) == nil, "Close did not end")
}

// call calls the service, which answers at once. It reports whether the service
// was reached.
func (m *process) call() (called bool, err error) {
	err = m.breaker.Do(m.Context(), func(context.Context) error {
		called = true
		m.calls.Add(1)
		if m.down.Load() {
			return errService
		}
		return nil
	})
	return called, err
}

// callMany calls n times. Every call must reach the service.
func (m *process) callMany(n int) {
	m.Helper()
	began := time.Now()
	for range n {
		called, err := m.call()
		m.want(called && (err == nil || m.down.Load()), "a call was stopped by the store: %v", err)
	}
	m.want(time.Since(began) < 5*time.Second, "%d calls that take no time took %v", n, time.Since(began))
}

// until calls again and again until the breaker is in a state.
func (m *process) until(s backoff.BreakerState) {
	m.Helper()
	for began := time.Now(); m.breaker.State() != s; time.Sleep(tick) {
		m.want(time.Since(began) < limit, "the breaker is %v after %v, want %v", m.breaker.State(), limit, s)
		_, _ = m.call()
	}
}

// cycle lets the service fail and recover. The breaker must open, probe and
// close.
func (m *process) cycle() {
	m.Helper()
	m.down.Store(true)
	m.until(backoff.BreakerOpen)
	before := m.calls.Load()
	for began := time.Now(); m.calls.Load() == before; time.Sleep(tick) {
		m.want(time.Since(began) < limit, "no probe after %v", limit)
		_, _ = m.call()
	}
	m.down.Store(false)
	m.until(backoff.BreakerClosed)
}

// aFleetHears checks that the opening of one process reaches another.
func aFleetHears(t testing.TB, s fleet.Store) {
	a := newProcess(newProbe(t, s), s)
	b := a.peer(s)
	a.client.Timeout, b.client.Timeout = limit, limit // a store that is late is still correct
	b.breaker.MinCalls = 1_000_000                    // with fewer it would soon go by its own calls
	b.callMany(1)
	a.down.Store(true)
	a.until(backoff.BreakerOpen)
	for began := time.Now(); b.breaker.State() == backoff.BreakerClosed; time.Sleep(tick) {
		a.want(time.Since(began) < limit, "the other process did not hear")
		_, _ = a.call() // opens it again, in case the other heard too late
		_ = b.breaker.Do(t.Context(), func(context.Context) error { return nil })
	}
	a.down.Store(false)
	a.until(backoff.BreakerClosed)
	b.until(backoff.BreakerClosed)
	a.close()
	b.close()
}

// aSlowStore checks that calls do not wait for a store.
func aSlowStore(t testing.TB, s fleet.Store) {
	for _, delay := range []time.Duration{time.Hour, -time.Hour} { // before and after the effect
		m := newProcess(newProbe(t, s), &Faulty{Store: s, Delay: delay})
		m.callMany(1000)
		m.cycle()
		m.callMany(1000)
		m.close()
	}
}

// aFlappingStore checks that breakers work with a store that fails now and
// then.
func aFlappingStore(t testing.TB, s fleet.Store) {
	flaps := &Faulty{Store: s, Fail: func(n int64) bool { return n/2%2 == 0 }}
	a := newProcess(newProbe(t, s), flaps)
	b := a.peer(flaps)
	for range 2 {
		a.cycle()
		b.until(backoff.BreakerClosed)
	}
	a.close()
	b.close()
}

// aSkewedStore checks that breakers work with a store whose clock jumps.
func aSkewedStore(t testing.TB, s fleet.Store) {
	for _, skew := range []time.Duration{time.Hour, -time.Hour, -200 * 365 * 24 * time.Hour} {
		skewed := &Faulty{Store: s, Skew: skew}
		a := newProcess(newProbe(t, s), skewed)
		b := a.peer(skewed)
		a.cycle()
		b.until(backoff.BreakerClosed)
		a.close()
		b.close()
	}
}

// aPartition checks that a process that is cut off from the store works alone,
// and joins the fleet again.
func aPartition(t testing.TB, s fleet.Store) {
	cut := &Faulty{Store: s}
	a := newProcess(newProbe(t, s), s)
	b := a.peer(cut)
	a.callMany(100)
	b.callMany(100)
	cut.Cut()
	a.cycle()
	b.callMany(100)
	b.cycle()
	cut.Restore()
	a.cycle()
	b.until(backoff.BreakerClosed)
	a.close()
	b.close()
}
