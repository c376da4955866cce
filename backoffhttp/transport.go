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

// Transport is an [http.RoundTripper] that sends a request again if it failed in a way
// that may be transient, and may be sent twice. The zero value is ready to use.
//
//	client := &http.Client{Transport: &backoffhttp.Transport{}}
//
// Whether a request may be sent twice follows from its method, its key, its
// preconditions, a table, or what the caller says: see [Idempotency]. Whether a failure
// may be transient is decided by the classifier of the policy, and by [Classify] if that
// does not know. If no attempt follows, RoundTrip returns the last response as it came,
// without an error: a 503 stays a 503, and [Check] says why. If there is no response, it
// returns an error of package backoff, with the last error in its tree.
//
// Every attempt sends the same header, and a new body from GetBody. The caller's request
// is not changed. An error of the request's own body says nothing about the server.
// Responses that are not returned are closed.
//
// All calls to a host (scheme, name and port) go through one [guard.Service], unless
// Services says otherwise. A host that is down gets 2 % of its load as retries, instead
// of 300 %, and if it stays down, calls end at once with [backoff.ErrOpen]. A 429 fails
// no other call, it slows them down: all of them, first attempts included, wait for their
// turn, at a rate that the host accepts, as long as context, MaxElapsed and MaxRetryAfter
// allow. A response that asks for more than MaxRetryAfter ends its own call only.
//
// A credential that is throttled slows no other: each is a tenant of the Service. A
// credential is what Authorization, X-Api-Key and Api-Key say together. The first one of
// a host has no number, another gets one when it comes again after 2 s, and the first
// eight at their second request; 512 may have one. All others share a tenant, as those
// do that change with each request, such as signatures.
//
// A retry waits as long as the response asks: see [RetryAfter]. There is none if the
// response forbids it, by X-Should-Retry or Stripe-Should-Retry: false, by
// X-Envoy-Overloaded, X-Envoy-Ratelimited or a negative Grpc-Retry-Pushback-Ms, if a
// Transport inside this one gave up, or if the call is made on behalf of a request that
// is itself a retry, as [Inbound] found out. Each redirect is a call of its own, with all
// its attempts. net/http repeats some requests itself, which are no attempts.
//
// A Transport is safe for concurrent use. It must not be copied, and its fields must not
// be changed, after first use. It starts no goroutine, and takes no lock unless a host
// throttles. RoundTrip blocks until the call ends. When the context of the request ends,
// waits and attempts end at once. A panic of Base passes through.
type Transport struct {
	_ [0]func() // no unkeyed literals, no ==

	// Base makes the attempts. nil means http.DefaultTransport, or what that was at
	// the start of the program if it is this Transport now. Set Base if
	// http.DefaultTransport is a chain of others around this Transport.
	Base http.RoundTripper

	// Policy decides about retries. The zero value makes 4 attempts within about a
	// second. Some fields have a special meaning here:
	//
	//   - AttemptTimeout limits the time until the header of the response is there, and
	//     Inspect has returned. It does not limit the body: see ReadAhead.
	//   - Budget takes the place of that of the host's Service.
	//   - Classify gets the error of Base, or a *StatusError. If it returns ClassUnknown,
	//     the function Classify decides.
	//   - Idempotency takes the place of the field Idempotency below. With Keyed,
	//     requests that are not idempotent get an Idempotency-Key, that of their context
	//     or a new one, the same for all attempts of a call and for its redirects.
	Policy backoff.Policy

	// Control takes the place of Policy, to change it while the program runs: it is a
	// *control.Handle. nil means Policy. Current returns the policy of the calls that
	// begin now, as the same pointer until it changes, and, if an override limits that
	// policy to one attempt, a function that makes the error of a call final to policies
	// around it. What WithRetry says then does not count. Observer and Classify must stay
	// the same.
	Control interface {
		Current() (policy *backoff.Policy, final func(context.Context, error) error)
	}

	// Services keeps the guards of the hosts. nil means that each host has a
	// [pace.Pacer], which waits no longer than MaxRetryAfter, and a [backoff.Breaker],
	// which tells the Observer of Policy of its transitions, and that only this Transport
	// has them. Set Services to share or watch them, to replace them, or to let calls
	// wait for a host that is down:
	//
	//	&guard.Services{New: func(host string) *guard.Service {
	//		return &guard.Service{Name: host, Patient: true}
	//	}}
	//
	// The key of a host is such as "https://example.com", and that of its second
	// credential "https://example.com#2". If New returns nil, nothing guards that key.
	// A budget with a method Hold(time.Duration), such as [pace.HoldOff], gets the
	// Retry-After of all responses. A call that waits for its host holds no connection:
	// if it ends before its next turn, RoundTrip returns an error with the *StatusError
	// in its tree, and no response. A request that may not be sent twice waits only while
	// connections are refused. The rest of a body (see Resume) does not wait.
	Services *guard.Services

	// Key returns the key of the Service that a request is for, such as a tenant, a shard
	// or an endpoint. nil, and a result of "", mean its host, and its credential. Untrusted
	// clients may choose the keys: see MaxKeys of [guard.Services]. Key must not change the
	// request, and must be safe for concurrent use. An endpoint without a key of its own
	// holds up the others of its host if it is down and gets most of the calls.
	Key func(*http.Request) string

	// Idempotency reports whether a request may be sent again. nil means the function
	// Idempotency. It is called once for a call, and must not change the request. If it
	// returns backoff.Keyed, the request gets a key, as by that of Policy.
	Idempotency func(*http.Request) backoff.Idempotency

	// Inspect returns an error for a response that is a failure, which the classifier of
	// the policy then classifies. nil means Check. It gets every response, and must put
	// back what it reads from the body. An error without a *StatusError in its tree
	// carries no Retry-After. For an API whose 202 means "not yet", it returns Check(resp,
	// 200), and the Classify of the policy says that a 202 is retried.
	Inspect func(*http.Response) error

	// RateLimits names the rate-limit headers of a vendor, such as GitHubLimits; nil
	// means none. An exhausted limit counts like a Retry-After. The RateLimit field of a
	// failure does by itself.
	RateLimits []RateLimit

	// MaxBuffer is how many bytes of a request body without GetBody are kept in memory,
	// so that it can be sent again. 0 means none: such a body is sent once. A negative
	// number means no limit. The body is read before the first attempt.
	MaxBuffer int64

	// ReadAhead is how many bytes of the body of a successful response are read within
	// the attempt. 0 means none, a negative number the whole body. If the body ends early
	// within these bytes, the attempt has failed, and if it stalls, AttemptTimeout ends
	// the attempt. The connection of a 101, or of a CONNECT, is never read ahead.
	ReadAhead int64

	// Resume continues the body of a successful GET if it ends early; false means that
	// reading it fails. The Transport asks for the rest (Range) of the same version
	// (If-Range). The response must have a strong ETag, or a Last-Modified that is old
	// enough, and requests are sent with Accept-Encoding: identity. After each piece that
	// arrives the policy has all its attempts again. If the first response does not tell
	// its length, the body ends where the server says that nothing is left. To the
	// Observer of Policy the rest of a body is a call of its own, whose first attempt is
	// the one that broke off. See [ErrChanged].
	Resume bool

	// KeyForm is how the Transport writes an Idempotency-Key; the zero value is KeyBare.
	// A key in the header of the caller's request is sent as it is.
	KeyForm KeyForm

	// KeyHeader is the header with the key. "" means Idempotency-Key.
	KeyHeader string

	// Propagate reports whether a host may be told the number of the attempt
	// (Backoff-Attempt) and the time that is left (Backoff-Deadline-Ms). nil means no
	// host. If the call is made on behalf of a request that is a retry, the number
	// continues from there.
	Propagate func(*url.URL) bool

	// ServerClock compares the dates of Retry-After and RateLimits with the Date of the
	// response, for programs whose own clock may be wrong. false means the local clock,
	// and so does a response without a valid Date. The Age of a response from a cache is
	// added. A wrong Date asks for no longer wait than MaxRetryAfter.
	ServerClock bool

	// Endpoint returns what a request is sent to, for observers: see package endpoint.
	// nil, and a result of "", mean the method and the host, such as "GET
	// api.example.com", where a method that HTTP does not define is OTHER. Endpoint must
	// not return what an untrusted client sends, such as an identifier in the path: the
	// Transport keeps 1024 names of all hosts at most. It is called for requests that are
	// observed, and must not change them.
	Endpoint func(*http.Request) string

	wholeTimeout time.Duration // limits each attempt with its body; 0 means no limit

	once     sync.Once
	classify backoff.Classifier
	hosts    hosts
}

// engine is a Transport or an Unguarded at work. It has no exported methods, which
// would become part of every program: one of Unguarded must not link the guards.
type engine Transport

func (t *Transport) engine() *engine { return (*engine)(t) }

// RoundTrip implements [http.RoundTripper].
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
func (t *Transport) CloseIdleConnections() {
	closeIdle(t.engine().base(t))
}

func closeIdle(base http.RoundTripper) {
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// open prepares the Transport at first use.
func (t *engine) open() {
	policy, _ := t.current()
	t.classify = after(policy.Classify)
	t.hosts.find, t.hosts.equip = func(*names) (f found) { return f }, func(*guards) {}
	t.hosts.tenants.seed = maphash.MakeSeed()
	t.hosts.endpoints.New = func(key string, _ bool) *endpoint.Endpoint { return t.newEndpoint(key) }
	t.hosts.endpoints.SetLimits(0, 0)
}

// current returns the policy of the calls that begin now, and what makes their
// errors final, if anything does.
func (t *engine) current() (policy *backoff.Policy, final func(context.Context, error) error) {
	if t.Control == nil {
		return &t.Policy, nil
	}
	return t.Control.Current()
}

// keyHeader returns the header for a key.
func (t *engine) keyHeader() string {
	return cmp.Or(t.KeyHeader, HeaderIdempotencyKey)
}
