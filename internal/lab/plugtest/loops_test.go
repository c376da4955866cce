//go:build nightly

package plugtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	cenkalti4 "github.com/cenkalti/backoff/v4"
	cenkalti5 "github.com/cenkalti/backoff/v5"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	grpcretry "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/nats-io/nats.go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
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

// natsOnce speaks just enough of the protocol of NATS for one client to connect, and leaves.
func natsOnce(t *testing.T) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		conn, _ := l.Accept()
		l.Close()
		defer conn.Close()
		fmt.Fprint(conn, "INFO {\"version\":\"2.10.0\",\"proto\":1,\"max_payload\":1048576}\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if lines.Text() == "PING" {
				fmt.Fprint(conn, "PONG\r\n")
				return
			}
		}
	}()
	return l.Addr().String()
}

// Clients that take Delay as it is ask for the wait before retry 1 first, and then wait it.
func TestClientsAskForTheDelaysOfRetries1To3AndWaitThem(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, delay func(int) time.Duration){
		"NATS": func(t *testing.T, delay func(int) time.Duration) {
			closed := make(chan struct{})
			_, err := nats.Connect(natsOnce(t), nats.CustomReconnectDelay(delay), nats.MaxReconnects(3),
				nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
			require.NoError(t, err)
			<-closed
		},
		"franz-go": func(t *testing.T, delay func(int) time.Duration) {
			hangUp := func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrUnexpectedEOF }
			client, err := kgo.NewClient(kgo.Dialer(hangUp), kgo.RetryBackoffFn(delay), kgo.RequestRetries(3))
			require.NoError(t, err)
			defer client.Close()
			_, err = kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), client)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		},
		"Elastic": func(t *testing.T, delay func(int) time.Duration) {
			s := serve(t, answer(503, ""), reset, answer(503, ""))
			client := must(elastictransport.NewClient(elastictransport.WithURLs(must(url.Parse(s.URL))), elastictransport.WithTransport(own().Transport),
				elastictransport.WithRetryBackoff(delay), elastictransport.WithMaxRetries(3)))
			resp, err := client.Perform(must(http.NewRequestWithContext(t.Context(), "GET", "/", nil)))
			require.NoError(t, err)
			require.Equal(t, 503, resp.StatusCode)
			s.waited(t, 20*time.Millisecond, 40*time.Millisecond, 80*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []int
			began := time.Now()
			use(t, func(n int) time.Duration { asked = append(asked, n); return steps.WaitBefore(n) })
			require.GreaterOrEqual(t, len(asked), 3)
			require.Equal(t, []int{1, 2, 3}, asked[:3])
			require.GreaterOrEqual(t, time.Since(began), 140*time.Millisecond)
		})
	}
}

func retryable(p backoff.Policy) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.Logger = nil
	client.HTTPClient = own()
	retry := plug.RetryableHTTP(p)
	client.CheckRetry, client.Backoff = retry.CheckRetry, retry.Backoff
	client.ErrorHandler, client.RetryMax = retry.ErrorHandler, retry.RetryMax()
	return client
}

func send(ctx context.Context, p backoff.Policy, method, url string) (*http.Response, error) {
	return retryable(p).Do(must(retryablehttp.NewRequestWithContext(ctx, method, url, nil)))
}

func TestRetryableHTTPRetriesWithThePolicysWaits(t *testing.T) {
	s := serve(t, answer(502, ""), reset, answer(200, ""))
	resp, err := send(t.Context(), steps, "GET", s.URL)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	s.waited(t, 20*time.Millisecond, 40*time.Millisecond)

	s = serve(t, answer(500, "", "Retry-After", "1"), answer(200, ""))
	_, err = send(t.Context(), steps, "GET", s.URL)
	require.NoError(t, err)
	s.waited(t, time.Second)
}

func TestRetryableHTTPGivesUpForGood(t *testing.T) {
	s := serve(t, answer(503, ""))
	outer := backoff.Policy{Schedule: backoff.Constant(0)}
	err := outer.Do(t.Context(), func(ctx context.Context) error {
		_, err := send(ctx, steps, "GET", s.URL)
		return err
	})
	require.EqualError(t, err, "backoff: test: gave up after 4 attempts: status 503 Service Unavailable")
	require.ErrorIs(t, err, backoff.ErrExhausted)
	s.waited(t, 20*time.Millisecond, 40*time.Millisecond, 80*time.Millisecond)

	s = serve(t, reset)
	_, err = send(t.Context(), steps, "GET", s.URL)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.Len(t, s.gaps(), 3)
}

func TestOpenAIUnderTheMiddleware(t *testing.T) {
	transport := &backoffhttp.Unguarded{Policy: steps}
	busy := answer(429, `{"error":{"message":"rate limit"}}`, "Retry-After-Ms", "150", "Content-Type", "application/json")
	s := serve(t, busy, busy, answer(200, `{"id":"m","object":"model"}`, "Content-Type", "application/json"))
	client := openai.NewClient(option.WithBaseURL(s.URL), option.WithAPIKey("key"),
		option.WithMaxRetries(0), option.WithMiddleware(transport.Middleware))

	model, err := client.Models.Get(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, "m", model.ID)
	s.waited(t, 150*time.Millisecond, 150*time.Millisecond)

	s.script = []http.HandlerFunc{busy}
	_, err = client.Models.Get(t.Context(), "m")
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 429, refused.StatusCode)
	require.Len(t, s.gaps(), 2+4)
}
