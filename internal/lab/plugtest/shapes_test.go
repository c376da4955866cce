//go:build nightly

package plugtest

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"cloud.google.com/go/storage"
	"connectrpc.com/connect"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/IBM/sarama"
	ossretry "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss/retry"
	retry5 "github.com/avast/retry-go/v5"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	cenkalti4 "github.com/cenkalti/backoff/v4"
	cenkalti5 "github.com/cenkalti/backoff/v5"
	"github.com/eclipse/paho.golang/autopaho"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/gocql/gocql"
	"github.com/gojek/heimdall/v7"
	"github.com/googleapis/gax-go/v2"
	"github.com/googleapis/gax-go/v2/apierror"
	grpcretry "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/nats-io/nats.go"
	"github.com/nsqio/go-nsq"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"
	sethvargo "github.com/sethvargo/go-retry"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/crypto/acme"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	kretry "k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
)

var p = new(backoff.Policy)

// What clients use as it is or through package plug, in the order of the
// documentation's list of clients.
var (
	_ aws.Retryer    = plug.AWS(p)
	_ aws.RetryerV2  = plug.AWS(p)
	_                = aws.Config{Retryer: func() aws.Retryer { return plug.AWS(p) }}
	_                = s3.Options{Retryer: plug.AWS(p)}
	_ aws.HTTPClient = backoffhttp.Client(*p)
	_ interface {
		Do(*http.Request) (*http.Response, error)
	} = policy.ClientOptions{Transport: backoffhttp.Client(*p)}.Transport
	_ connect.HTTPClient = backoffhttp.Client(*p)
	_ option.HTTPClient  = backoffhttp.Client(*p)

	_ gax.Retryer    = p.Start(context.Background())
	_ gax.CallOption = gax.WithRetry(func() gax.Retryer { return p.Start(context.Background()) })
	_                = gax.OnErrorFunc(gax.Backoff{}, p.Retryable)

	_ storage.RetryOption = storage.WithErrorFunc(p.Retryable)

	_ = policy.RetryOptions{ShouldRetry: plug.ShouldRetry(p)}

	_ retryablehttp.CheckRetry   = plug.RetryableHTTP(p).CheckRetry
	_ retryablehttp.Backoff      = plug.RetryableHTTP(p).Backoff
	_ retryablehttp.ErrorHandler = plug.RetryableHTTP(p).ErrorHandler
	_ retryablehttp.ErrorHandler = plug.RetryableHTTP(p).KeepResponse
	_ retryablehttp.PrepareRetry = func(*http.Request) error { return nil }

	_ cenkalti4.BackOff = plug.Cenkalti(context.Background(), p)
	_ cenkalti5.BackOff = plug.Cenkalti(context.Background(), p)
	_ sethvargo.Backoff = stopping{}

	_ retry5.RetryIfFunc     = p.Retryable
	_ retry5.OnRetryFunc     = func(n uint, err error) { plug.GRPC(p).OnRetry(context.Background(), n, err) }
	_ retry5.ThrottleManager = throttle{}

	_ = grpcretry.WithBackoff(plug.GRPC(p).Backoff)
	_ = grpcretry.WithRetriable(plug.GRPC(p).Retriable)
	_ = grpcretry.WithOnRetryCallback(plug.GRPC(p).OnRetry)
	_ = grpcretry.WithMax(plug.GRPC(p).Max())

	_ = redis.Options{DialerRetryBackoff: plug.FromZero(p.Delay)}
	_ = kgo.RetryBackoffFn(p.Delay)
	_ = nats.CustomReconnectDelay(p.Delay)

	_ = rest.Config{WrapTransport: func(base http.RoundTripper) http.RoundTripper {
		return &backoffhttp.Transport{Base: base, Policy: *p}
	}}
	//lint:ignore SA1019 it is still what rest.Config's users pass
	_ rest.BackoffManager                = manager{}
	_ rest.BackoffManagerWithContext     = manager{}
	_ workqueue.TypedRateLimiter[string] = plug.Workqueue[string](p)
	_ wait.DelayFunc                     = plug.DelayFunc(p)
	_                                    = func() error { return kretry.OnError(kretry.DefaultBackoff, p.Retryable, nil) }

	_ option.Middleware = new(backoffhttp.Transport).Middleware

	_ = elastictransport.WithTransport(&backoffhttp.Transport{})
	_ = elastictransport.WithRetryBackoff(p.Delay)
	_ = elastictransport.WithRetryOnError(func(_ *http.Request, err error) bool { return p.Retryable(err) })
	_ = acme.Client{RetryBackoff: func(n int, _ *http.Request, resp *http.Response) time.Duration {
		wait, _ := p.Decide(n, backoffhttp.Check(resp))
		return wait
	}}
	_ = autopaho.ClientConfig{ReconnectBackoff: p.Delay}

	_ hcloud.BackoffFunc       = plug.FromZero(p.Delay)
	_ gocql.ReconnectionPolicy = schedule{}
	_ nsq.BackoffStrategy      = schedule{}
	_ heimdall.Retriable       = schedule{}
	_ pulsar                   = pulsarBackoff{}
	_ ossretry.Retryer         = plug.AWS(p)
)

// sarama's plug points are fields of a nested struct.
func _() {
	config := sarama.NewConfig()
	fromZero := func(n, _ int) time.Duration { return plug.FromZero(p.Delay)(n) }
	config.Metadata.Retry.BackoffFunc = fromZero
	config.Producer.Retry.BackoffFunc = fromZero
	config.Producer.Transaction.Retry.BackoffFunc = fromZero
	config.Consumer.Retry.BackoffFunc = p.Delay
	_ = config
}

// The classifiers of clients have the shape of this library's.
var _ = []backoff.Classifier{
	backoff.RetryIf(storage.ShouldRetry),
	backoff.RetryIf(pgconn.SafeToRetry),
	backoff.RetryIf(kerr.IsRetriable),
	backoff.RetryIf(apierrors.IsTooManyRequests),
	backoff.RetryIf(apierrors.IsConflict),
	backoff.RetryIf(utilnet.IsConnectionReset),
	backoff.RetryIf(awsretry.NewStandard().IsErrorRetryable),
	plug.OnCode(status.Code, codes.Unavailable),
	plug.OnCode(connect.CodeOf, connect.CodeUnavailable),
}

// The methods by which DefaultClassifier recognizes the errors of clients.
var (
	_ interface{ SQLState() string }    = (*pgconn.PgError)(nil)
	_ interface{ SQLState() string }    = (*pq.Error)(nil)
	_ interface{ HTTPStatusCode() int } = (*awshttp.ResponseError)(nil)
	_ interface{ ErrorCode() string }   = (smithy.APIError)(nil)
	_ interface{ HTTPCode() int }       = (*apierror.APIError)(nil)
)

// One method around a policy, as in the documentation of package plug.
type schedule struct{ *backoff.Policy }

func (s schedule) GetInterval(n int) time.Duration  { return plug.FromZero(s.Delay)(n) }
func (s schedule) GetMaxRetries() int               { return s.MaxAttempts - 1 }
func (s schedule) NextInterval(n int) time.Duration { return plug.FromZero(s.Delay)(n) }
func (s schedule) Calculate(n int) time.Duration    { return s.Delay(n) }

type stopping struct {
	run *backoff.Run
	err error
}

func (s stopping) Next() (time.Duration, bool) { wait, ok := s.run.Retry(s.err); return wait, !ok }

// throttle is a budget in the shape of avast/retry-go's ThrottleManager.
type throttle struct{ backoff.Budget }

func (t throttle) AllowRetry(n uint, err error) bool {
	_, _, ok := t.Reserve(backoff.Attempt{Number: int(n) + 2, Kind: backoff.AttemptRetry, Class: backoff.DefaultClassifier(err)})
	return ok
}

func (t throttle) OnSuccess(uint) { t.Done(backoff.Ticket{}, backoff.Result{}) }

// manager keeps client-go's delays per host in a RateLimiter of package plug.
type manager struct{ retry *plug.RateLimiter[string] }

func (m manager) UpdateBackoff(u *url.URL, err error, code int) {
	if err == nil && code < 500 && code != http.StatusTooManyRequests {
		m.retry.Forget(u.Host)
	}
}
func (m manager) CalculateBackoff(u *url.URL) time.Duration { return m.retry.When(u.Host) }
func (m manager) Sleep(d time.Duration)                     { time.Sleep(d) }

func (m manager) UpdateBackoffWithContext(_ context.Context, u *url.URL, err error, code int) {
	m.UpdateBackoff(u, err, code)
}
func (m manager) CalculateBackoffWithContext(_ context.Context, u *url.URL) time.Duration {
	return m.CalculateBackoff(u)
}
func (m manager) SleepWithContext(_ context.Context, d time.Duration) { m.Sleep(d) }

// pulsar is a copy of the interface backoff.Policy of pulsar-client-go, whose
// module is too heavy for this test.
type pulsar interface {
	Next() time.Duration
	IsMaxBackoffReached() bool
	Reset()
}

type pulsarBackoff struct{ *plug.BackOff }

func (b pulsarBackoff) Next() time.Duration       { return b.NextBackOff() }
func (b pulsarBackoff) IsMaxBackoffReached() bool { return b.Err() != nil }
