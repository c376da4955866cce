package backoffhttp

import (
	"cmp"
	"context"
	"hash/maphash"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

// Transport is an [http.RoundTripper] that sends a request again if the failure
// may be transient and the request may be sent twice. The zero value is ready to
// use.
//
//	client := &http.Client{Transport: &backoffhttp.Transport{}}
//
// [Idempotency] says which requests may be sent twice, [Classify] which failures
// may be transient, and [RetryAfter] how long a retry waits. There is no retry if
// the response forbids it (see [DoNotRetry]), or if the caller retries itself
// (see [Inbound]).
//
// All calls to a host (scheme, name and port) share a [guard.Service]. After a
// 429 they wait for their turn, and also while the host is down, as long as they
// have time. Each credential (Authorization, X-Api-Key and Api-Key
// together) is a tenant of the Service.
//
// A Transport is safe for concurrent use, and so must be its functions. It must
// not be copied, nor its fields changed, after first use.
type Transport struct {
	_ [0]func() // no unkeyed literals, no ==

	// RoundTripper that makes the attempts, and sees the answers to all of them.
	// Defaults to http.DefaultTransport; if that is this Transport, to what it was
	// when the program began. Set Base if http.DefaultTransport is a chain of
	// others around this Transport.
	Base http.RoundTripper

	// Policy of the calls. By default they make 4 attempts, with waits of less than a
	// second in all, or of some seconds after a 429, longest for a client that has made
	// few calls: see docs/waiting.md. [Transport.RoundTrip] says what AttemptTimeout,
	// Budget, Classify and Idempotency mean here.
	Policy backoff.Policy

	// Policy that can change while the program runs, such as a *control.Handle.
	// Defaults to the field Policy.
	Control interface {
		// Current returns the policy of the calls that begin now, as the same
		// pointer until it changes. Observer and Classify must stay the same. If
		// an override limits the policy to one attempt, it also returns a function
		// that makes the error of a call permanent to policies around it. WithRetry
		// then allows no more attempts.
		Current() (policy *backoff.Policy, final func(context.Context, error) error)
	}

	// Services of the hosts. Defaults to one for each host, for this Transport
	// alone, with a [pace.Pacer] that waits no longer than MaxRetryAfter, an
	// [adaptive.Limit], and a [backoff.Breaker] that tells the Observer of Policy of its
	// transitions. Set it to share, watch or replace them.
	Services *guard.Services

	// Whether calls do not wait for a host that cannot serve them now, see FailFast of
	// [guard.Service].
	FailFast bool

	// Key of the Service that a request is for, such as a tenant, a shard or an
	// endpoint. Defaults to the host and the credential, also if it returns "". If
	// untrusted clients may choose the keys, see MaxKeys of [guard.Services]. Key
	// must not change the request.
	Key func(*http.Request) string

	// Rule for sending a request again. Defaults to the function Idempotency. It is
	// called once for a call, and must not change the request. If it returns
	// backoff.Keyed, the request gets a key, as by a Policy that is Keyed.
	Idempotency func(*http.Request) backoff.Idempotency

	// Rule for which responses are failures. Defaults to Check. It gets every
	// response, and returns an error for a failure, which the classifier of the
	// policy classifies. It must put back what it reads from the body. An error
	// without a *StatusError in its tree carries no Retry-After. If a 202 means
	// "not yet", return Check(resp, 200), and let Policy.Classify retry a 202. Such
	// retries cost the budget nothing. An error about a response that Check would
	// pass, or find permanent, is no failure of the host, unless OfClass marks it.
	Inspect func(*http.Response) error

	// Rate-limit headers of a vendor, such as GitHubLimits. Defaults to none. In a
	// failure, an exhausted limit counts like a Retry-After; the header RateLimit does so
	// anyway. In a success, such as a 200 with "Remaining: 0", it delays calls only if
	// the Budget of Policy or of the Service is a [pace.HoldOff], or is joined with one.
	RateLimits []RateLimit

	// Most bytes of a request body without GetBody that are kept in memory, so that
	// it can be sent again. Defaults to 0; negative means no limit. A longer body can be
	// read once, see RoundTrip. The body is read before the first attempt.
	MaxBuffer int64

	// Bytes of the body of a successful response that are read within the attempt.
	// Defaults to 0; negative means the whole body. If the body ends early within
	// these bytes, the attempt has failed, and if it stalls, AttemptTimeout ends the
	// attempt. The connection of a 101, or of a CONNECT, is never read ahead.
	ReadAhead int64

	// Whether a successful GET whose body ends early is continued. By default
	// reading the body fails. [Transport.RoundTrip] says what this takes.
	Resume bool

	// Form in which the Transport writes an Idempotency-Key. Defaults to KeyBare. A
	// key in the header of the caller's request is sent as it is.
	KeyForm KeyForm

	// Header with the key. Defaults to Idempotency-Key.
	KeyHeader string

	// Rule for which hosts are told the number of the attempt (Backoff-Attempt) and
	// the time that is left (Backoff-Deadline-Ms). Defaults to none. If the call is
	// made on behalf of a request that is a retry (see [Inbound]), the number
	// continues from there.
	Propagate func(*url.URL) bool

	// Whether dates in Retry-After and RateLimits are compared with the server's
	// clock: the Date of the response, and its Age. By default, and for a response
	// without a valid Date, the local clock counts. Set it if that may be wrong.
	ServerClock bool

	// Name of what a request is sent to, for observers (see package endpoint).
	// Defaults to the method and the host, such as "GET api.example.com", also if it
	// returns "". A method that HTTP does not define is OTHER. A name must not hold
	// what an untrusted client sends, such as an identifier in the path: the
	// Transport keeps 1024 names at most. Endpoint must not change the request.
	Endpoint func(*http.Request) string

	wholeTimeout time.Duration  // limit of each attempt with its body; 0 for none
	jar          http.CookieJar // of the client; nil if it has none, or is not known

	once     sync.Once
	classify backoff.Classifier
	hosts    hosts
}

// engine is a Transport or an Unguarded at work. It has no exported methods, so that a
// program with an Unguarded does not link the guards.
type engine Transport

func (t *Transport) engine() *engine { return (*engine)(t) }

// RoundTrip makes a call. It blocks until the call, or the context of the
// request, ends. When no attempt follows, it returns the last response as it
// came, without an error: a 503 stays a 503, and [Check] says why. Without a
// response it returns an error of package backoff, such as that of Validate for
// an invalid policy. Each redirect is a call of its own, with all its attempts.
// A panic of Base passes through.
//
// A request whose body has no GetBody, and is longer than MaxBuffer, is sent again only if
// it never reached the server (ClassNotSent) and Base has not read from the body. So the
// end of the call closes a body that nothing has read.
//
// Some fields of the policy have a special meaning:
//
//   - AttemptTimeout limits the time until the header of the response is there,
//     and Inspect has returned. It does not limit the body: see ReadAhead.
//     If no Transport received anything on the connection in the last half of that time,
//     it is closed, since over HTTP/2 a retry would reuse it. A context deadline of a
//     second or more closes it at the second call. docs/clients.md has more.
//   - Budget takes the place of that of the host's Service.
//   - Classify gets the error of Base, or a *StatusError. If it returns
//     ClassUnknown, the function Classify decides.
//   - Idempotency takes the place of Transport.Idempotency. A request that
//     carries an Idempotency-Key is idempotent nevertheless. With Keyed,
//     requests that are not idempotent get a key, that of their context or a
//     new one, the same for all attempts of a call and for its redirects.
//
// A call waits for a host that cannot serve it now, to the deadline of its context
// or MaxElapsed, and 5 seconds if it has neither: see FailFast of [guard.Service].
// It holds no connection meanwhile. If it waits in vain, it returns the last
// response that it got. A request that may not be sent twice waits only while
// connections are refused.
//
// The key of a host is such as "https://example.com", and that of its second
// credential "https://example.com#2". A new credential shares one with others for
// 2 s (docs/results/attacks.md). If New returns nil, nothing guards that key. A
// budget with a method Hold(time.Duration), such as [pace.HoldOff], gets the
// Retry-After of all responses.
//
// With Resume, the Transport asks for the rest of a body (Range) of the same
// version (If-Range), with all attempts of the policy after each piece that
// arrives, and without waiting for a host that is down. The response must have
// a strong ETag, or a Last-Modified at least a second before its Date. Requests
// are sent with Accept-Encoding: identity. If the first response does not tell
// its length, the body ends where the server says that nothing is left. The Observer of
// Policy sees the rest as a new call, whose first attempt is the one that broke off. To the
// budget, a piece that brings bytes is a success, and the request for the next one a first
// attempt. A body of several pieces may make MaxAttempts - 1 retries, in all, that the budget
// would refuse. See [ErrChanged].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.engine().roundTrip(req, t.engine().base(t))
}

// base returns what makes the attempts of self.
func (t *engine) base(self http.RoundTripper) http.RoundTripper {
	switch {
	case t.Base != nil:
		return t.Base
	case http.DefaultTransport == self:
		return initialTransport
	}
	return http.DefaultTransport
}

// initialTransport is the http.DefaultTransport that the program began with.
var initialTransport = http.DefaultTransport

// Middleware makes one call with next instead of Base. The SDKs of OpenAI,
// Anthropic and others take it as option.WithMiddleware(t.Middleware). Switch
// the retries of the SDK off. If next follows redirects, see [Classify].
func (t *Transport) Middleware(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return t.engine().roundTrip(req, roundTripperFunc(next))
}

// roundTripperFunc is a function as a RoundTripper.
type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// CloseIdleConnections closes the idle connections of Base. It is called by
// [http.Client.CloseIdleConnections].
func (t *Transport) CloseIdleConnections() { closeIdle(t.engine().base(t)) }

func closeIdle(base http.RoundTripper) {
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// open prepares the Transport at first use.
func (t *engine) open() {
	policy, _ := t.current()
	t.classify = after(policy.Classify)
	t.hosts.find = func(*names) (f found) { return f }
	t.hosts.parts = func(*guard.Service) (backoff.Budget, *backoff.Breaker) { return nil, nil }
	t.hosts.tenants.seed = maphash.MakeSeed()
	t.hosts.endpoints.New = func(key string, _ bool) *endpoint.Endpoint { return t.newEndpoint(key) }
	t.hosts.endpoints.SetLimits(0, 0)
}

// current returns the policy of the calls that begin now, and what makes their errors
// permanent; nil if nothing does.
func (t *engine) current() (policy *backoff.Policy, final func(context.Context, error) error) {
	if t.Control == nil {
		return &t.Policy, nil
	}
	return t.Control.Current()
}

// keyHeader returns the header for a key.
func (t *engine) keyHeader() string { return cmp.Or(t.KeyHeader, HeaderIdempotencyKey) }
