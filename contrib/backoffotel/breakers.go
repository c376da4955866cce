package backoffotel

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/endpoint"
)

// breakers are those of which an Observer knows: by their transitions, and as
// those of the endpoints that are called.
type breakers struct {
	mu     sync.Mutex
	states map[string]backoff.BreakerState

	keyed registries[*backoff.Breakers]
}

// set notes the state of a breaker.
func (b *breakers) set(name string, s backoff.BreakerState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.states == nil {
		b.states = make(map[string]backoff.BreakerState)
	}
	if _, known := b.states[name]; known || len(b.states) < maxKeys {
		b.states[name] = s
	}
}

// read returns the states of all breakers, by name.
func (b *breakers) read() map[string]backoff.BreakerState {
	all := make(map[string]backoff.BreakerState)
	b.mu.Lock()
	maps.Copy(all, b.states)
	b.mu.Unlock()
	maps.Copy(all, statesOf(b.keyed.all()))
	return all
}

// statesOf returns the states of the breakers of registries, by key. Of those
// that share a name the worst state counts.
func statesOf(registries []*backoff.Breakers) map[string]backoff.BreakerState {
	all := make(map[string]backoff.BreakerState)
	for _, r := range registries {
		for key, one := range r.All() { // the oldest first, so the same keys are shown each time
			if one == nil {
				continue // a New that wants no breaker for the key
			}
			name, is := bounded(all, cmp.Or(one.Name, key)), one.State()
			if before, known := all[name]; !known || before == backoff.BreakerClosed || is == backoff.BreakerOpen {
				all[name] = is
			}
		}
	}
	return all
}

// stateGauge makes the gauge of the states of breakers.
func stateGauge(m metric.Meter) (metric.Int64ObservableGauge, error) {
	return m.Int64ObservableGauge("backoff.breaker.state", metric.WithUnit("1"),
		metric.WithDescription("1 for the state that a breaker is in, 0 for the others."))
}

// observeStates observes the states of breakers, by name.
func observeStates(o metric.Observer, gauge metric.Int64Observable, all map[string]backoff.BreakerState) {
	for name, is := range all {
		for s := range backoff.BreakerHalfOpen + 1 {
			o.ObserveInt64(gauge, boolValue(s == is), metric.WithAttributes(keyOperation.String(name), keyState.String(s.String())))
		}
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
// MeterProvider. Of two breakers of one name only one is shown. The metric is
// the backoff.breaker.state of [Metrics], with the name as backoff.operation:
// give b the same Name. The breaker is read until Unregister is called on the
// Registration. An invalid breaker is refused with the error of its Validate.
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
		observeStates(o, gauge, map[string]backoff.BreakerState{nameOf(name): b.State()})
		return nil
	}, gauge)
}

// WatchBreakers is [WatchBreaker] for all breakers of b, with their keys as
// backoff.operation, or their Names if they have any. Of more than 300 keys the
// rest is shown as one breaker, "other", in the worst of their states. The name
// is that of the counter of keys that b has forgotten for others:
//
//	backoff.key.evictions (counter, {key})
//		its attribute backoff.keys is the name
//
// [Metrics] does this by itself for the breakers of endpoints, under the name
// "breakers of endpoints". A nil b is an error.
func WatchBreakers(mp metric.MeterProvider, name string, b *backoff.Breakers) (metric.Registration, error) {
	if b == nil {
		return nil, errors.New("backoffotel: the Breakers to watch are nil")
	}
	m := meterOf(mp)
	gauge, err1 := stateGauge(m)
	evictions, err2 := evictionCounter(m)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	all := []*backoff.Breakers{b}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		observeStates(o, gauge, statesOf(all))
		observeEvictions(o, evictions, nameOf(name), all)
		return nil
	}, gauge, evictions)
}

// namesOf returns the attributes that say who calls, and what is called.
func namesOf(name string, to *endpoint.Endpoint, more ...attribute.KeyValue) []attribute.KeyValue {
	all := []attribute.KeyValue{keyOperation.String(nameOf(name))}
	if to != nil {
		all = append(all, keyEndpoint.String(nameOf(to.Name)))
	}
	return append(all, more...)
}
