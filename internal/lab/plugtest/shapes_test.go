//go:build nightly

package plugtest

import (
	"context"
	"net/http"
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
	"github.com/aws/smithy-go"
	"github.com/eclipse/paho.golang/autopaho"
	"github.com/gocql/gocql"
	"github.com/gojek/heimdall/v7"
	"github.com/googleapis/gax-go/v2/apierror"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/nsqio/go-nsq"
	"github.com/redis/go-redis/v9"
	sethvargo "github.com/sethvargo/go-retry"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/crypto/acme"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	kretry "k8s.io/client-go/util/retry"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
)

var p backoff.Policy

// What clients use as it is or through package plug, where no other test of this package runs them.
var (
	_ = aws.Config{Retryer: func() aws.Retryer { return plug.AWS(p) }}
	_ = policy.ClientOptions{Transport: backoffhttp.Client(p)}

	_ connect.HTTPClient = backoffhttp.Client(p)
	_ sethvargo.Backoff  = stopping{}

	_ retry5.RetryIfFunc = p.Retryable
	_ retry5.OnRetryFunc = func(n uint, err error) { plug.GRPC(p).OnRetry(context.Background(), n, err) }

	_ = redis.Options{DialerRetryBackoff: plug.FromZero(p.WaitBefore)}

	_ = rest.Config{WrapTransport: func(base http.RoundTripper) http.RoundTripper {
		return &backoffhttp.Transport{Base: base, Policy: p}
	}}
	_ = func() error { return kretry.OnError(kretry.DefaultBackoff, p.Retryable, nil) }

	_ = acme.Client{RetryBackoff: func(n int, _ *http.Request, resp *http.Response) time.Duration {
		return p.Decide(n, backoffhttp.Check(resp)).Wait
	}}
	_ = autopaho.ClientConfig{ReconnectBackoff: p.WaitBefore}

	_ hcloud.BackoffFunc       = plug.FromZero(p.WaitBefore)
	_ gocql.ReconnectionPolicy = schedule{}
	_ nsq.BackoffStrategy      = schedule{}
	_ heimdall.Retriable       = schedule{}
	_ ossretry.Retryer         = plug.AWS(p)
)

// sarama's plug points are fields of a nested struct.
func _() {
	config := sarama.NewConfig()
	fromZero := func(n, _ int) time.Duration { return plug.FromZero(p.WaitBefore)(n) }
	config.Metadata.Retry.BackoffFunc = fromZero
	config.Producer.Retry.BackoffFunc = fromZero
	config.Producer.Transaction.Retry.BackoffFunc = fromZero
	config.Consumer.Retry.BackoffFunc = p.WaitBefore
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
type schedule struct{ backoff.Policy }

func (s schedule) GetInterval(n int) time.Duration  { return plug.FromZero(s.WaitBefore)(n) }
func (s schedule) GetMaxRetries() int               { return s.MaxAttempts - 1 }
func (s schedule) NextInterval(n int) time.Duration { return plug.FromZero(s.WaitBefore)(n) }
func (s schedule) Calculate(n int) time.Duration    { return s.WaitBefore(n) }

type stopping struct {
	run *backoff.Run
	err error
}

func (s stopping) Next() (time.Duration, bool) { wait, ok := s.run.Tried(s.err); return wait, !ok }
