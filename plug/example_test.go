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

// A consumer of a log of messages, such as Kafka, calls its handler under a
// policy. It commits each message that was handled or set aside. A message is
// not set aside because the program ends: then it is not committed either, and
// the next run reads it again.
func Example_consumer() {
	log := []string{"one", "two", "poison"}
	failures := map[string]int{"two": 1, "poison": 99}
	handle := func(_ context.Context, message string) error {
		if failures[message]--; failures[message] >= 0 {
			return errors.New(message + " fails")
		}
		return nil
	}

	ctx := context.Background()
	handling := backoff.Policy{Name: "handle", MaxAttempts: 3, Schedule: backoff.Constant(time.Millisecond)}
	handling.Observer = func(_ context.Context, e backoff.Event) { fmt.Println("  attempt", e.Attempt, e.Kind) }
	for offset, message := range log {
		err := handling.Do(ctx, func(ctx context.Context) error { return handle(ctx, message) })
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			fmt.Println("dead letter:", message)
		}
		fmt.Println("commit", offset)
	}
	// Output:
	//   attempt 1 success
	// commit 0
	//   attempt 1 retry
	//   attempt 2 success
	// commit 1
	//   attempt 1 retry
	//   attempt 2 retry
	//   attempt 3 give up
	// dead letter: poison
	// commit 2
}
