package backoffotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/gobackoff/backoff"
)

// budgetGauges are the metrics of budgets.
type budgetGauges struct{ allowed, used metric.Int64ObservableGauge }

// newBudgetGauges makes the metrics of budgets.
func newBudgetGauges(m metric.Meter) (budgetGauges, error) {
	allowed, err1 := m.Int64ObservableGauge("backoff.budget.allowed", metric.WithUnit("{retry}"),
		metric.WithDescription("Retries that the successes within the budget's window pay for, and the spare ones that were granted."))
	used, err2 := m.Int64ObservableGauge("backoff.budget.used", metric.WithUnit("{retry}"),
		metric.WithDescription("Retries granted within the budget's window."))
	return budgetGauges{allowed, used}, errors.Join(err1, err2)
}

// observe observes the state of budgets, by name.
func (g budgetGauges) observe(o metric.Observer, all map[string]backoff.RetryBudgetStats) {
	for name, s := range all {
		attributes := metric.WithAttributes(keyOperation.String(name))
		o.ObserveInt64(g.allowed, int64(s.Allowed), attributes)
		o.ObserveInt64(g.used, int64(s.Retries), attributes)
	}
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
	m := meterOf(mp)
	gauges, err := newBudgetGauges(m)
	if err != nil {
		return nil, err
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		gauges.observe(o, map[string]backoff.RetryBudgetStats{nameOf(name): b.Stats()})
		return nil
	}, gauges.allowed, gauges.used)
}
