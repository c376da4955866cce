//go:build nightly

package plugtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	cenkalti4 "github.com/cenkalti/backoff/v4"
	cenkalti5 "github.com/cenkalti/backoff/v5"
	grpcretry "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

func TestCenkaltiRetriesAsThePolicySays(t *testing.T) {
	attempts := 0
	op := func() error { attempts++; return errDown }
	began := time.Now()
	b := plug.Cenkalti(t.Context(), steps)
	require.ErrorIs(t, cenkalti4.Retry(op, b), errDown)
	require.Equal(t, 4, attempts)
	require.GreaterOrEqual(t, time.Since(began), 140*time.Millisecond)
	require.ErrorIs(t, b.Err(), backoff.ErrExhausted)

	attempts = 0
	value := func() (int, error) { attempts++; return 0, errDown }
	_, err := cenkalti5.Retry(t.Context(), value, cenkalti5.WithBackOff(b), cenkalti5.WithMaxTries(10))
	require.ErrorIs(t, err, errDown)
	require.Equal(t, 4, attempts, "it is reset")
}

func TestWorkqueueDelaysItemsByTheirOwnFailures(t *testing.T) {
	limiter := plug.Workqueue[string](steps)
	queue := workqueue.NewTypedRateLimitingQueue(limiter)
	defer queue.ShutDown()
	began := time.Now()
	for _, want := range []time.Duration{20, 40, 80} {
		queue.AddRateLimited("pod")
		item, _ := queue.Get()
		require.Equal(t, "pod", item)
		queue.Done(item)
		require.GreaterOrEqual(t, time.Since(began), want*time.Millisecond)
		began = time.Now()
	}
	require.Equal(t, 3, queue.NumRequeues("pod"))
	require.Zero(t, queue.NumRequeues("other"))
	queue.Forget("pod")
	require.Zero(t, queue.NumRequeues("pod"))
	require.Equal(t, 20*time.Millisecond, limiter.When("pod"))
}

func TestDelayFuncDrivesAKubernetesLoop(t *testing.T) {
	tries := 0
	began := time.Now()
	err := wait.DelayFunc(plug.DelayFunc(steps)).Until(t.Context(), true, false, func(context.Context) (bool, error) {
		tries++
		return tries == 3, nil
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
}

func TestGRPCMiddlewareRetriesAsThePolicySays(t *testing.T) {
	var seen []backoff.Event
	p := steps
	p.Classify = plug.OnCode(status.Code, codes.Unavailable)
	p.Observer = func(_ context.Context, e backoff.Event) { seen = append(seen, e) }
	hooks := plug.GRPC(p)
	intercept := grpcretry.UnaryClientInterceptor(
		grpcretry.WithMax(hooks.Max()),
		grpcretry.WithBackoff(hooks.Backoff),
		grpcretry.WithRetriable(hooks.Retriable),
		grpcretry.WithOnRetryCallback(hooks.OnRetry),
	)
	call := func(code codes.Code) (attempts int, took time.Duration, err error) {
		began := time.Now()
		err = intercept(t.Context(), "/s/m", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			attempts++
			return status.Error(code, "")
		})
		return attempts, time.Since(began), err
	}
	attempts, took, err := call(codes.Unavailable)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, 4, attempts)
	require.GreaterOrEqual(t, took, 140*time.Millisecond)
	require.Equal(t, "test", seen[0].Name)
	require.Equal(t, 1, seen[0].Attempt)

	attempts, _, err = call(codes.NotFound)
	require.Equal(t, codes.NotFound, status.Code(err))
	require.Equal(t, 1, attempts)
}

// natsServer speaks just enough of the protocol for a client to connect.
func natsServer(t *testing.T) (addr string, cut func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var conns []net.Conn
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			go greet(conn)
		}
	}()
	cut = func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range conns {
			conn.Close()
		}
	}
	t.Cleanup(cut)
	return l.Addr().String(), cut
}

func greet(conn net.Conn) {
	fmt.Fprint(conn, "INFO {\"server_id\":\"s\",\"version\":\"2.10.0\",\"proto\":1,\"max_payload\":1048576}\r\n")
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "PING") {
			fmt.Fprint(conn, "PONG\r\n")
		}
	}
}

// asked records the retries for which a client asks a schedule.
type asked struct {
	mu      sync.Mutex
	numbers []int
}

func (a *asked) delay(n int) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.numbers = append(a.numbers, n)
	return steps.Delay(n)
}

func (a *asked) soFar() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]int(nil), a.numbers...)
}

func TestNATSCountsFromOne(t *testing.T) {
	addr, cut := natsServer(t)
	var a asked
	closed := make(chan struct{})
	conn, err := nats.Connect(addr, nats.CustomReconnectDelay(a.delay), nats.MaxReconnects(4),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(t, err)
	defer conn.Close()
	began := time.Now()
	cut()
	<-closed
	numbers := a.soFar()
	require.GreaterOrEqual(t, len(numbers), 3)
	require.Equal(t, []int{1, 2, 3}, numbers[:3])
	require.GreaterOrEqual(t, time.Since(began), 140*time.Millisecond)
}

// There is no broker: the client dials, is refused, and asks how long to wait.
func TestFranzAsksForEveryRetryFromOne(t *testing.T) {
	var a asked
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.RetryBackoffFn(a.delay), kgo.RequestRetries(3))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	var refused *net.OpError
	require.True(t, errors.As(err, &refused), "%v", err)
	numbers := a.soFar()
	require.NotEmpty(t, numbers)
	for i, n := range numbers {
		require.Equal(t, i+1, n, "of %v", numbers)
	}
}
