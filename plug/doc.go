// Package plug gives a [backoff.Policy] the shapes that other libraries ask for, without importing
// any of them: they are made of types of the standard library, and Go's interfaces do the rest.
//
//   - [AWS]: aws.RetryerV2 of the AWS SDK, and Alibaba OSS's Retryer
//   - [Cenkalti]: BackOff of github.com/cenkalti/backoff, any version
//   - [RetryableHTTP]: CheckRetry, Backoff and ErrorHandler of go-retryablehttp (Vault's client too)
//   - [ShouldRetry]: RetryOptions.ShouldRetry of Azure's azcore
//   - [GRPC]: the three hooks of go-grpc-middleware's retry interceptor
//   - [Workqueue]: TypedRateLimiter of client-go's workqueue
//   - [DelayFunc]: wait.DelayFunc of Kubernetes' apimachinery
//
// # What needs no adapter
//
// Much fits a method of the policy as it is, or a closure of one line. In these, p is a
// [*backoff.Policy].
//
// func(int) time.Duration, retries counted from 1, is [backoff.Policy.Delay]:
//
//	kgo.RetryBackoffFn(p.Delay)                        // franz-go
//	nats.CustomReconnectDelay(p.Delay)                 // NATS
//	elasticsearch.Config{RetryBackoff: p.Delay}        // Elasticsearch, OpenSearch
//	config.Consumer.Retry.BackoffFunc = p.Delay        // sarama, consumer
//	autopaho.ClientConfig{ReconnectBackoff: p.Delay}   // MQTT; asks for 0 before the first try, which is no wait
//
// Counted from 0 it is shifted by [FromZero]:
//
//	hcloud.WithRetryOpts(hcloud.RetryOpts{BackoffFunc: plug.FromZero(p.Delay), MaxRetries: 3})
//	redis.Options{DialerRetryBackoff: plug.FromZero(p.Delay)}
//	config.Metadata.Retry.BackoffFunc = func(n, _ int) time.Duration { return plug.FromZero(p.Delay)(n) } // sarama, metadata and producer
//
// A few want one method, which is a type of yours around it:
//
//	func (s schedule) GetInterval(n int) time.Duration { return plug.FromZero(s.Delay)(n) } // gocql.ReconnectionPolicy,
//	func (s schedule) GetMaxRetries() int              { return s.MaxAttempts - 1 }         // beside this
//	func (s schedule) NextInterval(n int) time.Duration { return plug.FromZero(s.Delay)(n) } // heimdall.Retriable
//	func (s schedule) Calculate(n int) time.Duration   { return s.Delay(n) }                // nsq.BackoffStrategy
//	func (s schedule) Next() (time.Duration, bool)     { wait, ok := s.run.Retry(err); return wait, !ok } // sethvargo: true is stop
//
// golang.org/x/crypto/acme stops at 0 or less, and has the answer at hand, which backoffhttp
// reads the hint from:
//
//	client.RetryBackoff = func(n int, _ *http.Request, resp *http.Response) time.Duration {
//		wait, _ := p.Decide(n, backoffhttp.Check(resp))
//		return wait
//	}
//
// func(error) bool is [backoff.Policy.Retryable], false for nil, which some ask about as well. It says
// yes to what it does not know, as Do does. Some clients' errors tell their code by no method (Google's, Azure's,
// MySQL's, Kubernetes'); for these, let the client's own helper classify:
//
//	p.Classify = backoff.RetryIf(storage.ShouldRetry)
//	bucket.Retryer(storage.WithErrorFunc(p.Retryable)) // Cloud Storage; pauses and attempts stay its own
//	p.Classify = backoff.RetryIf(apierrors.IsConflict)
//	retry.OnError(retry.DefaultBackoff, p.Retryable, update) // Kubernetes
//	elasticsearch.Config{RetryOnError: func(_ *http.Request, err error) bool { return p.Retryable(err) }}
//
// A code is a classifier by [backoff.OnCode].
//
// A [*backoff.Run] is a gax.Retryer as it is, one per call, for all of Google's generated clients:
//
//	client.Get(ctx, req, gax.WithRetry(func() gax.Retryer { return p.Start(ctx) }))
//
// Clients that take an http.RoundTripper or an *http.Client take backoffhttp's; openai-go and
// its kin its Middleware.
//
// What does not let itself be told is carried from outside. So the read loop of a Kafka client, whose
// handler fails:
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
// The numbers that clients come with may be 0, negative or huge: delays saturate and are never
// negative. A delay is asked for more often than it is waited, and by many at once, so [backoff.Policy.Delay]
// is a function of the number alone: jitter with a memory ([backoff.DecorrelatedJitter]) loses it.
//
// Switch a client's own retries off, or give it a policy, but do not put one around it as well: attempts
// multiply where the client cannot be told. What a policy gave up on says so by method, which the SDKs of
// AWS and Azure heed; Cloud Storage and go-retryablehttp do not.
package plug
