package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/limits"
)

const (
	defaultLease       = time.Minute
	defaultMaxBody     = 1 << 20
	defaultMaxResponse = 1 << 20
	defaultMaxKey      = 255
	defaultRetryAfter  = time.Second
	forever            = 100 * 365 * 24 * time.Hour
)

// A Scope identifies the caller, so that each caller has its own keys. It
// returns the name of the caller that sent r, such as an account or a tenant,
// as found out by the authentication around [Middleware].
//
// An error, or an empty name, refuses the request with the status 403, or with
// the status that a method HTTPStatusCode() int of the error returns. A Scope
// must be safe for concurrent use.
type Scope func(r *http.Request) (caller string, err error)

// SingleTenant is the [Scope] of a service whose callers may all see each
// other's responses. A caller that knows or guesses a key gets the response
// that is kept under it, with the cookies of the handler. All callers have one
// share of a [MemoryStore].
func SingleTenant(*http.Request) (caller string, err error) { return "\x00all", nil }

// Options are the settings of [Middleware]. The zero value is ready to use.
type Options struct {
	// Store holds the keys and the responses. Handlers that share a Store
	// share their keys. A store that does not respond delays a request for 5
	// seconds before its handler, or for the Lease if that is shorter, and for
	// 5 seconds after it. nil means a MemoryStore for this Middleware alone.
	Store Store
	// Optional passes requests without a key to the handler, unprotected.
	// By default they are refused.
	Optional bool
	// Methods are the methods that need a key. Requests with another method
	// pass to the handler. nil means POST and PATCH, the methods that are
	// not idempotent by themselves.
	Methods []string
	// Lease is how long a run may take: the handler's context ends with the
	// lease, and then the request may be executed again. 0 means 1 minute; a
	// negative number means no limit, so that a run which never reports holds
	// its key for good.
	Lease time.Duration
	// MaxBody is the longest body of a request in bytes. The body is read
	// into memory before the handler runs. 0 means 1 MiB, a negative number
	// no limit.
	MaxBody int64
	// MaxResponse is the largest response that is kept, in bytes of header
	// and body. A larger response reaches the client that waits for it, but
	// is kept as Omitted. 0 means 1 MiB, a negative number no limit.
	MaxResponse int64
	// MaxKey is the longest key in bytes. 0 means 255, a negative number no
	// limit.
	MaxKey int
	// Keep reports whether a response with the status is kept as the outcome.
	// After a response that is not kept the request may be executed again. nil
	// means all statuses below 500 except 408, 425 and 429.
	Keep func(status int) bool
	// Fingerprint returns what all requests under one key must have in
	// common. nil means method, host, path, query and body, as the client
	// sent them, and the path and query that Middleware sees.
	Fingerprint func(r *http.Request, body []byte) []byte
	// RetryAfter is how long a client is told to wait while its request is
	// being executed, rounded up to seconds. 0 means 1 second.
	RetryAfter time.Duration
	// Docs is the address of a page about the keys of this service. The
	// draft wants every refusal to link to such a page. "" means no link.
	Docs string
	// Reject writes a refusal. The headers, such as Retry-After, are set
	// already. err matches one of the errors of this package, or
	// context.DeadlineExceeded if the handler was out of time and set no status
	// (503). nil means a body of the type application/problem+json (RFC 9457).
	Reject func(w http.ResponseWriter, r *http.Request, status int, err error)
	// Failed is called if a response cannot be kept or a lease cannot be
	// released. The response is sent nevertheless. ctx has the values of
	// the request's context and does not end. nil means that nothing is
	// called.
	Failed func(ctx context.Context, err error)
}

// Middleware returns middleware that makes handlers safe to retry. A request
// that arrives again under the same Idempotency-Key is not executed, but gets
// the response to the first one. Middleware refuses a request without a key
// (400), with a key that belongs to another request (422), and with a key
// whose request is being executed at the moment (409 with Retry-After).
//
//	once := idempotency.Middleware(account, idempotency.Options{})
//	mux.Handle("POST /charges", once(charge))
//
// scope identifies the caller. It must not be nil, or Middleware panics; a
// service that has one caller only passes [SingleTenant]. A client may send
// its key in quotes, as the draft wants, or bare, as most clients do.
//
// Two requests are the same if method, host, path, query and body are the
// same. Path and query are those that the client sent, before http.StripPrefix
// and the like. If a retry may use another host name, or pass another proxy
// that sets the name, set Options.Fingerprint. Middleware belongs inside the
// authentication, and outside of everything that reads the body. The handler
// reads the body from memory. An http.TimeoutHandler belongs around
// Middleware: inside, it would respond and free the key while its handler is
// still running. The handler's context does not end when the client
// disconnects, because the client will return for the response. It ends with
// the lease, and with a deadline that was set around Middleware.
// A handler that returns after that without having set a status has not answered:
// it may run again, and the client gets 503 with Retry-After.
//
// A response is kept before it is sent. Its status and the header values that
// the handler set are kept, cookies included. Trailers, informational
// responses (1xx) and values that were set around Middleware are not: a
// response that is sent a second time adds its cookies to those of that
// request; see [Record.Send]. A field that the handler removed is not removed
// again. A response that is sent a second time has Idempotent-Replayed: true. It
// has none of the fields that are true of one message only: Date, which net/http
// sets, and Age; Connection, what it names, and the other fields of a connection;
// RateLimit, X-RateLimit-Remaining and X-RateLimit-Reset; DPoP-Nonce and
// Authentication-Info; Cache-Status, Proxy-Status, Server-Timing and the fields
// of Trace Context. An X-Request-Id of the handler is sent again: it names the
// run that took effect.
// If the handler panics, its header is not sent either. A handler that flushes
// streams its response, and so does a handler from the point on where its
// response is longer than MaxResponse. If the client disconnects meanwhile,
// the handler does not notice, unless the response is longer than MaxResponse:
// then writing fails. Hijacking is refused with http.ErrNotSupported. By
// default 5xx, 408, 425 and 429 are not kept, because they ask the client to
// try again. A 409 that is kept gets X-Should-Retry: false, to distinguish it
// from the 409 of a request in flight.
//
// If the process dies, or the store fails, after the handler took effect and
// before the response is kept, nothing records the effect. The lease ends, and
// the next retry runs the handler again. The same happens after a panic, which
// releases the lease and passes through Middleware, after a status that is not
// kept or was not set in time, and after a run that ignores the end of its context
// and its lease. An operation that must not happen twice needs one of these:
//
//   - Keep the response in the transaction of the effect: see Record of the
//     Store in package sqlstore. Then both are committed or neither, and a run
//     that lost its lease cannot commit.
//   - Make the effect itself idempotent, with a unique column, or with a key
//     for the next service: [DeriveKey].
//   - Check whether it happened, if [Claim.Run] is above 1.
//
// If a response was too large to be kept, or shorter than its Content-Length, the
// effect still happens only once. The next request gets 410, with the Location of
// the first response if that had one, and Reject gets [ErrNotKept].
//
// The middleware is safe for concurrent use. Source:
// draft-ietf-httpapi-idempotency-key-header-07, which expired on 2026-04-18
// without becoming an RFC; the statuses 410, 413 and 503 are not in it.
func Middleware(scope Scope, options Options) func(http.Handler) http.Handler {
	if scope == nil {
		panic("idempotency: Middleware without a Scope")
	}
	o := options.withDefaults()
	return func(next http.Handler) http.Handler {
		return &handler{Options: o, scope: scope, next: next}
	}
}

// withDefaults returns the options with every default filled in.
func (o Options) withDefaults() Options {
	o.Store = cmp.Or[Store](o.Store, new(MemoryStore))
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if o.Keep == nil {
		o.Keep = isOutcome
	}
	if o.Fingerprint == nil {
		o.Fingerprint = fingerprint
	}
	o.Lease = limits.OrMost(o.Lease, defaultLease, forever)
	o.MaxBody = limits.OrMost(o.MaxBody, defaultMaxBody, math.MaxInt64)
	o.MaxResponse = limits.Or(o.MaxResponse, defaultMaxResponse)
	o.MaxKey = limits.Or(o.MaxKey, defaultMaxKey)
	o.RetryAfter = cmp.Or(max(0, o.RetryAfter), defaultRetryAfter)
	return o
}

// isOutcome reports whether a status answers the request. The others ask the
// client to try again.
func isOutcome(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < 500
}

// handler is a handler inside Middleware.
type handler struct {
	Options // with the defaults filled in
	scope   Scope
	next    http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, err := keyOf(r.Header, h.MaxKey)
	if !slices.Contains(h.Methods, r.Method) || h.Optional && errors.Is(err, ErrKeyMissing) {
		h.next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	caller, err := h.scope(r)
	if err != nil || caller == "" {
		h.refuse(w, r, errors.Join(ErrUnscoped, err))
		return
	}
	body, err := h.readBody(w, r)
	if err != nil {
		h.refuse(w, r, fmt.Errorf("%w: %w", ErrBody, err))
		return
	}
	h.serve(w, r, storeKey(caller, key), body)
}

// readBody reads the body of a request into memory.
func (h *handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, h.MaxBody))
}

// serve answers a request whose key is valid: it runs the handler, or replays
// the response to an earlier request, or refuses.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	began := time.Now()
	fingerprint := digest(string(h.Fingerprint(r, body)))
	ctx, cancel := context.WithDeadline(r.Context(), began.Add(min(storingTime, h.Lease)))
	entry, err := h.Store.Begin(ctx, key, fingerprint, h.Lease)
	cancel()
	if err != nil {
		h.refuse(w, r, fmt.Errorf("%w: %w", ErrStore, err))
		return
	}
	switch entry.State {
	case EntryClaimed:
		h.run(w, r, entry.Claim, body, began)
	case EntryDone:
		h.replay(w, r, entry.Record)
	case EntryInFlight:
		h.refuse(w, r, ErrInFlight)
	default:
		h.refuse(w, r, ErrKeyReused)
	}
}

// run calls the next handler under a claim, and keeps its response.
func (h *handler) run(w http.ResponseWriter, r *http.Request, c Claim, body []byte, began time.Time) {
	ctx, cancel := h.leased(r.Context(), began)
	defer cancel()
	request := r.WithContext(context.WithValue(ctx, claimKey{}, c))
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))

	response := newRecorder(w, r.Method, h.MaxResponse)
	returned := false
	defer func() {
		if !returned { // a panic or a Goexit, which continues
			h.release(r.Context(), c)
		}
	}()
	h.next.ServeHTTP(response, request)
	returned = true
	if response.record.Status == 0 && ctx.Err() != nil { // or it would become 200
		h.release(r.Context(), c)
		h.refuse(w, r, ctx.Err())
		return
	}
	record := response.finish()
	if h.Keep(record.Status) {
		h.report(r.Context(), func(ctx context.Context) error { return h.Store.Finish(ctx, c, record) })
	} else {
		h.release(r.Context(), c)
	}
	response.end()
}

// leased returns the context of a run. It has the values and the deadline of
// ctx, and ends with the lease, but not when the client disconnects.
func (h *handler) leased(ctx context.Context, began time.Time) (context.Context, context.CancelFunc) {
	ends := began.Add(h.Lease)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(ends) {
		ends = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), ends)
}

// storing is the policy for the calls that report a run to the store. The run
// took effect, so these are worth several attempts.
var storing = backoff.Policy{
	Name:     "idempotency record",
	Schedule: backoff.Exponential{Initial: 20 * time.Millisecond},
	Classify: backoff.RetryIf(func(err error) bool { return !errors.Is(err, ErrLeaseLost) }),
}

// storingTime limits a call of Begin, and a report to the store, with all its
// attempts.
const storingTime = 5 * time.Second

// release ends the lease of a run that has no outcome.
func (h *handler) release(ctx context.Context, c Claim) {
	h.report(ctx, func(ctx context.Context) error { return h.Store.Release(ctx, c) })
}

// report calls the store, also if the request's context has ended.
func (h *handler) report(ctx context.Context, op func(context.Context) error) {
	ctx = context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeout(ctx, storingTime)
	defer cancel()
	if err := storing.Do(limited, op); err != nil && h.Failed != nil {
		h.Failed(ctx, err)
	}
}

// replay sends the response to an earlier request.
func (h *handler) replay(w http.ResponseWriter, r *http.Request, record Record) {
	w.Header().Del("Content-Length") // it was that of another body
	record.Header = repeatable(record.Header)
	if record.Omitted {
		addFields(w.Header(), record.Header)
		h.refuse(w, r, ErrNotKept)
		return
	}
	w.Header().Set(headerReplayed, "true")
	markFinal(w.Header(), record.Status)
	record.Send(w)
}
