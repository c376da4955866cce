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

// Transport is an [http.RoundTripper] that sends a request again if it failed
// in a way that may be transient, and may be sent twice. The zero value is
// ready to use.
//
//	client := &http.Client{Transport: &backoffhttp.Transport{}}
//
// Whether a request may be sent again follows from its method, its key, its
// preconditions, a table, or what the caller says: see [Idempotency]. Whether
// a failure may be transient is decided by the classifier of the policy, and
// by [Classify] if that does not know. When there are no attempts left, or no
// further one is allowed, RoundTrip returns the last response as it came, with
// its body and without an error: a 503 stays a 503. [Check] returns why there
// were no more attempts. If the last attempt got no response, RoundTrip
// returns an error of package backoff, with the last error in its tree.
//
// Every attempt sends the same request: the same header, and a new body from
// GetBody. The caller's request is not changed. A body without GetBody is sent
// once, unless MaxBuffer allows the Transport to keep it in memory. If Read of a
// body fails, that proves nothing about the server: only a request that may be
// sent twice is sent again, and the breaker of the host does not count it. The
// Transport closes the bodies of responses that it does not return. Short ones
// are read to their end, here or by net/http, so that the connection can serve
// the next attempt.
//
// For each host (scheme, name and port) there is a [pace.Pacer], which is a
// [backoff.RetryBudget] as well, and a [backoff.Breaker]. With them the retries
// to a host that is down are 2 % of its load instead of 300 %, and when the host
// stays down, calls fail at once with [backoff.ErrOpen]. The first call of a new
// client may use all of its attempts, once for all hosts. A host with fewer than
// three successes has a spare retry besides, if there were not 1024 others
// before it: see [backoff.RetryBudget], and MaxKeys of [backoff.Budgets].
// Unguarded switches both off.
//
// A 429 does not fail the calls to a host, it slows them down: from then on
// they wait for their turn, first attempts included, at a rate that the host
// accepts. A call waits as long as its context and MaxElapsed allow, and no
// longer than MaxRetryAfter (5 minutes by default). If 1,000 calls to the host
// wait already, or as many as pass in 10 s, if that is more, a call ends at
// once with [backoff.ErrBudget]. A request that may not be sent twice is not
// sent again, but the next one waits. A response that asks for more than
// MaxRetryAfter means that a quota is used up: it ends its call, slows no other,
// and opens no circuit.
//
// One credential that is throttled does not slow the others: each has a Pacer of
// its own, if a host gets several. A credential is what Authorization, X-Api-Key
// and Api-Key say together. The first one of a host has the Pacer of the host.
// Another gets its own when it comes again after 2 s, and the first eight at their
// second request; 512 may have one. All others share a Pacer, as those do that
// change with each request, such as signatures. See Guards for tenants that are
// not told apart in this way.
//
// A retry waits as long as the response asks: see [RetryAfter]. There is no
// retry if the response forbids it, by X-Should-Retry or Stripe-Should-Retry:
// false, by X-Envoy-Overloaded, X-Envoy-Ratelimited or a negative
// Grpc-Retry-Pushback-Ms. What another Transport inside this one gave up on is
// not sent again, and a call on behalf of a request that is itself a retry, as
// [Inbound] found out, is made once.
//
// Each redirect is a separate call, with its own attempts. A server may see
// more requests than there are attempts, because net/http also repeats
// requests: safe ones and those with an Idempotency-Key, when a kept
// connection turns out to be closed, and streams that HTTP/2 refused, for up
// to a minute. A Client.Timeout around a Transport limits the whole call, and
// costs a goroutine of net/http; [WrapClient] turns it into the limit of one
// attempt. The deprecated Request.Cancel ends attempts, but no waits.
//
// A Transport is safe for concurrent use. It must not be copied, and its fields
// must not be changed, after first use. It starts no goroutine, logs nothing, and
// takes no lock unless a host throttles. It adds about 0.1 us to a call that
// succeeds at once. All
// attempts are made on the goroutine of the caller, which blocks until the call
// ends. When the context of the request ends, waits and attempts end at once. A
// panic of Base passes through.
type Transport struct {
	_ [0]func() // no unkeyed literals, no ==

	// Base makes the attempts. nil means http.DefaultTransport, or what that
	// was at the start of the program if it is this Transport now. Set Base
	// if http.DefaultTransport is a chain of others around this Transport.
	Base http.RoundTripper
	// Policy decides about retries. The zero value makes 4 attempts within
	// about a second. Some fields have a special meaning here:
	//
	// AttemptTimeout limits the time until the header of the response is
	// there, and Inspect has returned. It does not limit the body: see
	// ReadAhead. Budget replaces the budget of each host. Classify gets the
	// error of Base, or a *StatusError; if it returns ClassUnknown, the
	// function Classify decides. Idempotency replaces the field Idempotency
	// below; with Keyed, requests that are not idempotent get an
	// Idempotency-Key, that of their context or a new one, the same for all
	// attempts of a call and for its redirects.
	Policy backoff.Policy
	// Control takes the place of Policy, to change it while the program runs: it
	// is a *control.Handle. Current returns the policy of the calls that begin
	// now, as the same pointer until it changes, and, if that policy is limited
	// to one attempt by an override, a function that makes the error of a call
	// final to policies around it. What WithRetry says then does not count.
	// Observer and Classify must stay the same. nil means Policy.
	Control interface {
		Current() (policy *backoff.Policy, final func(context.Context, error) error)
	}
	// Idempotency reports whether a request may be sent again. It is called
	// once for a call, and must not change the request. If it returns
	// backoff.Keyed, the request gets a key as above. nil means the function
	// Idempotency.
	Idempotency func(*http.Request) backoff.Idempotency
	// Inspect returns an error for a response that is a failure, which the
	// classifier of the policy then classifies. It gets every response. What
	// it reads from the body it must put back. An error without a *StatusError
	// in its tree carries no Retry-After. nil means Check. For an API whose
	// 202 means "not yet", it returns Check(resp, 200), and the Classify of
	// the policy says that a 202 is retried.
	Inspect func(*http.Response) error
	// RateLimits names the rate-limit headers of a vendor, such as
	// GitHubLimits. An exhausted limit counts like a Retry-After. The RateLimit
	// field of a failure does by itself.
	RateLimits []RateLimit

	// MaxBuffer is how many bytes of a request body without GetBody are
	// kept in memory, so that it can be sent again. Such a body is read
	// before the first attempt. 0 means none: the body is sent once. A
	// negative number means no limit.
	MaxBuffer int64
	// ReadAhead is how many bytes of the body of a successful response are
	// read within the attempt. If the body ends early within these bytes, the
	// attempt has failed, and if it stalls, AttemptTimeout ends the attempt. 0
	// means none, a negative number the whole body. The connection of a 101,
	// or of a CONNECT, is never read ahead.
	ReadAhead int64
	// Resume continues the body of a successful GET if it ends early: the
	// Transport asks for the rest (Range) of the same version (If-Range). The
	// response must have a strong ETag, or a Last-Modified that is old enough.
	// Requests are sent with Accept-Encoding: identity. After each piece that
	// arrives the policy has all its attempts again. If the first response
	// does not tell its length, the body ends where the server says that
	// nothing is left. To the Observer of Policy the rest of a body is a call of
	// its own, whose first attempt is the one that broke off. See [ErrChanged].
	Resume bool

	// KeyForm is how the Transport writes a key. A key in the header of the
	// caller's request is sent as it is.
	KeyForm KeyForm
	// KeyHeader is the header with the key. "" means Idempotency-Key.
	KeyHeader string

	// Propagate reports whether a host may be told the number of the
	// attempt (Backoff-Attempt) and the time that is left
	// (Backoff-Deadline-Ms), for the retries of that host. If the call is
	// made on behalf of a request that is a retry, the number continues
	// from there. nil means no host.
	Propagate func(*url.URL) bool
	// ServerClock compares the dates of Retry-After and RateLimits with the
	// Date of the response, for programs whose own clock may be wrong. The Age
	// of a response from a cache is added. A wrong Date asks for no longer
	// wait than MaxRetryAfter. false means the local clock, and so does a
	// response without a valid Date.
	ServerClock bool

	// Endpoint returns what a request is sent to, for observers: see package
	// endpoint. It must not return what an untrusted client sends, such as an
	// identifier in the path: the Transport keeps 1024 names of all hosts at
	// most. It is called for requests that are observed, and must not change
	// them. nil, and a result of "", mean the method and the host, such as
	// "GET api.example.com". A method that HTTP does not define is then OTHER.
	Endpoint func(*http.Request) string

	// Services has the guards of each host. Set it to share them with other clients,
	// to watch or change them, or to let calls wait for a host that is down:
	//
	//	&guard.Services{New: func(host string) *guard.Service {
	//		return &guard.Service{Name: host, Patient: true}
	//	}}
	//
	// A key is such as "https://example.com", and that of the second credential of
	// a host "https://example.com#2". A waiting call holds no connection: a response
	// that would be retried is not returned if the call ends all the same, and
	// RoundTrip returns an error with its *StatusError in the tree. A request that
	// may not be sent twice waits only while connections are refused. The rest of a
	// body that broke off (see Resume) is asked for at once. If a budget has a
	// method Hold(time.Duration), as [pace.HoldOff] does, it gets the Retry-After of
	// successful responses, too. nil means services of this Transport alone, whose
	// breakers tell the Observer of Policy of their transitions.
	Services *guard.Services
	// Key returns the key of the service that a request is for: the tenant, the
	// shard, the endpoint, or whatever else has guards of its own. An endpoint
	// without them holds up the others of its host if it is down and gets most of
	// the calls. Untrusted clients may choose the keys; see MaxKeys of
	// [guard.Services]. Key must not change the request, and must be safe for
	// concurrent use. nil and a result of "" mean that of the host.
	Key func(*http.Request) string

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
