package backoffgrpc_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/hedge"
)

// recorded is a histogram with one set of attributes.
type recorded struct {
	count uint64
	sum   float64
}

// measured returns a config that records, and a function that reads by the names
// of the metrics. All of them must be of one method of the server.
func measured(t *testing.T, c *backoffgrpc.Config, target *string, method string) (*backoffgrpc.Config, func() map[string]recorded) {
	reader := metric.NewManualReader()
	c.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	return c, func() map[string]recorded {
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		found := make(map[string]recorded)
		add := func(name string, count uint64, sum float64, attributes attribute.Set) {
			require.Equal(t, attribute.NewSet(
				attribute.String("grpc.method", method), attribute.String("grpc.target", "passthrough:///"+*target)), attributes)
			found[name] = recorded{count, sum}
		}
		for _, s := range all.ScopeMetrics {
			for _, m := range s.Metrics {
				switch data := m.Data.(type) {
				case metricdata.Histogram[int64]:
					for _, p := range data.DataPoints {
						add(m.Name+" "+m.Unit, p.Count, float64(p.Sum), p.Attributes)
					}
				case metricdata.Histogram[float64]:
					for _, p := range data.DataPoints {
						add(m.Name+" "+m.Unit, p.Count, p.Sum, p.Attributes)
					}
				}
			}
		}
		return found
	}
}

const (
	retriesMetric = "grpc.client.call.retries {retry}"
	hedgesMetric  = "grpc.client.call.hedges {hedge}"
	delayMetric   = "grpc.client.call.retry_delay s"
)

func TestTheMetricsOfA96CountRetriesAndTheirDelay(t *testing.T) {
	var addr string
	config, read := measured(t, retrying(func(p *backoff.Policy) {
		p.Schedule, p.Jitter = backoff.Constant(20*time.Millisecond), backoff.NoJitter
	}), &addr, "grpc.testing.TestService/UnaryCall")
	s := &service{unary: func(ctx context.Context, n int) error {
		time.Sleep(30 * time.Millisecond) // which is no delay
		return fails(2, codes.Unavailable)(ctx, n)
	}}
	addr = s.serve(t)
	client := dial(t, addr, config)
	require.NoError(t, call(t, client))
	require.NoError(t, call(t, client), "without a retry, nothing is reported")
	found := read()
	require.Equal(t, recorded{1, 2}, found[retriesMetric])
	require.EqualValues(t, 1, found[delayMetric].count)
	require.GreaterOrEqual(t, found[delayMetric].sum, 0.04)
	require.NotContains(t, found, hedgesMetric)

	s.reset()
	s.unary = fails(99, codes.Unavailable)
	require.Error(t, call(t, client))
	require.Equal(t, recorded{2, 5}, read()[retriesMetric], "of a call that failed, too")
}

func TestTheMetricsOfA96CountHedges(t *testing.T) {
	var addr string
	config, read := measured(t, &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{
		"": {Hedge: &hedge.Hedge{Delay: time.Millisecond, MaxAttempts: 2, MaxExtraLoad: -1}},
	}}, &addr, "grpc.testing.TestService/UnaryCall")
	s := &service{unary: func(_ context.Context, n int) error {
		if n == 1 {
			time.Sleep(200 * time.Millisecond)
		}
		return nil
	}}
	addr = s.serve(t)
	require.NoError(t, call(t, dial(t, addr, config)))
	require.Equal(t, map[string]recorded{hedgesMetric: {1, 1}}, read())
}

func TestTheMetricsOfA96CountTheRetriesOfAStreamOnce(t *testing.T) {
	var addr string
	config, read := measured(t, retrying(), &addr, "grpc.testing.TestService/FullDuplexCall")
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error {
		if n <= 2 {
			return fails(2, codes.Unavailable)(stream.Context(), n)
		}
		return echo(stream)
	}}
	addr = s.serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := dial(t, addr, config).FullDuplexCall(ctx)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, stream.Send(text("hello")))
	}
	require.NoError(t, stream.CloseSend())
	for err == nil {
		_, err = stream.Recv()
	}
	require.Equal(t, io.EOF, err)
	found := read()
	require.Equal(t, recorded{1, 2}, found[retriesMetric])
	require.EqualValues(t, 1, found[delayMetric].count)
}

func TestTheDelayOfA96HasAWaitThatTheEndOfTheCallCutShort(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for failures, retries := range map[int]any{1: nil, 2: recorded{1, 1}} {
			var addr string
			method := map[bool]string{false: "UnaryCall", true: "FullDuplexCall"}[stream]
			config, read := measured(t, retrying(func(p *backoff.Policy) {
				p.Schedule, p.Jitter = backoff.Sequence(time.Millisecond, time.Minute), backoff.NoJitter
				if failures == 1 {
					p.Schedule = backoff.Constant(time.Minute)
				}
			}), &addr, "grpc.testing.TestService/"+method)
			ctx, cancel := context.WithCancel(t.Context())
			fail := func(ctx context.Context, n int) error {
				if n == failures {
					time.AfterFunc(50*time.Millisecond, cancel)
				}
				return fails(99, codes.Unavailable)(ctx, n)
			}
			s := &service{unary: fail, duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error { return fail(stream.Context(), n) }}
			addr = s.serve(t)
			client := dial(t, addr, config)
			var err error
			if stream {
				var opened pb.TestService_FullDuplexCallClient
				opened, err = client.FullDuplexCall(ctx)
				require.NoError(t, err)
				_, err = opened.Recv()
			} else {
				_, err = client.UnaryCall(ctx, &pb.SimpleRequest{})
			}
			require.Equal(t, codes.Canceled, status.Code(err))
			found := read()
			require.EqualValues(t, 1, found[delayMetric].count, "%v", found)
			require.GreaterOrEqual(t, found[delayMetric].sum, 0.03)
			require.Less(t, found[delayMetric].sum, 30.0)
			if retries == nil {
				require.NotContains(t, found, retriesMetric)
			} else {
				require.Equal(t, retries, found[retriesMetric])
			}
		}
	}
}

func TestAnAttemptThatTheEndOfTheCallCutShortIsNoDelay(t *testing.T) {
	var addr string
	config, read := measured(t, retrying(), &addr, "grpc.testing.TestService/UnaryCall")
	s := &service{unary: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
	addr = s.serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := dial(t, addr, config).UnaryCall(ctx, &pb.SimpleRequest{})
	require.Error(t, err)
	require.Empty(t, read())
}

func TestANilMeterProviderOfAnSDKIsAnInvalidConfig(t *testing.T) {
	config := retrying()
	config.MeterProvider = (*metric.MeterProvider)(nil)
	require.ErrorContains(t, config.Validate(), "MeterProvider is a nil *metric.MeterProvider")
	s := &service{}
	require.ErrorContains(t, call(t, dial(t, s.serve(t), config)), "MeterProvider")
}

// A proxy calls methods that strangers name.
func TestTheMetricsOfA96NameNoMethodThatACallerMadeUp(t *testing.T) {
	var addr string
	config, read := measured(t, retrying(), &addr, "other")
	s := &service{unary: fails(1, codes.Unavailable)}
	addr = s.serve(t)
	conn, err := grpc.NewClient("passthrough:///"+addr, append(config.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, conn.Invoke(ctx, "/grpc.testing.TestService/UnaryCall", &pb.SimpleRequest{}, &pb.SimpleResponse{}))
	require.Equal(t, recorded{1, 1}, read()[retriesMetric])
}
