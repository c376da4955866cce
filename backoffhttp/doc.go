// Package backoffhttp retries HTTP calls, and helps servers to tell their
// clients whether to retry.
//
//	client := backoffhttp.Client(backoff.Policy{Name: "search"})
//	resp, err := client.Get("https://example.com/")
//
// A client uses a [Transport], an http.RoundTripper around another one. A
// Transport sends a request again if the failure may be transient and the
// request may be sent twice. It waits as long as the server asks, does not
// retry if the server says so, and has a [guard.Service] for each host, with a
// budget and a breaker. After a 429 the calls to a host are slowed down,
// instead of failing. If all attempts fail, a Transport returns the last
// response as it came. [Client] makes a client with a Transport, and
// [WrapClient] a copy of your client with one. [Unguarded] is a Transport
// without guards.
//
// The parts of a Transport can be used with other clients: [Classify] classifies
// errors, [Check] turns a response into an error, [RetryAfter] reads how long the
// server asks to wait, and [Idempotency] and [Operations] say which requests may
// be sent again.
//
// A context changes the policy of a single call:
//
//	ctx = backoffhttp.WithRetry(ctx, func(p *backoff.Policy) { p.Idempotency = backoff.Idempotent })
//
// A server uses [DoNotRetry] and [WriteError] to tell its clients that a retry
// would hurt, and [Inbound] to learn that a client is retrying and to leave the
// retries to that client. Package idempotency makes a handler safe to retry.
package backoffhttp
