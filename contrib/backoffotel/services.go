package backoffotel

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// maxKeys is how many keys are shown by themselves. They may come from untrusted
// clients. A breaker has three series, and the SDK takes 2000 of a metric unless it is
// told otherwise.
const maxKeys = 300

// bounded returns the name under which a key is shown, given those that are.
func bounded[T any](shown map[string]T, key string) string {
	name := nameOf(key)
	if _, known := shown[name]; !known && len(shown) >= maxKeys {
		return other
	}
	return name
}

// maxRegistries is how many Services of endpoints an Observer remembers. A program may
// make a client for each request.
const maxRegistries = 100

// registries are the Services of the endpoints that were called.
type registries struct {
	known sync.Map // of *guard.Services
	count atomic.Int64
}

// add notes Services.
func (m *registries) add(s *guard.Services) {
	if _, known := m.known.Load(s); known || m.count.Load() >= maxRegistries {
		return
	}
	if m.count.Add(1) > maxRegistries {
		m.count.Add(-1)
	} else if _, known := m.known.LoadOrStore(s, nil); known {
		m.count.Add(-1)
	}
}

// all returns the Services.
func (m *registries) all() (all []*guard.Services) {
	for s := range m.known.Range {
		all = append(all, s.(*guard.Services))
	}
	return all
}

// serviceMetrics are the metrics of Services.
type serviceMetrics struct {
	state     metric.Int64ObservableGauge
	budgets   budgetGauges
	evictions metric.Int64ObservableCounter
}

// newServiceMetrics makes the metrics of Services.
func newServiceMetrics(m metric.Meter) (serviceMetrics, error) {
	state, err1 := stateGauge(m)
	budgets, err2 := newBudgetGauges(m)
	evictions, err3 := m.Int64ObservableCounter("backoff.key.evictions", metric.WithUnit("{key}"),
		metric.WithDescription("Keys of services that were forgotten for others."))
	return serviceMetrics{state, budgets, evictions}, errors.Join(err1, err2, err3)
}

// watch lets m collect the metrics. The evictions of all Services have one name. more
// are breakers that are shown besides; nil if there are none.
func (s serviceMetrics) watch(m metric.Meter, name string, all func() []*guard.Services, more *breakers) (metric.Registration, error) {
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		services := all()
		states, budgets := read(services)
		if more != nil {
			more.addTo(states)
		}
		observeStates(o, s.state, states)
		s.budgets.observe(o, budgets)
		observeEvictions(o, s.evictions, name, services)
		return nil
	}, s.state, s.budgets.allowed, s.budgets.used, s.evictions)
}

// read returns the states of the breakers and of the budgets of Services, by name. Of
// breakers that share a name the worst state counts, and budgets that share one are
// added up.
func read(services []*guard.Services) (map[string]backoff.BreakerState, map[string]backoff.RetryBudgetStats) {
	breakers, budgets := make(map[string]backoff.BreakerState), make(map[string]backoff.RetryBudgetStats)
	for _, s := range services {
		for key, one := range s.All() { // the oldest first, so the same keys are shown each time
			if one == nil {
				continue // its New is wrong, as its calls say
			}
			state := one.State()
			if _, b := one.Parts(); b != nil {
				name, is := bounded(breakers, cmp.Or(b.Name, key)), state.Breaker.State
				if before, known := breakers[name]; !known || before == backoff.BreakerClosed || is == backoff.BreakerOpen {
					breakers[name] = is
				}
			}
			if b := state.Budget; b != nil {
				name := bounded(budgets, key)
				sum := budgets[name]
				budgets[name] = backoff.RetryBudgetStats{Successes: sum.Successes + b.Successes, Retries: sum.Retries + b.Retries, Allowed: sum.Allowed + b.Allowed}
			}
		}
	}
	return breakers, budgets
}

// observeEvictions observes how many keys all Services of a name forgot.
func observeEvictions(o metric.Observer, counter metric.Int64Observable, name string, services []*guard.Services) {
	if len(services) == 0 {
		return
	}
	var evictions uint64
	for _, s := range services {
		evictions += s.Evictions()
	}
	o.ObserveInt64(counter, int64(evictions), metric.WithAttributes(keyKeys.String(name)))
}

// WatchServices is [WatchBreaker] for all breakers of s, with their Names as
// backoff.operation, or their keys if they have none, and [WatchBudget] for those
// budgets that are RetryBudgets or Pacers, with their keys. Of more than 300 names the
// rest is shown as one, "other", in the worst of the states of its breakers, and with
// the sums of its budgets. The name is that of the counter of keys that s has
// forgotten for others:
//
//	backoff.key.evictions (counter, {key})
//		its attribute backoff.keys is the name
//
// [Metrics] does this by itself for the Services of endpoints, under the name
// "services of endpoints". A nil s is an error.
func WatchServices(mp metric.MeterProvider, name string, s *guard.Services) (metric.Registration, error) {
	if s == nil {
		return nil, errors.New("backoffotel: the Services to watch are nil")
	}
	m := meterOf(mp)
	metrics, err := newServiceMetrics(m)
	if err != nil {
		return nil, err
	}
	all := []*guard.Services{s}
	return metrics.watch(m, nameOf(name), func() []*guard.Services { return all }, nil)
}
