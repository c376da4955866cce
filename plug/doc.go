// Package plug gives a [backoff.Policy] the shapes that other libraries ask
// for. It imports none of these libraries: the shapes consist of types of the
// standard library, and Go's interfaces do the rest.
//
//   - [AWS]: aws.RetryerV2 of the AWS SDK, and the Retryer of Alibaba's OSS
//     client
//   - [Cenkalti]: BackOff of github.com/cenkalti/backoff, any version
//   - [RetryableHTTP]: CheckRetry, Backoff and ErrorHandler of
//     go-retryablehttp, also for Vault's client
//   - [ShouldRetry]: RetryOptions.ShouldRetry of Azure's azcore
//   - [GRPC]: the three hooks of go-grpc-middleware's retry interceptor
//   - [Workqueue]: TypedRateLimiter of client-go's workqueue
//   - [DelayFunc]: wait.DelayFunc of Kubernetes' apimachinery
//
// # What needs no adapter
//
// Many libraries take a method of the policy as it is, or a closure of one
// line. In the examples, p is a [*backoff.Policy].
//
// A func(int) time.Duration that counts retries from 1 is
// [backoff.Policy.Delay]:
//
//	kgo.RetryBackoffFn(p.Delay)                      // franz-go
//	nats.CustomReconnectDelay(p.Delay)               // NATS
//	elasticsearch.Config{RetryBackoff: p.Delay}      // Elasticsearch, OpenSearch
//	config.Consumer.Retry.BackoffFunc = p.Delay      // sarama, consumer
//	autopaho.ClientConfig{ReconnectBackoff: p.Delay} // MQTT; asks for 0 first, which is no wait
//
// For a client that counts retries from 0 there is [FromZero]:
//
//	hcloud.WithRetryOpts(hcloud.RetryOpts{BackoffFunc: plug.FromZero(p.Delay), MaxRetries: 3})
//	redis.Options{DialerRetryBackoff: plug.FromZero(p.Delay)}
//	// sarama, metadata and producer
//	config.Metadata.Retry.BackoffFunc = func(n, _ int) time.Duration {
//		return plug.FromZero(p.Delay)(n)
//	}
//
// A few clients want a type with one method:
//
//	// gocql.ReconnectionPolicy
//	func (s schedule) GetInterval(n int) time.Duration { return plug.FromZero(s.Delay)(n) }
//	func (s schedule) GetMaxRetries() int              { return s.MaxAttempts - 1 }
//
//	// heimdall.Retriable
//	func (s schedule) NextInterval(n int) time.Duration { return plug.FromZero(s.Delay)(n) }
//
//	// nsq.BackoffStrategy
//	func (s schedule) Calculate(n int) time.Duration { return s.Delay(n) }
//
//	// sethvargo/go-retry: true means stop
//	func (s schedule) Next() (time.Duration, bool) { wait, ok := s.run.Retry(err); return wait, !ok }
//
// golang.org/x/crypto/acme stops at 0 or less. It passes the response, from
// which backoffhttp reads Retry-After:
//
//	client.RetryBackoff = func(n int, _ *http.Request, resp *http.Response) time.Duration {
//		wait, _ := p.Decide(n, backoffhttp.Check(resp))
//		return wait
//	}
//
// A func(error) bool is [backoff.Policy.Retryable]. It returns false for nil,
// which some clients ask about too. It returns true for an unknown error, as Do
// retries one. The errors of some clients (Google's, Azure's, MySQL's,
// Kubernetes') have no method that returns their code. Let the client's own
// function classify them:
//
//	p.Classify = backoff.RetryIf(storage.ShouldRetry)
//	bucket.Retryer(storage.WithErrorFunc(p.Retryable)) // Cloud Storage keeps its waits and attempts
//	p.Classify = backoff.RetryIf(apierrors.IsConflict)
//	retry.OnError(retry.DefaultBackoff, p.Retryable, update) // Kubernetes
//	elasticsearch.Config{RetryOnError: func(_ *http.Request, err error) bool {
//		return p.Retryable(err)
//	}}
//
// [OnCode] makes a classifier from a code.
//
// A [*backoff.Run] is a gax.Retryer as it is, one for each call, for all of
// Google's generated clients:
//
//	client.Get(ctx, req, gax.WithRetry(func() gax.Retryer { return p.Start(ctx) }))
//
// Clients that take an http.RoundTripper or an *http.Client take those of
// backoffhttp. openai-go and its relatives take its Middleware.
//
// If a client has no place for a policy at all, call it inside Do. This is the
// read loop of a Kafka client whose handler may fail:
//
//	for {
//		m, err := reader.FetchMessage(ctx)
//		if err != nil {
//			return err
//		}
//		err = p.Do(ctx, func(ctx context.Context) error { return handle(ctx, m) })
//		if err != nil && ctx.Err() == nil {
//			err = deadLetters.WriteMessages(ctx, m)
//		}
//		if err == nil {
//			err = reader.CommitMessages(ctx, m)
//		}
//		if err != nil {
//			return err
//		}
//	}
//
// # Things to know
//
// The numbers that clients pass may be 0, negative or huge: delays saturate and
// are never negative. Clients ask for more delays than they wait for, and
// concurrently. So [backoff.Policy.Delay] depends on the number alone, and
// jitter with a memory ([backoff.DecorrelatedJitter]) loses its memory.
//
// Switch a client's own retries off, or give the client a policy, but do not
// wrap a policy around it as well: attempts multiply if one of the two cannot be
// told. An error that a policy gave up on says so by method. The SDKs of AWS
// and Azure obey that; Cloud Storage and go-retryablehttp do not. The other way
// round, a policy knows the errors by which the AWS SDK, Cloud Storage,
// go-retryablehttp, failsafe-go, avast/retry-go, cenkalti/backoff from v6 and
// the wait of Kubernetes say that they gave up. Azure's azcore, gax,
// cenkalti/backoff before v6, avast/retry-go with LastErrorOnly, and retry of
// Kubernetes' client-go return the last error as it is, and nobody can know.
package plug
