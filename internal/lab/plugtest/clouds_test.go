//go:build nightly

package plugtest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/googleapis/gax-go/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
)

func s3Client(url string, retryer aws.Retryer, client *http.Client) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &url,
		Region:       "us-east-1",
		UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		}),
		Retryer:    retryer,
		HTTPClient: client,
	})
}

// own is a client that keeps no connections, so that net/http repeats no
// request by itself.
func own() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

func head(ctx context.Context, c *s3.Client) error {
	bucket, key := "bucket", "key"
	_, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	return err
}

var (
	slowDown = answer(503, `<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
	internal = answer(500, `<Error><Code>InternalError</Code></Error>`)
	ok       = answer(200, "body")
)

func TestAWSRetriesWithThePolicysWaits(t *testing.T) {
	for name, failure := range map[string]http.HandlerFunc{"SlowDown": slowDown, "500": internal, "reset": reset} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, failure, failure, ok)
			require.NoError(t, head(t.Context(), s3Client(s.URL, plug.AWS(steps), own())))
			s.waited(t, 20*time.Millisecond, 40*time.Millisecond)
		})
	}
}

func TestAWSObeysRetryAfterWhichTheSDKDoesNot(t *testing.T) {
	busy := answer(429, "", "Retry-After", "1")
	s := serve(t, busy, ok)
	require.NoError(t, head(t.Context(), s3Client(s.URL, plug.AWS(steps), own())))
	s.waited(t, time.Second)

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	s = serve(t, busy)
	err := head(ctx, s3Client(s.URL, plug.AWS(steps), own()))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, ctx.Err(), "the deadline is not waited for")
	s.waited(t)
}

func TestAWSBudgetBoundsRetriesInBothModes(t *testing.T) {
	for _, mode := range []string{"false", "true"} {
		t.Run(mode, func(t *testing.T) {
			t.Setenv("AWS_NEW_RETRIES_2026", mode)
			budget := new(backoff.RetryBudget)
			p := steps
			p.Schedule, p.Budget = backoff.Constant(time.Millisecond), budget
			s := serve(t, ok, ok, ok, internal, ok, ok, ok, ok, internal)
			client := s3Client(s.URL, plug.AWS(p), own())
			for range 7 {
				require.NoError(t, head(t.Context(), client))
			}
			require.Equal(t, uint64(7), budget.Stats().Successes, "each call once")
			err := head(t.Context(), client)
			for range 3 {
				if errors.Is(err, backoff.ErrBudget) {
					break
				}
				err = head(t.Context(), client)
			}
			require.ErrorIs(t, err, backoff.ErrBudget)
			require.ErrorContains(t, err, "InternalError")
			require.LessOrEqual(t, budget.Stats().Retries, uint64(6), "what 7 successes pay for, and one call's")
		})
	}
}

func TestAWSStopsWhereATransportOfOursGaveUp(t *testing.T) {
	calls := 0
	err := head(t.Context(), s3Client("http://127.0.0.1:1", awsretry.NewStandard(), gaveUp(&calls)))
	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.ErrorIs(t, err, errDown)
	require.Equal(t, 4, calls, "the SDK's own retryer makes 1 attempt, not 3")

	calls = 0
	head(t.Context(), s3Client("http://127.0.0.1:1", plug.AWS(steps), gaveUp(&calls)))
	require.Equal(t, 4, calls, "and so does ours")

	s := serve(t, reset)
	transport := &backoffhttp.Unguarded{Base: own().Transport, Policy: steps}
	head(t.Context(), s3Client(s.URL, plug.AWS(steps), &http.Client{Transport: transport}))
	require.Len(t, s.gaps(), 3)

	s = serve(t, slowDown)
	err = head(t.Context(), s3Client(s.URL, plug.AWS(steps), &http.Client{Transport: transport, Timeout: time.Minute}))
	require.Len(t, s.gaps(), 3, "the mark is on the response")
	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.ErrorContains(t, err, "SlowDown")
}

func azure(t *testing.T, method, url string, client *http.Client, should func(*http.Response, error) bool) (*http.Response, error) {
	pipeline := runtime.NewPipeline("plugtest", "v1.0.0", runtime.PipelineOptions{}, &policy.ClientOptions{
		Transport: client,
		Retry:     policy.RetryOptions{MaxRetries: 3, RetryDelay: time.Millisecond, ShouldRetry: should},
	})
	req, err := runtime.NewRequest(t.Context(), method, url)
	require.NoError(t, err)
	return pipeline.Do(req)
}

func TestAzureRetriesWhatThePolicyRetries(t *testing.T) {
	should := plug.ShouldRetry(steps)
	s := serve(t, answer(502, ""), reset, answer(429, "", "Retry-After-Ms", "50"), answer(200, ""))
	resp, err := azure(t, "GET", s.URL, own(), should)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	s.waited(t, 0, 0, 50*time.Millisecond)

	s = serve(t, answer(501, ""))
	resp, err = azure(t, "GET", s.URL, own(), should)
	require.NoError(t, err)
	require.Equal(t, 501, resp.StatusCode)
	s.waited(t)

	s = serve(t, answer(503, ""))
	_, err = azure(t, "GET", s.URL, own(), should)
	require.NoError(t, err)
	require.Len(t, s.gaps(), 3)
}

func TestAzureDoesNotSendAPostTwice(t *testing.T) {
	s := serve(t, answer(503, ""))
	azure(t, "POST", s.URL, own(), plug.ShouldRetry(steps))
	s.waited(t)
	s = serve(t, reset)
	azure(t, "POST", s.URL, own(), plug.ShouldRetry(steps))
	s.waited(t)

	p := steps
	p.Idempotency = backoff.Idempotent
	s = serve(t, answer(503, ""))
	azure(t, "POST", s.URL, own(), plug.ShouldRetry(p))
	require.Len(t, s.gaps(), 3)
}

func TestAzureStopsWhereATransportOfOursGaveUp(t *testing.T) {
	calls := 0
	_, err := azure(t, "GET", "http://127.0.0.1:1", gaveUp(&calls), nil)
	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.ErrorIs(t, err, errDown)
	require.Equal(t, 4, calls, "azcore's own loop makes 1 attempt, not 4")
}

func invoke(t *testing.T, p backoff.Policy, op func(n int) error) (attempts int, err error) {
	err = gax.Invoke(t.Context(), func(context.Context, gax.CallSettings) error {
		attempts++
		return op(attempts)
	}, gax.WithRetry(func() gax.Retryer { return plug.Gax(p.Start(t.Context()).Tried) }))
	return attempts, err
}

func TestGaxRetriesWithThePolicysWaits(t *testing.T) {
	p := steps
	p.Classify = plug.OnCode(status.Code, codes.Unavailable)
	unavailable := status.Error(codes.Unavailable, "try later")

	began := time.Now()
	attempts, err := invoke(t, p, func(n int) error {
		if n < 3 {
			return unavailable
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 3, attempts)
	require.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)

	attempts, err = invoke(t, p, func(int) error { return unavailable })
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, 4, attempts)

	attempts, err = invoke(t, p, func(int) error { return status.Error(codes.NotFound, "") })
	require.Equal(t, codes.NotFound, status.Code(err))
	require.Equal(t, 1, attempts)
}

func TestGaxStopsWhereAPolicyInsideGaveUp(t *testing.T) {
	inner, calls := backoff.Policy{Schedule: backoff.Constant(0)}, 0
	attempts, err := invoke(t, steps, func(int) error {
		return inner.Do(t.Context(), func(context.Context) error { calls++; return errDown })
	})
	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.Equal(t, 1, attempts)
	require.Equal(t, 4, calls)
}

func bucket(t *testing.T, s *server, opts ...storage.RetryOption) *storage.BucketHandle {
	client, err := storage.NewClient(t.Context(), option.WithEndpoint(s.URL+"/storage/v1/"), option.WithoutAuthentication())
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	fast := storage.WithBackoff(gax.Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond})
	return client.Bucket("b").Retryer(append(opts, fast)...)
}

// storage also asks about success: a classifier that calls nil retryable would
// loop forever.
func TestStorageAsksThePolicy(t *testing.T) {
	asked := 0
	p := steps
	p.Classify = func(err error) backoff.Class {
		asked++
		if googleErr := new(googleapi.Error); errors.As(err, &googleErr) && googleErr.Code == 418 {
			return backoff.ClassRetryable
		}
		return backoff.RetryIf(storage.ShouldRetry)(err)
	}
	s := serve(t, answer(503, ""), answer(418, ""), reset, answer(200, `{"name":"b"}`, "Content-Type", "application/json"))
	_, err := bucket(t, s, storage.WithErrorFunc(p.Retryable)).Attrs(t.Context())
	require.NoError(t, err)
	require.Len(t, s.gaps(), 3)
	require.Equal(t, 2, asked, "the reset of a kept connection is net/http's own to repeat")

	s = serve(t, answer(403, ""))
	_, err = bucket(t, s, storage.WithErrorFunc(p.Retryable)).Attrs(t.Context())
	var refused *googleapi.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 403, refused.Code)
	s.waited(t)

	yes := steps
	yes.Classify = func(error) backoff.Class { return backoff.ClassRetryable }
	s = serve(t, answer(200, `{"name":"b"}`, "Content-Type", "application/json"))
	_, err = bucket(t, s, storage.WithErrorFunc(yes.Retryable)).Attrs(t.Context())
	require.NoError(t, err)
	s.waited(t)
}
