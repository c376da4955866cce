package backoffotel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/endpoint"
)

// breakers are those of which an Observer knows by their transitions.
type breakers struct {
	mu     sync.Mutex
	states map[string]backoff.BreakerState
}

// set notes the state of a breaker.
func (b *breakers) set(name string, s backoff.BreakerState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.states[name]; known || len(b.states) < maxKeys {
		b.states[name] = s
	}
}

// addTo adds the breakers that are not in a map to it.
func (b *breakers) addTo(all map[string]backoff.BreakerState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, is := range b.states {
		if _, known := all[name]; !known {
			all[name] = is
		}
	}
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
			var value int64
			if s == is {
				value = 1
			}
			o.ObserveInt64(gauge, value, metric.WithAttributes(keyOperation.String(name), keyState.String(s.String())))
		}
	}
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

// namesOf returns the attributes that say who calls, and what is called.
func namesOf(name string, to *endpoint.Endpoint, more ...attribute.KeyValue) []attribute.KeyValue {
	all := []attribute.KeyValue{keyOperation.String(nameOf(name))}
	if to != nil {
		all = append(all, keyEndpoint.String(nameOf(to.Name)))
	}
	return append(all, more...)
}
