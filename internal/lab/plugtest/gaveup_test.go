//go:build nightly

package plugtest

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"net"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	avast4 "github.com/avast/retry-go/v4"
	avast5 "github.com/avast/retry-go/v5"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	cenkalti4 "github.com/cenkalti/backoff/v4"
	cenkalti5 "github.com/cenkalti/backoff/v5"
	cenkalti6 "github.com/cenkalti/backoff/v6"
	cenkalti7 "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

// around runs op under a policy that stands around the loop of another library.
func around(t *testing.T, op func(context.Context) error) error {
	outer := backoff.Policy{Schedule: backoff.Constant(0)}
	return outer.Do(t.Context(), op)
}

// ours is a retryer of the SDK's own that waits for next to nothing.
func ours(change ...func(*awsretry.StandardOptions)) aws.Retryer {
	return awsretry.NewStandard(append(change, func(o *awsretry.StandardOptions) { o.MaxBackoff = time.Millisecond })...)
}

func TestAPolicyAroundAnAWSClientDoesNotMultiply(t *testing.T) {
	quick := steps
	quick.Schedule = backoff.Constant(0)
	empty := func(o *awsretry.StandardOptions) { o.RateLimiter = ratelimit.NewTokenRateLimit(0) }
	for name, c := range map[string]struct {
		retryer  aws.Retryer
		requests int
	}{
		"plug.AWS":                   {plug.AWS(quick), 4},
		"its own retryer":            {ours(), 3},
		"its own retryer, no tokens": {ours(empty), 1},
	} {
		for kind, failure := range map[string]func() *server{
			"503":   func() *server { return serve(t, slowDown) },
			"reset": func() *server { return serve(t, reset) },
		} {
			s := failure()
			err := around(t, func(ctx context.Context) error { return head(ctx, s3Client(s.URL, c.retryer, own())) })
			require.Error(t, err)
			require.Len(t, s.came, c.requests, "%s, %s: %v", name, kind, err)
		}
	}
}

func TestAPolicyAroundGoRetryablehttpDoesNotMultiply(t *testing.T) {
	client := retryablehttp.NewClient()
	client.Logger, client.HTTPClient = nil, own()
	client.RetryMax, client.RetryWaitMin, client.RetryWaitMax = 2, 0, time.Millisecond
	for _, script := range []*server{serve(t, answer(503, "")), serve(t, reset)} {
		err := around(t, func(context.Context) error {
			resp, err := client.Get(script.URL)
			require.Nil(t, resp)
			return err
		})
		require.Len(t, script.came, 3, "%v", err)
		err = around(t, func(context.Context) error { _, err := client.StandardClient().Get(script.URL); return err })
		require.Len(t, script.came, 6, "%v", err)
	}
}

func TestAPolicyAroundCloudStorageDoesNotMultiply(t *testing.T) {
	s := serve(t, answer(503, ""))
	b := bucket(t, s, storage.WithMaxAttempts(3))
	err := around(t, func(ctx context.Context) error { _, err := b.Attrs(ctx); return err })
	require.Len(t, s.came, 3, "%v", err)
}

func TestAPolicyAroundALoopThatSaysSoDoesNotMultiply(t *testing.T) {
	noWait := wait.Backoff{Steps: 3}
	for name, loop := range map[string]func(op func() error) error{
		"failsafe-go": func(op func() error) error {
			return failsafe.With(retrypolicy.NewBuilder[any]().WithMaxRetries(2).Build()).Run(op)
		},
		"cenkalti v6": func(op func() error) error {
			_, err := cenkalti6.Retry(t.Context(), func() (int, error) { return 0, op() }, cenkalti6.WithMaxTries(3), cenkalti6.WithBackOff(new(cenkalti6.ZeroBackOff)))
			return err
		},
		"cenkalti v7": func(op func() error) error {
			_, err := cenkalti7.Retry(t.Context(), func() (int, error) { return 0, op() }, cenkalti7.WithMaxTries(3), cenkalti7.WithBackOff(new(cenkalti7.ZeroBackOff)))
			return err
		},
		"avast v4": func(op func() error) error { return avast4.Do(op, avast4.Attempts(3), avast4.Delay(0)) },
		"avast v5": func(op func() error) error { return avast5.New(avast5.Attempts(3), avast5.Delay(0)).Do(op) },
		"wait": func(op func() error) error {
			return wait.ExponentialBackoff(noWait, func() (bool, error) { return op() == nil, nil })
		},
	} {
		calls := 0
		err := around(t, func(context.Context) error {
			return loop(func() error { calls++; return errDown })
		})
		require.Error(t, err)
		require.Equal(t, 3, calls, "%s: %v", name, err)
		require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err), name)
	}
}

func TestWhatOtherLoopsMarkIsPermanent(t *testing.T) {
	for name, err := range map[string]error{
		"cenkalti v4": cenkalti4.Permanent(errDown),
		"cenkalti v5": cenkalti5.Permanent(errDown),
		"cenkalti v6": cenkalti6.Permanent(errDown),
		"cenkalti v7": cenkalti7.Permanent(errDown),
		"avast v4":    avast4.Unrecoverable(errDown),
		"avast v5":    avast5.Unrecoverable(errDown),
	} {
		calls := 0
		got := around(t, func(context.Context) error { calls++; return err })
		require.ErrorIs(t, got, errDown)
		require.Equal(t, 1, calls, name)
	}
}

func TestAPermanentErrorOfAClientComesBackBareAfterOneAttempt(t *testing.T) {
	unauthorized := mongo.CommandError{Code: 13, Name: "Unauthorized"}
	for name, err := range map[string]error{
		"redis.Nil":          redis.Nil,
		"redis NOSCRIPT":     redis.ErrNoScript,
		"grpc NotFound":      status.Error(codes.NotFound, "no such shelf"),
		"grpc Unimplemented": status.Error(codes.Unimplemented, ""),
		"grpc denied":        status.Error(codes.PermissionDenied, "no"),
		"kafka too large":    kerr.MessageTooLarge,
		"nats stream":        nats.ErrStreamNotFound,
		"jetstream consumer": jetstream.ErrConsumerNotFound,
		"mongo no documents": mongo.ErrNoDocuments,
		"sql no rows":        sql.ErrNoRows,
		"tls":                tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
	} {
		calls := 0
		got := around(t, func(context.Context) error { calls++; return err })
		require.Equal(t, 1, calls, name)
		require.True(t, got == err, "%s: %T", name, got)
		require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(fmt.Errorf("find: %w", err)), name)
	}
	for _, err := range []error{
		unauthorized,
		mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}},
		mongo.BulkWriteException{WriteErrors: []mongo.BulkWriteError{{WriteError: mongo.WriteError{Code: 11000}}}},
	} {
		require.Equal(t, err, around(t, func(context.Context) error { return err }))
	}
}

// Redis has types for some of its answers, which only a server makes.
func TestAPermanentErrorOfRedisComesBackAfterOneAttempt(t *testing.T) {
	for _, answer := range []string{"WRONGTYPE Operation against a key", "NOAUTH Authentication required.", "NOPERM this user"} {
		client := redis.NewClient(&redis.Options{MaxRetries: -1, DisableIdentity: true, Dialer: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				for request := make([]byte, 4096); ; {
					if _, err := ours.Read(request); err != nil {
						return
					}
					ours.Write([]byte("-" + answer + "\r\n"))
				}
			}()
			return theirs, nil
		}})
		defer client.Close()
		calls := 0
		err := around(t, func(ctx context.Context) error { calls++; return client.Get(ctx, "k").Err() })
		require.ErrorContains(t, err, answer)
		require.Equal(t, 1, calls, answer)
	}
}

// What may pass is retried as before.
func TestAnAnswerOfAClientThatMayPassIsRetried(t *testing.T) {
	for _, err := range []error{
		redis.TxFailedErr, status.Error(codes.Unavailable, "NotFound"), status.Error(codes.Aborted, ""),
		kerr.NotLeaderForPartition, nats.ErrNoResponders, &nats.APIError{Code: 503}, nats.ErrTimeout,
		mongo.CommandError{Code: 91, Labels: []string{"RetryableWriteError"}}, mongo.CommandError{Code: 26},
	} {
		calls := 0
		require.Error(t, around(t, func(context.Context) error { calls++; return err }))
		require.Equal(t, 4, calls, err)
	}
}
