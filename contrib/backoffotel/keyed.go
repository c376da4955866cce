package backoffotel

import (
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
)

// maxKeys is how many keys of breakers, or of budgets, are shown by themselves.
// They may come from untrusted clients. A breaker has three series, and the SDK takes
// 2000 of a metric unless it is told otherwise.
const maxKeys = 300

// bounded returns the name under which a key is shown, given those that are.
func bounded[T any](shown map[string]T, key string) string {
	name := nameOf(key)
	if _, known := shown[name]; !known && len(shown) >= maxKeys {
		return other
	}
	return name
}

// maxRegistries is how many registries of endpoints an Observer remembers. A
// program may make a client for each request.
const maxRegistries = 100

// registries are those of the endpoints that were called.
type registries[T comparable] struct {
	known sync.Map // of T
	count atomic.Int64
}

// add notes a registry.
func (m *registries[T]) add(registry T) {
	if _, known := m.known.Load(registry); known || m.count.Load() >= maxRegistries {
		return
	}
	if m.count.Add(1) > maxRegistries {
		m.count.Add(-1)
	} else if _, known := m.known.LoadOrStore(registry, nil); known {
		m.count.Add(-1)
	}
}

// all returns the registries.
func (m *registries[T]) all() (all []T) {
	for registry := range m.known.Range {
		all = append(all, registry.(T))
	}
	return all
}

// The names under which the evictions of endpoints' registries are counted.
const (
	breakersOfEndpoints = "breakers of endpoints"
	budgetsOfEndpoints  = "budgets of endpoints"
)

// evictionCounter makes the counter of the keys that were forgotten.
func evictionCounter(m metric.Meter) (metric.Int64ObservableCounter, error) {
	return m.Int64ObservableCounter("backoff.key.evictions", metric.WithUnit("{key}"),
		metric.WithDescription("Keys of breakers and budgets that were forgotten for others."))
}

// observeEvictions observes how many keys all registries of a name forgot.
func observeEvictions[T interface{ Evictions() uint64 }](o metric.Observer, counter metric.Int64Observable, name string, registries []T) {
	if len(registries) == 0 {
		return
	}
	var evictions uint64
	for _, r := range registries {
		evictions += r.Evictions()
	}
	o.ObserveInt64(counter, int64(evictions), metric.WithAttributes(keyKeys.String(name)))
}
