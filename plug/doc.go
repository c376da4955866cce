// Package plug makes the retry hooks of other libraries follow a
// [backoff.Policy].
//
//	retryer := plug.AWS(policy)
//	cfg, err := config.LoadDefaultConfig(ctx,
//		config.WithRetryer(func() aws.Retryer { return retryer }))
//
// It imports none of these libraries: the adapters consist of types of the
// standard library, and Go's interfaces do the rest.
//
//   - [AWS]: aws.RetryerV2 of the AWS SDK, and the Retryer of Alibaba's OSS
//     client
//   - [Cenkalti]: BackOff of github.com/cenkalti/backoff, any version
//   - [Gax]: Retryer of Google's clients
//   - [RetryableHTTP]: CheckRetry, Backoff and ErrorHandler of
//     go-retryablehttp, also for Vault's client
//   - [ShouldRetry]: RetryOptions.ShouldRetry of Azure's azcore
//   - [GRPC]: the three hooks of go-grpc-middleware's retry interceptor
//   - [Workqueue]: TypedRateLimiter of client-go's workqueue
//   - [DelayFunc]: wait.DelayFunc of Kubernetes' apimachinery
//
// Many libraries need no adapter. A func(int) time.Duration is
// [backoff.Policy.WaitBefore] (see [FromZero]), and a func(error) bool is
// [backoff.Policy.Retryable] (see [OnCode]). Clients that take an
// http.RoundTripper or an *http.Client take those of backoffhttp; openai-go
// and its relatives take its Middleware. If a client has no hook at all, call
// it by a Service of package guard, or inside [backoff.Policy.Do], as the
// consumer of messages in docs/recipes.md does.
//
// Switch a client's own retries off, or give the client a policy, but do not
// also call it under a policy: attempts multiply if one of the two loops
// cannot see that the other gave up. An error that a policy gave up on says so
// by method. The SDKs of AWS and Azure respect that; Cloud Storage and
// go-retryablehttp do not. The other way round, a policy knows the errors by
// which the AWS SDK, Cloud Storage, go-retryablehttp, failsafe-go,
// avast/retry-go, cenkalti/backoff from v6 and the wait of Kubernetes say that
// they gave up. Azure's azcore, gax, cenkalti/backoff before v6,
// avast/retry-go with LastErrorOnly, and retry of Kubernetes' client-go return
// the last error as it is, which does not show that they gave up.
//
// docs/clients.md of the repository says for each of the common clients which
// classifier reads its errors, and what to switch off in it.
package plug
