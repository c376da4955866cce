package backoffhttp

import (
	"net/http"
	"net/url"
	"sync"

	"github.com/gobackoff/backoff"
)

// Transport is an [http.RoundTripper] that repeats what may be repeated: requests that
// failed in a way that may pass, and that may be sent twice. The zero value is ready to
// use.
//
//	client := &http.Client{Transport: &backoffhttp.Transport{}}
//
// Whether to repeat depends on two things. The answer, or the error, is sorted by the
// policy's classifier, and by [Classify] where it knows nothing. The request is
// repeatable by its method, a key, a precondition, a table, or the caller's word: see
// [Idempotency]. When the attempts run out, or may not go on, the last answer is
// returned as it came, with its body and without an error: a 503 stays a 503. [Check]
// tells what became of it. Where the last attempt got no answer, the error is one of
// package backoff, with the last error in its tree.
//
// Every attempt gets the request as it was: headers, and a body by GetBody. The
// caller's request is not changed. A body without GetBody is sent once, unless
// MaxBuffer allows to keep it in memory. The bodies of answers that are not returned
// are closed, and read to their end if they are short, so that the connection serves
// the next attempt.
//
// For each host, by scheme and port, there is a [backoff.RetryBudget] and a
// [backoff.Breaker], as here the key is known: retries cost a host that is down 2 % of
// its load, not 300 %, and when it stays down calls fail at once, with
// [backoff.ErrOpen]. A client that has just started, and had no success yet, has two
// retries for each host. Unguarded switches both off.
//
// The server's hints are obeyed as [RetryAfter] reads them, with any answer that is
// retried. So are its refusals: X-Should-Retry or Stripe-Should-Retry: false,
// X-Envoy-Overloaded, X-Envoy-Ratelimited, and a negative Grpc-Retry-Pushback-Ms. What
// another Transport further down has given up on is not repeated, and a call on behalf
// of a request that [Inbound] found to be a retry is made once.
//
// Things to know. A redirect is a call of its own: the hops of a chain have their
// attempts each. net/http itself repeats requests that are safe, or have an
// Idempotency-Key, once a kept connection turns out to be dead, so a server may see
// more requests than there are attempts; and streams that HTTP/2 refuses, for up to a
// minute. A Client.Timeout limits the whole call, and costs a goroutine of net/http's.
// The deprecated Request.Cancel ends attempts, but no waits.
//
// A Transport is safe for concurrent use. It must not be copied, nor its fields
// changed, after first use. It starts no goroutine, takes no lock and logs nothing; a
// call that succeeds at once costs it some 0.1 us. Its attempts begin and end on the
// caller's goroutine, which blocks until then; the request's context ends waits and
// attempts at once. A panic of Base passes through.
type Transport struct {
	_ [0]func() // no unkeyed literals, no ==

	// Base makes the attempts. nil means http.DefaultTransport.
	Base http.RoundTripper
	// Policy is how calls are carried; the zero value is 4 attempts within about a
	// second. Some of its fields have a meaning of their own here:
	//
	// AttemptTimeout limits the time until the answer's header is there. It does not
	// cut its body. Budget, where not nil, stands in for that of each host. Classify
	// gets what Base returned, or a *StatusError, and may answer ClassUnknown to leave
	// it to the function Classify. Idempotency is asked instead of the field below;
	// with Keyed, requests that are not idempotent get an Idempotency-Key, made once
	// per call.
	Policy backoff.Policy
	// Idempotency says whether a request may be sent again. It is called once per call,
	// with a request that it must not change; backoff.Keyed as its answer gives the
	// request a key. nil means the function Idempotency.
	Idempotency func(*http.Request) backoff.Idempotency
	// Inspect turns answers that are failures into errors, which the policy's
	// classifier sorts. It sees every answer, and may read of the body what it puts
	// back. An error without a *StatusError in it, or of an answer below 400, gets no
	// hints. nil means Check.
	Inspect func(*http.Response) error
	// RateLimits are the vendor's headers that are hints too, such as GitHubLimits.
	RateLimits []RateLimit

	// MaxBuffer is how many bytes of a request body without GetBody are kept in memory
	// so that it can be sent again; it is read before the first attempt. 0 means none:
	// such a body is sent once. A negative number means no limit.
	MaxBuffer int64
	// ReadAhead is how many bytes of the body of a successful answer are read before it
	// is returned, as part of the attempt: a body that breaks off within them is a
	// failure like any other, and AttemptTimeout ends one that stalls. 0 means none, a
	// negative number all.
	ReadAhead int64
	// Resume makes the body of a successful GET continue where it breaks off, while it
	// is read, by asking for the rest (Range) of the same version (If-Range). It needs
	// an answer with a strong ETag, or a Last-Modified that is old enough to be one.
	// Such requests are sent with Accept-Encoding: identity. Each piece that arrives
	// gives the policy's attempts back. See [ErrChanged].
	Resume bool

	// KeyForm is how a key is written that the Transport sends. A key in the caller's
	// header is sent as it is.
	KeyForm KeyForm
	// KeyHeader is the header for such a key. "" means Idempotency-Key.
	KeyHeader string

	// Announce says which hosts may be told the number of the attempt (Backoff-Attempt)
	// and the time left (Backoff-Deadline-Ms), for their own loops to act on. Under a
	// request that is itself a retry the number goes on from there. nil means none.
	Propagate func(*url.URL) bool
	// ShareRetryAfter makes hints count for all requests to the host, the first attempts of
	// other calls included, and hints with successful answers too. Those beyond MaxRetryAfter
	// are ignored.
	ShareRetryAfter bool

	// Budgets and Breakers are the guards of each host, by keys such as
	// "https://example.com", to be shared, watched, or set up otherwise. nil means the
	// Transport's own.
	Budgets  *backoff.Budgets
	Breakers *backoff.Breakers
	// Unguarded switches both off, but for Policy.Budget.
	Unguarded bool

	once     sync.Once
	classify backoff.Classifier
	hosts    hosts
}

// Client returns a client whose transport is a [Transport] with the policy, over
// [http.DefaultTransport]. Like [http.DefaultClient] it has no timeout; give its
// requests a context that ends, or the policy an AttemptTimeout. As every Transport it has a
// budget and a breaker for each host: until something has succeeded there, two retries in all.
func Client(policy backoff.Policy) *http.Client {
	return &http.Client{Transport: &Transport{Policy: policy}}
}

// Wrap returns a function that puts a [Transport] with the policy around another
// RoundTripper, the shape that clients with a chain of them take, such as WrapTransport
// of Kubernetes' rest.Config. Every RoundTripper gets guards of its own.
func Wrap(policy backoff.Policy) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		return &Transport{Policy: policy, Base: base}
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Base == nil {
		return t.roundTrip(req, http.DefaultTransport)
	}
	return t.roundTrip(req, t.Base)
}

// Middleware makes one call by next, which stands in for Base: the shape that the SDKs
// of OpenAI, Anthropic and others take by option.WithMiddleware(t.Middleware). Switch
// their own retries off.
func (t *Transport) Middleware(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return t.roundTrip(req, roundTripperFunc(next))
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// CloseIdleConnections closes those of Base, as [http.Client.CloseIdleConnections]
// asks.
func (t *Transport) CloseIdleConnections() {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) open() {
	t.classify = after(t.Policy.Classify)
	t.hosts.gates.New = func(string) *gate { return new(gate) }
	t.hosts.gates.Max, t.hosts.gates.Idle = maxGates, idleGate
}

func (t *Transport) keyHeader() string {
	if t.KeyHeader == "" {
		return HeaderIdempotencyKey
	}
	return t.KeyHeader
}
