package backoffotel_test

import (
	"context"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffotel"
)

var errBoom = errors.New("boom")

// throttled is the answer of a service, with headers.
type throttled struct{}

func (throttled) Error() string       { return "throttled by https://ann:hunter2@example.com/?key=hunter2" }
func (throttled) HTTPStatusCode() int { return 429 }
func (throttled) ResponseHeader() map[string][]string {
	return map[string][]string{"Retry-After": {"60"}, "X-Amzn-Requestid": {"7f1c"}, "grpc-status": {"8"}, "Set-Cookie": {"hunter2"}}
}

func failing(errs ...error) func(context.Context) error {
	return func(context.Context) error {
		err := errs[0]
		if len(errs) > 1 {
			errs = errs[1:]
		}
		return err
	}
}

func half() float64 { return 0.5 }

// tracing returns a provider of the real SDK, and the spans that it exports.
func tracing() (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	exporter := tracetest.NewInMemoryExporter()
	return sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)), exporter
}

func metering() (*metric.MeterProvider, *metric.ManualReader) {
	reader := metric.NewManualReader()
	return metric.NewMeterProvider(metric.WithReader(reader)), reader
}

// observing returns the observer of a meter, and what reads it.
func observing() (backoff.Observer, *metric.ManualReader) {
	mp, reader := metering()
	return backoffotel.Metrics(mp), reader
}

// eventsOf returns the events of a span in which f runs.
func eventsOf(t *testing.T, f func(context.Context)) []sdktrace.Event {
	tp, exporter := tracing()
	ctx, span := tp.Tracer("test").Start(t.Context(), "caller")
	f(ctx)
	span.End()
	return exporter.GetSpans()[0].Events
}

// values returns attributes as a map.
func values(all []attribute.KeyValue) map[string]any {
	m := map[string]any{}
	for _, a := range all {
		m[string(a.Key)] = a.Value.AsInterface()
	}
	return m
}

// series is a metric with one set of attributes.
type series struct {
	name, attributes string
}

// collect returns the value of every series: the sum of a counter or histogram,
// and the number of values in a histogram.
func collect(t *testing.T, reader *metric.ManualReader) (sums, counts map[series]float64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	sums, counts = map[series]float64{}, map[series]float64{}
	for _, s := range all.ScopeMetrics {
		require.Equal(t, "github.com/gobackoff/backoff/contrib/backoffotel", s.Scope.Name)
		for _, m := range s.Metrics {
			require.NotEmpty(t, m.Unit, m.Name)
			require.NotEmpty(t, m.Description, m.Name)
			name := m.Name + " " + m.Unit
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				require.True(t, data.IsMonotonic)
				for _, p := range data.DataPoints {
					sums[at(name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					sums[at(name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					sums[at(name, p.Attributes)], counts[at(name, p.Attributes)] = float64(p.Sum), float64(p.Count)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					sums[at(name, p.Attributes)], counts[at(name, p.Attributes)] = p.Sum, float64(p.Count)
				}
			default:
				t.Fatalf("%T", data)
			}
		}
	}
	return sums, counts
}

func at(name string, attributes attribute.Set) series {
	for _, a := range attributes.ToSlice() {
		if !utf8.ValidString(a.Value.String()) { // which the encoder hides
			return series{name, "not UTF-8"}
		}
	}
	return series{name, attributes.Encoded(attribute.DefaultEncoder())}
}
