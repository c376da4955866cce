//go:build nightly

package plugtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

// flaky is a server that is busy for the first requests, as many as times says.
func flaky(times int32, busy, good http.HandlerFunc) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if atomic.AddInt32(&times, -1) >= 0 {
			busy(w, r)
			return
		}
		good(w, r)
	}))
}

// An S3 client under a policy, with a budget that all clients of the bucket
// share. The policy obeys Retry-After, which the SDK by itself does not do.
func Example_aws() {
	server := flaky(2, slowDown, ok)
	defer server.Close()

	p := backoff.Policy{
		Name:     "s3",
		Schedule: backoff.Exponential{Initial: 20 * time.Millisecond, Max: 20 * time.Second},
		Budget:   new(backoff.RetryBudget),
	}
	client := s3.New(s3.Options{
		Retryer:      plug.AWS(&p),
		BaseEndpoint: aws.String(server.URL),
		UsePathStyle: true,
		Region:       "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		}),
	})
	out, err := client.GetObject(context.Background(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	fmt.Println(string(body), err)
	// Output: body <nil>
}

// Cloud Storage lets a policy decide which errors to retry. Its waits and
// attempts remain its own settings, which here are those of the policy's
// schedule.
func Example_gcs() {
	server := flaky(2, answer(503, ""), answer(200, `{"name":"b"}`, "Content-Type", "application/json"))
	defer server.Close()

	p := backoff.Policy{Classify: backoff.RetryIf(storage.ShouldRetry)}
	ctx := context.Background()
	client, err := storage.NewClient(ctx, option.WithEndpoint(server.URL+"/storage/v1/"), option.WithoutAuthentication())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	client.SetRetry(
		storage.WithErrorFunc(p.Retryable),
		storage.WithMaxAttempts(4),
		storage.WithBackoff(gax.Backoff{Initial: 20 * time.Millisecond, Max: 20 * time.Second}),
	)
	attrs, err := client.Bucket("b").Attrs(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(attrs.Name)
	// Output: b
}

// In an Azure client's pipeline the policy retries only failures that it knows
// to be transient, and never a POST that may have arrived.
func Example_azure() {
	busy := answer(429, "", "Retry-After-Ms", "50")
	p := backoff.Policy{Name: "azure"}
	pipeline := runtime.NewPipeline("example", "v1.0.0", runtime.PipelineOptions{}, &policy.ClientOptions{
		Retry: policy.RetryOptions{MaxRetries: 3, RetryDelay: 20 * time.Millisecond, ShouldRetry: plug.ShouldRetry(&p)},
	})
	for method := range strings.FieldsSeq("PUT POST") {
		server := flaky(2, busy, answer(201, ""))
		req, err := runtime.NewRequest(context.Background(), method, server.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := pipeline.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(method, resp.Status)
		server.Close()
	}
	// Output:
	// PUT 201 Created
	// POST 429 Too Many Requests
}
