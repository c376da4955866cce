package backoffotel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/contrib/backoffotel"
	"github.com/gobackoff/backoff/guard"
)

// flaky returns an operation that succeeds at the second attempt.
func flaky() func(context.Context) error {
	calls := 0
	return func(context.Context) error {
		if calls++; calls == 1 {
			return errors.New("no answer")
		}
		return nil
	}
}

func ExampleMetrics() {
	reader := metric.NewManualReader() // a program has an exporter instead
	policy := backoff.Policy{
		Name: "fetch", Schedule: backoff.Constant(0),
		Observer: backoffotel.Metrics(metric.NewMeterProvider(metric.WithReader(reader))),
	}
	policy.Do(context.Background(), flaky())

	var collected metricdata.ResourceMetrics
	reader.Collect(context.Background(), &collected)
	for _, m := range collected.ScopeMetrics[0].Metrics {
		if calls, ok := m.Data.(metricdata.Histogram[int64]); ok {
			fmt.Println(m.Name, calls.DataPoints[0].Count, "call,", calls.DataPoints[0].Sum, "attempts")
		}
	}
	// Output: backoff.call.attempts 1 call, 2 attempts
}

func ExampleTrace() {
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	policy := backoff.Policy{Schedule: backoff.Constant(0), Observer: backoffotel.SpanEvents}
	search := backoffotel.Trace(provider, "search", new(guard.Service).With(policy))
	search.Do(context.Background(), flaky())

	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name, span.Status.Code)
		for _, event := range span.Events {
			fmt.Println("-", event.Name)
		}
	}
	// Output:
	// search attempt Error
	// search attempt Unset
	// search Unset
	// - backoff.retry
	// - backoff.success
}

func ExampleWatchBudget() {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	budget := new(backoff.RetryBudget)
	if _, err := backoffotel.WatchBudget(provider, "fetch", budget); err != nil {
		panic(err)
	}
	var collected metricdata.ResourceMetrics
	reader.Collect(context.Background(), &collected)
	for _, m := range collected.ScopeMetrics[0].Metrics {
		fmt.Println(m.Name, m.Data.(metricdata.Gauge[int64]).DataPoints[0].Value)
	}
	// Output:
	// backoff.budget.allowed 0
	// backoff.budget.used 0
}

// Each attempt has a span of otelhttp, which says how often the request was
// sent before.
func ExampleResends() {
	client := &http.Client{Transport: &backoffhttp.Transport{
		Policy: backoff.Policy{Observer: backoffotel.SpanEvents},
		Base:   otelhttp.NewTransport(backoffotel.Resends(http.DefaultTransport)),
	}}
	client.CloseIdleConnections()
	// Output:
}
