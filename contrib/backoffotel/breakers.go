package backoffotel

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/endpoint"
)

// maxBreakers is how many breakers an Observer remembers, whose names may come
// from strangers.
const maxBreakers = 1000

// maxRegistries is how many Breakers of endpoints an Observer remembers. A
// program may make a client for each request.
const maxRegistries = 100

// breakers are those of which an Observer knows: by their transitions, and as
// those of the endpoints that are called.
type breakers struct {
	mu     sync.Mutex
	states map[string]backoff.State

	keyed sync.Map // of *backoff.Breakers
	count atomic.Int64
}

// set notes the state of a breaker.
func (b *breakers) set(name string, s backoff.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.states == nil {
		b.states = make(map[string]backoff.State)
	}
	if _, known := b.states[name]; known || len(b.states) < maxBreakers {
		b.states[name] = s
	}
}

// meet notes the breakers behind an endpoint.
func (b *breakers) meet(to *endpoint.Endpoint) {
	if to == nil || to.Breakers == nil {
		return
	}
	if _, known := b.keyed.Load(to.Breakers); known || b.count.Load() >= maxRegistries {
		return
	}
	if b.count.Add(1) > maxRegistries {
		b.count.Add(-1)
	} else if _, known := b.keyed.LoadOrStore(to.Breakers, nil); known {
		b.count.Add(-1)
	}
}

// read returns the states of all breakers. Of those of several clients that
// share a name the worst state counts.
func (b *breakers) read() map[string]backoff.State {
	b.mu.Lock()
	all := make(map[string]backoff.State, len(b.states))
	for name, s := range b.states {
		all[name] = s
	}
	b.mu.Unlock()
	worst := make(map[string]backoff.State)
	for k := range b.keyed.Range {
		for key, one := range k.(*backoff.Breakers).All() {
			if one == nil {
				continue // a New that wants no breaker for the key
			}
			if one.Name != "" {
				key = one.Name
			}
			if is := one.State(); worst[key] != backoff.StateOpen && (is != backoff.StateClosed || worst[key] == is) {
				worst[key] = is
			}
		}
	}
	maps.Copy(all, worst)
	return all
}

// stateGauge makes the gauge of the states of breakers.
func stateGauge(m metric.Meter) (metric.Int64ObservableGauge, error) {
	return m.Int64ObservableGauge("backoff.breaker.state", metric.WithUnit("1"),
		metric.WithDescription("1 for the state that a breaker is in, 0 for the others."))
}

// observeState observes the state of a breaker.
func observeState(o metric.Observer, gauge metric.Int64Observable, name string, is backoff.State) {
	for s := range backoff.StateHalfOpen + 1 {
		o.ObserveInt64(gauge, boolValue(s == is), metric.WithAttributes(keyOperation.String(name), keyState.String(s.String())))
	}
}

// boolValue returns 1 for true.
func boolValue(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// WatchBreaker lets mp read the state of b whenever metrics are collected, from
// now on, and not only after its first transition. A nil mp means the global
// MeterProvider. The metric is the backoff.breaker.state of [Metrics], with the
// name as backoff.operation: give b the same Name. The breaker is read until
// Unregister is called on the Registration. An invalid breaker is refused with
// the error of its Validate.
func WatchBreaker(mp metric.MeterProvider, name string, b *backoff.Breaker) (metric.Registration, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	m := meterOf(mp)
	gauge, err := stateGauge(m)
	if err != nil {
		return nil, err
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		observeState(o, gauge, name, b.State())
		return nil
	}, gauge)
}

// namesOf returns the attributes that say who calls, and what is called.
func namesOf(name string, to *endpoint.Endpoint, more ...attribute.KeyValue) []attribute.KeyValue {
	all := []attribute.KeyValue{keyOperation.String(name)}
	if to != nil {
		all = append(all, keyEndpoint.String(to.Name))
	}
	return append(all, more...)
}
