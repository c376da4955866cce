package backoffgrpc

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
)

// scope is the name of the instrumentation.
const scope = "github.com/gobackoff/backoff/contrib/backoffgrpc"

// meters are the metrics of gRFC A96. A nil *meters records nothing.
type meters struct {
	retries, hedges metric.Int64Histogram
	delay           metric.Float64Histogram
}

// latencies are the bounds of gRFC A66, which A96 refers to.
var latencies = []float64{
	0, .00001, .00005, .0001, .0003, .0006, .0008, .001, .002, .003, .004, .005, .006, .008, .01, .013, .016, .02, .025, .03,
	.04, .05, .065, .08, .1, .13, .16, .2, .25, .3, .4, .5, .65, .8, 1, 2, 5, 10, 20, 50, 100,
}

// newMeters makes the metrics. As instrumentation does, it reports errors of
// the provider to the program's error handler.
func newMeters(mp metric.MeterProvider) *meters {
	if mp == nil {
		return nil
	}
	m := mp.Meter(scope)
	retries, err1 := m.Int64Histogram("grpc.client.call.retries", metric.WithUnit("{retry}"),
		metric.WithDescription("Number of retries during the client call. If there were no retries, 0 is not reported."),
		metric.WithExplicitBucketBoundaries(1, 2, 3, 4, 5))
	hedges, err2 := m.Int64Histogram("grpc.client.call.hedges", metric.WithUnit("{hedge}"),
		metric.WithDescription("Number of hedges during the client call. If there were no hedges, 0 is not reported."),
		metric.WithExplicitBucketBoundaries(1, 2, 3, 4, 5))
	delay, err3 := m.Float64Histogram("grpc.client.call.retry_delay", metric.WithUnit("s"),
		metric.WithDescription("Total time of delay while there is no active attempt during the client call."),
		metric.WithExplicitBucketBoundaries(latencies...))
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			otel.Handle(err)
		}
	}
	return &meters{retries, hedges, delay}
}

// A tally is what one call did. The zero value and a nil *tally count nothing
// that is recorded.
type tally struct {
	to       *meters
	options  metric.MeasurementOption
	attempts int
	waiting  time.Duration
	ended    time.Time // of the attempt before; zero during an attempt, and if the call's context ended during the last one
}

// newTally returns the tally of a call, which is nil if nothing is recorded.
func (m *meters) newTally(cc *grpc.ClientConn, method string, opts []grpc.CallOption) *tally {
	if m == nil {
		return nil
	}
	return &tally{to: m, options: metric.WithAttributes(
		attribute.String("grpc.method", nameOf(method, opts)),
		attribute.String("grpc.target", cc.CanonicalTarget()),
	)}
}

// nameOf returns the name of a method as grpc-go's own metrics have it: "other"
// unless generated code makes the call. Any other name may come from an untrusted
// client.
func nameOf(method string, opts []grpc.CallOption) string {
	for _, o := range opts {
		if _, ok := o.(grpc.StaticMethodCallOption); ok {
			return strings.TrimPrefix(method, "/")
		}
	}
	return "other"
}

// begin notes that an attempt begins.
func (t *tally) begin() {
	if t == nil {
		return
	}
	t.attempts++
	t.waited()
}

// waited adds the time since the attempt before.
func (t *tally) waited() {
	if !t.ended.IsZero() {
		t.waiting += time.Since(t.ended)
		t.ended = time.Time{}
	}
}

// end notes that an attempt of a call under ctx has ended.
func (t *tally) end(ctx context.Context) {
	if t != nil && ctx.Err() == nil {
		t.ended = time.Now()
	}
}

// record records the tally of a call under ctx that has ended, once. If the
// context has ended since the last attempt did, the call was waiting.
func (t *tally) record(ctx context.Context) {
	if t == nil {
		return
	}
	if ctx.Err() != nil {
		t.waited()
	}
	ctx = context.WithoutCancel(ctx)
	if t.attempts > 1 {
		t.to.retries.Record(ctx, int64(t.attempts-1), t.options)
	}
	if t.waiting > 0 {
		t.to.delay.Record(ctx, t.waiting.Seconds(), t.options)
	}
	t.attempts, t.waiting, t.ended = 0, 0, time.Time{}
}

// recordHedges records how many hedges a call sent.
func (t *tally) recordHedges(ctx context.Context, hedges int) {
	if t != nil && hedges > 0 {
		t.to.hedges.Record(context.WithoutCancel(ctx), int64(hedges), t.options)
	}
}
