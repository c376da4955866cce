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

// reading is what is read whenever metrics are collected, by name. Of breakers that
// share a name the worst state counts, and budgets that share one are added up.
type reading struct {
	breakers  map[string]backoff.BreakerState
	budgets   map[string]backoff.RetryBudgetStats
	evictions map[string]uint64 // by the name of Services
}

// watch lets m collect what read adds to a reading.
func watch(m metric.Meter, read func(*reading)) (metric.Registration, error) {
	state, err1 := m.Int64ObservableGauge("backoff.breaker.state", metric.WithUnit("1"),
		metric.WithDescription("1 for the state that a breaker is in, 0 for the others."))
	allowed, err2 := m.Int64ObservableGauge("backoff.budget.allowed", metric.WithUnit("{retry}"),
		metric.WithDescription("Retries that the successes within the budget's window pay for, and the spare ones that were granted."))
	used, err3 := m.Int64ObservableGauge("backoff.budget.used", metric.WithUnit("{retry}"),
		metric.WithDescription("Retries granted within the budget's window."))
	evictions, err4 := m.Int64ObservableCounter("backoff.key.evictions", metric.WithUnit("{key}"),
		metric.WithDescription("Keys of services that were forgotten for others."))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r := reading{make(map[string]backoff.BreakerState), make(map[string]backoff.RetryBudgetStats), make(map[string]uint64)}
		read(&r)
		for name, is := range r.breakers {
			observeState(o, state, name, is)
		}
		for name, s := range r.budgets {
			attributes := metric.WithAttributes(keyOperation.String(name))
			o.ObserveInt64(allowed, int64(s.Allowed), attributes)
			o.ObserveInt64(used, int64(s.Retries), attributes)
		}
		for name, n := range r.evictions {
			o.ObserveInt64(evictions, int64(n), metric.WithAttributes(keyKeys.String(name)))
		}
		return nil
	}, state, allowed, used, evictions)
}

// observeState observes the state of a breaker.
func observeState(o metric.Observer, gauge metric.Int64Observable, name string, is backoff.BreakerState) {
	for s := range backoff.BreakerHalfOpen + 1 {
		var value int64
		if s == is {
			value = 1
		}
		o.ObserveInt64(gauge, value, metric.WithAttributes(keyOperation.String(name), keyState.String(s.String())))
	}
}

// add adds the breakers, the budgets and the evictions of Services.
func (r *reading) add(name string, s *guard.Services) {
	r.evictions[name] += s.Evictions()
	for key, one := range s.All() { // the oldest first, so the same keys are shown each time
		if one == nil {
			continue // its New is wrong, as its calls say
		}
		state := one.State()
		if _, b := one.Parts(); b != nil {
			r.addBreaker(cmp.Or(b.Name, key), state.Breaker.State)
		}
		if b := state.Budget; b != nil {
			name := bounded(r.budgets, key)
			sum := r.budgets[name]
			r.budgets[name] = backoff.RetryBudgetStats{Successes: sum.Successes + b.Successes, Retries: sum.Retries + b.Retries, Allowed: sum.Allowed + b.Allowed}
		}
	}
}

// addBreaker adds a breaker.
func (r *reading) addBreaker(name string, is backoff.BreakerState) {
	name = bounded(r.breakers, name)
	if before, known := r.breakers[name]; !known || before == backoff.BreakerClosed || is == backoff.BreakerOpen {
		r.breakers[name] = is
	}
}

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
	return watch(meterOf(mp), func(r *reading) { r.breakers[nameOf(name)] = b.State() })
}

// WatchBudget lets mp read the state of b whenever metrics are collected. A nil
// mp means the global MeterProvider. The metrics have the name as
// backoff.operation:
//
//	backoff.budget.allowed (gauge, {retry})
//		retries that the successes within the window pay for, and the spare
//		ones that were granted
//	backoff.budget.used (gauge, {retry})
//		retries granted within the window
//
// [Metrics] counts refusals, as failures with the reason budget. The budget is
// read, under its lock, until Unregister is called on the Registration. An
// invalid budget is refused with the error of its Validate.
func WatchBudget(mp metric.MeterProvider, name string, b *backoff.RetryBudget) (metric.Registration, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	return watch(meterOf(mp), func(r *reading) { r.budgets[nameOf(name)] = b.Stats() })
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
	return watch(meterOf(mp), func(r *reading) { r.add(nameOf(name), s) })
}

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

// addTo adds the breakers that are not in a reading to it.
func (b *breakers) addTo(r *reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, is := range b.states {
		if _, known := r.breakers[name]; !known {
			r.breakers[name] = is
		}
	}
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
