//go:build nightly

package plugtest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

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
