package backoffhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gobackoff/backoff"
)

const (
	defaultLease       = time.Minute
	defaultMaxBody     = 1 << 20
	defaultMaxResponse = 1 << 20
	defaultMaxKey      = 255
	defaultPause       = time.Second
	forever            = 100 * 365 * 24 * time.Hour
)

// What [Dedup] refuses a request for. Each is matched by the error that
// [DedupOptions.Reject] gets.
var (
	// ErrKeyMissing: there is no Idempotency-Key (400).
	ErrKeyMissing = errors.New("backoffhttp: no idempotency key")
	// ErrKeyInvalid: the key is malformed, too long, or one of several (400).
	ErrKeyInvalid = errors.New("backoffhttp: invalid idempotency key")
	// ErrKeyReused: the key belongs to another request (422).
	ErrKeyReused = errors.New("backoffhttp: idempotency key of another request")
	// ErrInFlight: the request is being carried out (409, with Retry-After).
	ErrInFlight = errors.New("backoffhttp: request in flight")
	// ErrNotKept: the request was carried out, but its response was not kept (410).
	ErrNotKept = errors.New("backoffhttp: response not kept")
	// ErrUnscoped: the caller could not be told from others (403).
	ErrUnscoped = errors.New("backoffhttp: caller unknown")
	// ErrBody: the body is too large (413), or could not be read (400).
	ErrBody = errors.New("backoffhttp: request body")
	// ErrStore: the store failed, nothing was carried out (503, with Retry-After).
	ErrStore = errors.New("backoffhttp: store")
)

// refusals are the answers to these errors, the words as the draft has them.
var refusals = []struct {
	err    error
	status int
	title  string
}{
	{ErrKeyMissing, http.StatusBadRequest, "Idempotency-Key is missing"},
	{ErrKeyInvalid, http.StatusBadRequest, "Idempotency-Key is not valid"},
	{ErrKeyReused, http.StatusUnprocessableEntity, "Idempotency-Key is already used"},
	{ErrInFlight, http.StatusConflict, "A request is outstanding for this Idempotency-Key"},
	{ErrNotKept, http.StatusGone, "The request was carried out, and its response is not available any more"},
	{ErrUnscoped, http.StatusForbidden, "The caller is not known"},
	{ErrBody, http.StatusBadRequest, "The body of the request could not be read"},
	{ErrStore, http.StatusServiceUnavailable, "The request could not be registered, and was not carried out"},
}

// A Scope tells callers apart: each has keys of his own. It returns who sends r, such as an
// account or a tenant, authenticated by whatever stands around [Dedup]. An error, and an
// empty name, refuse the request; an error with a method HTTPStatusCode() int chooses the
// status, which otherwise is 403. It must be safe for concurrent use.
type Scope func(r *http.Request) (caller string, err error)

// SingleTenant is the [Scope] of a service whose callers may all see one another's
// responses: who knows or guesses a key gets what was answered to it.
func SingleTenant(*http.Request) (caller string, err error) { return "\x00all", nil }

// DedupOptions vary [Dedup]. The zero value is the default.
type DedupOptions struct {
	// Store keeps the keys. nil means a MemoryStore of this Dedup's own. Handlers that
	// share a Store share the keys.
	Store Store
	// Optional lets requests without a key through, unprotected. By default they are
	// refused.
	Optional bool
	// Methods are those it applies to; requests with others pass. nil means POST and PATCH,
	// which are not idempotent by themselves.
	Methods []string
	// Lease is how long a run may take. The handler's context ends with it. After it, the
	// request may be carried out again. 0 means 1 minute, a negative number that a run
	// which never reports holds its key for good.
	Lease time.Duration
	// MaxBody bounds the body of a request, in bytes: it is read into memory before the
	// handler runs. 0 means 1 MiB, a negative number no limit.
	MaxBody int64
	// MaxResponse bounds the responses that are kept, in bytes of header and body. A larger
	// one reaches whoever waits for it, but is kept as Omitted. 0 means 1 MiB, a negative
	// number no limit.
	MaxResponse int64
	// MaxKey bounds the length of a key, in bytes. 0 means 255, a negative number no limit.
	MaxKey int
	// Keep says which statuses are kept as the outcome; after others the request may be
	// carried out again. nil means all below 500 but 408, 425 and 429.
	Keep func(status int) bool
	// Fingerprint says what requests with one key must have in common. nil means method,
	// path, query and body.
	Fingerprint func(r *http.Request, body []byte) []byte
	// RetryAfter is what a client is told to wait while its request is being carried out. 0
	// means 1 second; it is rounded up to seconds.
	RetryAfter time.Duration
	// Docs is the address of a page about the keys of this service, of which the draft
	// wants every refusal to speak. "" means none.
	Docs string
	// Reject writes a refusal; Retry-After and the like are set already. err matches one of
	// the errors above. nil means application/problem+json (RFC 9457) that says no more
	// than they do.
	Reject func(w http.ResponseWriter, r *http.Request, status int, err error)
	// Failed is told when a response could not be kept, or a lease not be released. The
	// response is sent all the same. ctx is that of the request, without its end. nil means
	// nobody is told.
	Failed func(ctx context.Context, err error)
}

// Dedup returns middleware that makes handlers safe to retry: a request that comes again
// under the same Idempotency-Key is answered with the response to the first one, and not
// carried out. Refused are a missing key (400), a key that belongs to another request
// (422), and one whose request is being carried out at the moment (409 with Retry-After).
//
//	keyed := backoffhttp.Dedup(account, backoffhttp.DedupOptions{})
//	mux.Handle("POST /charges", keyed(charge))
//
// Scope tells callers apart and must be given; [SingleTenant] says that there is nothing to
// tell. A nil scope panics. Keys may be quoted, as the draft wants, or bare, as most
// clients send them.
//
// Only method, path, query and body decide whether a request is the same, so Dedup belongs
// inside of authentication, and outside of whatever reads the body. The handler gets the
// body from memory. An http.TimeoutHandler belongs around it: inside, it would answer, and
// free the key, while its handler is still at work. The context does not end when the
// client goes away, because the client will be back for the answer; it ends with the lease,
// and with a deadline that was set around Dedup.
//
// A response is kept before it is sent, with its status and header, cookies included, but
// neither trailers nor informational (1xx) responses, nor what middleware around Dedup put
// into the header. Who gets it a second time finds Idempotent-Replayed: true in it. A
// handler that flushes streams; one that writes more than MaxResponse begins to stream
// there. Hijacking is refused (http.ErrNotSupported). By default 5xx, 408, 425 and 429 are
// not kept: they say "try again". A 409 that is kept gets X-Should-Retry: false, so that it
// is not taken for the 409 of a request in flight.
//
// What it cannot do. Where the process dies, or the store fails, between the effect and its
// record, the effect is made and nobody knows. The lease ends, and the next retry runs the
// handler again. The same holds after a panic, which releases the lease and passes through,
// after a status that is not kept, and after a run that outlives its lease, heedless of its
// context. Three remedies, of which an operation that must not happen twice needs one:
//
//   - Record the outcome in the transaction of the effect: sqlstore's Store.Record. Then
//     there is nothing in between, and a run that lost its lease cannot commit.
//   - Make the effect itself idempotent, by a unique column or by a key of the next
//     service: [DeriveKey].
//   - Look whether it happened: [Claim.Run] above 1 says when to.
//
// Where the response was too large to be kept, the effect is still made only once: who asks
// again gets 410, with the Location of the first response if that had one, and [ErrNotKept]
// in Reject.
//
// It is safe for concurrent use. Source: draft-ietf-httpapi-idempotency-key-header-07,
// which expired on 2026-04-18 without becoming an RFC; 410, 413 and 503 are not in it.
func Dedup(scope Scope, options DedupOptions) func(http.Handler) http.Handler {
	if scope == nil {
		panic("backoffhttp: Dedup without a Scope")
	}
	o := options.defaults()
	return func(next http.Handler) http.Handler {
		return &dedup{DedupOptions: o, scope: scope, next: next}
	}
}

func (o DedupOptions) defaults() DedupOptions {
	if o.Store == nil {
		o.Store = new(MemoryStore)
	}
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if o.Keep == nil {
		o.Keep = definitive
	}
	if o.Fingerprint == nil {
		o.Fingerprint = fingerprint
	}
	if o.Failed == nil {
		o.Failed = func(context.Context, error) {}
	}
	o.Lease = or(o.Lease, defaultLease)
	if o.Lease < 0 {
		o.Lease = forever
	}
	o.MaxBody = or(o.MaxBody, defaultMaxBody)
	o.MaxResponse = or(o.MaxResponse, defaultMaxResponse)
	o.MaxKey = or(o.MaxKey, defaultMaxKey)
	if o.RetryAfter <= 0 {
		o.RetryAfter = defaultPause
	}
	return o
}

// definitive reports whether a status answers the request, rather than putting it off.
func definitive(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < 500
}

type dedup struct {
	DedupOptions
	scope Scope
	next  http.Handler
}

// ServeHTTP implements [http.Handler].
func (d *dedup) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(d.Methods, r.Method) {
		d.next.ServeHTTP(w, r)
		return
	}
	key, err := keyOf(r.Header, d.MaxKey)
	if d.Optional && errors.Is(err, ErrKeyMissing) {
		d.next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	caller, err := d.scope(r)
	if err != nil || caller == "" {
		d.refuse(w, r, errors.Join(ErrUnscoped, err))
		return
	}
	body, err := d.read(w, r)
	if err != nil {
		d.refuse(w, r, fmt.Errorf("%w: %w", ErrBody, err))
		return
	}
	d.serve(w, r, digest(caller, key), body)
}

// read takes the body into memory.
func (d *dedup) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if d.MaxBody < 0 {
		return io.ReadAll(r.Body)
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, d.MaxBody))
}

// serve is for a request whose key is good and whose body is read.
func (d *dedup) serve(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	began := time.Now()
	print := digest(string(d.Fingerprint(r, body)))
	entry, err := d.Store.Begin(r.Context(), key, print, d.Lease)
	if err != nil {
		d.refuse(w, r, fmt.Errorf("%w: %w", ErrStore, err))
		return
	}
	switch entry.State {
	case EntryClaimed:
		d.run(w, r, entry.Claim, body, began)
	case EntryDone:
		d.replay(w, r, entry.Record)
	case EntryInFlight:
		d.refuse(w, r, ErrInFlight)
	default:
		d.refuse(w, r, ErrKeyReused)
	}
}

// run carries the request out, and reports.
func (d *dedup) run(w http.ResponseWriter, r *http.Request, c Claim, body []byte, began time.Time) {
	ctx, cancel := d.context(r.Context(), began)
	defer cancel()
	request := r.WithContext(context.WithValue(ctx, claimKey{}, c))
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))

	answer := newRecorder(w, d.MaxResponse)
	returned := false
	defer func() {
		if !returned { // a panic or a Goexit, which go on
			d.release(r.Context(), c)
		}
	}()
	d.next.ServeHTTP(answer, request)
	returned = true
	record := answer.finish()
	if d.Keep(record.Status) {
		d.keep(r.Context(), c, record)
	} else {
		d.release(r.Context(), c)
	}
	answer.commit()
}

// context is that of the request, without the client's going away.
func (d *dedup) context(ctx context.Context, began time.Time) (context.Context, context.CancelFunc) {
	ends := began.Add(d.Lease)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(ends) {
		ends = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), ends)
}

// recording is how hard it is tried to keep a response whose effect is made.
var recording = backoff.Policy{
	Name:     "idempotency record",
	Schedule: backoff.Exponential{Initial: 20 * time.Millisecond},
	Classify: backoff.RetryIf(func(err error) bool { return !errors.Is(err, ErrLeaseLost) }),
}

const recordingTime = 5 * time.Second

func (d *dedup) keep(ctx context.Context, c Claim, r Record) {
	d.record(ctx, func(ctx context.Context) error { return d.Store.Finish(ctx, c, r) })
}

func (d *dedup) release(ctx context.Context, c Claim) {
	d.record(ctx, func(ctx context.Context) error { return d.Store.Release(ctx, c) })
}

func (d *dedup) record(ctx context.Context, op func(context.Context) error) {
	ctx = context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeout(ctx, recordingTime)
	defer cancel()
	if err := recording.Do(limited, op); err != nil {
		d.Failed(ctx, err)
	}
}

// replay answers what was answered before.
func (d *dedup) replay(w http.ResponseWriter, r *http.Request, record Record) {
	if record.Omitted {
		copyHeader(w.Header(), record.Header)
		d.refuse(w, r, ErrNotKept)
		return
	}
	w.Header().Set(headerReplayed, "true")
	insist(w.Header(), record.Status)
	record.Send(w)
}

const headerReplayed = "Idempotent-Replayed" // as Stripe has it

// insist tells a definitive 409 from one that asks to wait.
func insist(header http.Header, status int) {
	if status == http.StatusConflict && header.Get(headerShouldRetry) == "" {
		header.Set(headerShouldRetry, "false")
	}
}

// refuse answers without carrying anything out. The answer says what for, and no more: what
// err wraps may name hosts and tables.
func (d *dedup) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, title := d.verdict(err)
	switch {
	case errors.Is(err, ErrInFlight):
		w.Header().Set(headerShouldRetry, "true")
		fallthrough
	case errors.Is(err, ErrStore):
		w.Header().Set(headerRetryAfter, seconds(d.RetryAfter))
	}
	if d.Docs != "" {
		w.Header().Add("Link", "<"+d.Docs+`>; rel="describedby"; type="text/html"`)
	}
	if d.Reject != nil {
		d.Reject(w, r, status, err)
		return
	}
	writeProblem(w, problem{Type: d.Docs, Title: title, Status: status})
}

// verdict returns how a refusal is answered.
func (d *dedup) verdict(err error) (status int, title string) {
	for _, known := range refusals {
		if errors.Is(err, known.err) {
			status, title = known.status, known.title
			break
		}
	}
	switch {
	case status == http.StatusForbidden:
		status = statusOf(err, status)
	case isTooLarge(err):
		status = http.StatusRequestEntityTooLarge
	}
	return status, title
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

// statusOf is what err says of itself, if that is a refusal.
func statusOf(err error, otherwise int) int {
	var s interface{ HTTPStatusCode() int }
	if errors.As(err, &s) && s.HTTPStatusCode() >= 400 && s.HTTPStatusCode() < 600 {
		return s.HTTPStatusCode()
	}
	return otherwise
}

// seconds is the value of a Retry-After header.
func seconds(wait time.Duration) string {
	n := int64(wait / time.Second)
	if wait%time.Second > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}

// problem is an answer by RFC 9457.
type problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
}

func writeProblem(w http.ResponseWriter, p problem) {
	text, _ := json.Marshal(p) // of strings and a number: it cannot fail
	header := w.Header()
	header.Del("Content-Length")
	header.Set("Content-Type", "application/problem+json")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	w.Write(append(text, '\n'))
}

type claimKey struct{}

// ClaimFrom returns the claim under which a handler inside of [Dedup] runs, and false
// outside of it.
func ClaimFrom(ctx context.Context) (Claim, bool) {
	c, ok := ctx.Value(claimKey{}).(Claim)
	return c, ok
}

// DeriveKey returns an idempotency key for something that a handler inside of [Dedup] asks
// of another service: always the same for one request and one name, however often it is
// carried out. Outside of Dedup it returns "".
//
//	ctx = backoff.WithIdempotencyKey(ctx, backoffhttp.DeriveKey(ctx, "charge card"))
//
// The caller's own key must not be passed on: the other service would take a second
// operation under it for the first.
func DeriveKey(ctx context.Context, operation string) string {
	c, ok := ClaimFrom(ctx)
	if !ok {
		return ""
	}
	return digest(c.Key, operation)[:32]
}
