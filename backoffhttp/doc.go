// Package backoffhttp retries HTTP calls that are worth it, and makes servers safe to
// be retried, with net/http alone.
//
//	client := backoffhttp.Client(backoff.Policy{Name: "search"})
//	resp, err := client.Get("https://example.com/")
//
// The client side is a [Transport]: an http.RoundTripper that repeats what failed for a
// reason that may pass, if the request may be sent twice; that obeys the server's hints
// and refusals; that returns the last answer as it came; and that has a budget and a
// breaker for each host. [Client] and [Wrap] make one. Its parts stand alone as well:
// [Classify] sorts errors, [Check] makes an error of an answer, [RetryAfter] reads hints,
// [Idempotency] and [Operations] say what may be repeated.
//
// A single call is told otherwise by its context:
//
//	ctx = backoffhttp.WithRetry(ctx, func(p *backoff.Policy) { p.Idempotency = backoff.Idempotent })
//
// The server side is [Dedup], which gives a handler an Idempotency-Key, so that a
// request that arrives twice has its effect once; [DoNotRetry] and [WriteError], which
// tell clients that retrying would hurt; and [Inbound], by which a service learns that its
// caller is retrying, and leaves that to him.
package backoffhttp
