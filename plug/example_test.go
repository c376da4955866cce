package plug_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
)

var patient = backoff.Policy{
	Name:     "put",
	Schedule: backoff.Exponential{Initial: 50 * time.Millisecond, Max: time.Second},
	Jitter:   backoff.NoJitter, // for an example's sake
}

// What the AWS SDK asks its retryer, attempt by attempt.
func ExampleAWS() {
	retryer := plug.AWS(patient)
	slowDown := backoff.OfClass(errors.New("SlowDown"), backoff.ClassThrottled)

	wait, err := retryer.RetryDelay(2, slowDown)
	fmt.Println(retryer.MaxAttempts(), retryer.IsErrorRetryable(slowDown), wait, err)

	_, err = plug.AWS(backoff.Policy{MaxAttempts: -1}).GetAttemptToken(context.Background())
	fmt.Println(err)
	// Output:
	// 4 true 100ms <nil>
	// backoff: plug: the policy has no limit of attempts and the context no deadline: set MaxAttempts, or give the call a deadline
}

func ExampleCenkalti() {
	b := plug.Cenkalti(context.Background(), patient)
	for wait := b.NextBackOff(); wait != plug.Stop; wait = b.NextBackOff() {
		fmt.Println(wait)
	}
	fmt.Println(errors.Is(b.Err(), backoff.ErrExhausted))
	// Output:
	// 50ms
	// 100ms
	// 200ms
	// true
}

// gax makes the attempts, and asks after each that failed.
func ExampleGax() {
	retryer := plug.Gax(patient.Start(context.Background()).Tried)
	fmt.Println(retryer.Retry(errors.New("connection lost")))
	fmt.Println(retryer.Retry(backoff.Permanent(errors.New("no such object"))))
	// Output:
	// 50ms true
	// 0s false
}

func ExampleWorkqueue() {
	limiter := plug.Workqueue[string](patient)
	fmt.Println(limiter.When("pod-1"), limiter.When("pod-1"), limiter.When("pod-2"))
	limiter.Forget("pod-1")
	fmt.Println(limiter.When("pod-1"), limiter.NumRequeues("pod-1"))
	// Output:
	// 50ms 100ms 50ms
	// 50ms 1
}

func ExampleFromZero() {
	backoffFunc := plug.FromZero(patient.WaitBefore) // hcloud's, go-redis', gocql's, sarama's
	fmt.Println(backoffFunc(0), backoffFunc(1), backoffFunc(-1))
	// Output: 50ms 100ms 50ms
}

func ExampleShouldRetry() {
	should := plug.ShouldRetry(patient)
	fmt.Println(should(nil, context.DeadlineExceeded), should(nil, context.Canceled), should(nil, nil))
	// Output: true false false
}

func ExampleRetryableHTTP() {
	retry := plug.RetryableHTTP(patient)
	fmt.Println(retry.RetryMax(), retry.Backoff(0, 0, 0, nil), retry.Backoff(0, 0, 1, nil))
	// Output: 3 50ms 100ms
}

// A program that reads errors from the body of the last answer, as Vault's does,
// gets that answer.
func ExampleHTTPRetry_KeepResponse() {
	retry := plug.RetryableHTTP(patient)
	resp := &http.Response{
		StatusCode: 503, Status: "503 Service Unavailable", Request: new(http.Request),
		Body: io.NopCloser(strings.NewReader(`{"errors":["Vault is sealed"]}`)),
	}
	resp, err := retry.KeepResponse(resp, nil, 4) // as go-retryablehttp calls its ErrorHandler
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(err, resp.StatusCode, string(body))
	fmt.Println(backoffhttp.Check(resp))
	// Output:
	// <nil> 503 {"errors":["Vault is sealed"]}
	// backoff: put: gave up after 4 attempts: status 503 Service Unavailable
}

func ExampleGRPC() {
	unavailable := errors.New("rpc error: code = Unavailable")
	policy := patient
	policy.Classify = plug.OnCode(code, "Unavailable") // plug.OnCode(status.Code, codes.Unavailable)
	hooks := plug.GRPC(policy)
	fmt.Println(hooks.Max(), hooks.Retriable(unavailable), hooks.Backoff(context.Background(), 1))
	// Output: 4 true 50ms
}

func code(err error) string {
	_, code, _ := strings.Cut(err.Error(), "code = ")
	return code
}
