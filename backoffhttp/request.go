package backoffhttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/idemkey"
	"github.com/gobackoff/backoff/internal/timeouts"
)

// request is a request with everything that its call reads before the first
// attempt: from the request itself, from its context and from the Transport.
// The attempts read none of these again.
type request struct {
	// req is the request that every attempt sends. What differs from one
	// attempt to the next is not in it.
	req *http.Request
	// policy decides about retries. Its Idempotency says what holds for
	// this request.
	policy *backoff.Policy
	// timeouts limits the attempts. nil means no limit.
	timeouts backoff.Schedule
	// began is the beginning of the call, if MaxElapsed limits the attempts
	// too.
	began time.Time
	// upstream is the number of the attempt on whose behalf the call is
	// made, or 0 if that is not known.
	upstream int
	// propagate says that the server is told about the attempts.
	propagate bool
	// retryConflict says that a 409 may be an earlier attempt of this call
	// that is still at work: the request has a key that the policy or a
	// table asked for.
	retryConflict bool
	// usedKey is the key of its context, if the request is sent under that.
	usedKey usedKey
	// made is the key that the Transport made for the request, if it did.
	made underKey
	// lacksKey is the Idempotency of a request that does not carry the key of its
	// context. It is nil for others.
	lacksKey backoff.Idempotency
	// last is the Idempotency of a request that may be sent again after a 429;
	// nil for others.
	last *lastAnswer
	// single is a body that can be read once only; nil if the request has none.
	single *singleBody
	// sentOnce says that the policy would allow more attempts than such a body.
	sentOnce bool
}

// isPlain reports whether nothing has to be read from a request before its
// first attempt, under guards that ask for nothing either.
func isPlain(req *http.Request) bool {
	return req.Response == nil && (!overrides.Load() || req.Context().Value(overrideKey{}) == nil)
}

// read reads the request, once for a call. An error refuses the call.
func (r *request) read(t *engine, g *guards) error {
	ctx := r.req.Context()
	said, err := r.readPolicy(ctx, t, g)
	if err != nil {
		return err
	}
	r.propagate = t.Propagate != nil && t.Propagate(r.req.URL)
	if err := r.readBody(t.MaxBuffer); err != nil {
		return backoff.Permanent(err)
	}
	if t.Resume {
		r.acceptIdentity()
	}
	if said = r.readIdempotency(ctx, t, said); !r.usedKey.fits() {
		return errKeyUsed
	}
	up, _ := UpstreamFrom(ctx)
	r.upstream = up.Attempt
	if up.Attempt > 1 && said != backoff.Idempotent {
		said = backoff.NonIdempotent // the caller of this service is retrying already
	}
	if said != backoff.Idempotent && backoff.IdempotencyKey(ctx) != "" && !r.keyed(t.keyHeader()) {
		said = withoutKey{said}
		r.lacksKey = said
	}
	r.setIdempotency(said, g)
	return nil
}

// readPolicy sets the policy and the timeouts, and returns the Idempotency of
// the policy. The contexts of the request may change all three.
func (r *request) readPolicy(ctx context.Context, t *engine, g *guards) (backoff.Idempotency, error) {
	p := g.source
	r.policy, r.timeouts = &g.policy, g.timeouts
	if change, ok := ctx.Value(overrideKey{}).(func(*backoff.Policy)); ok {
		own := *p
		change(&own)
		if g.final != nil {
			limitToOneAttempt(&own)
		}
		p = &own
		r.policy, r.timeouts = g.policyFor(own, after(own.Classify)), timeouts.Of(p)
	}
	if r.timeouts == nil {
		return p.Idempotency, nil
	}
	if r.policy.MaxElapsed > 0 {
		r.began = time.Now()
	}
	limits := backoff.Policy{AttemptTimeout: p.AttemptTimeout, AttemptTimeoutSchedule: p.AttemptTimeoutSchedule}
	return p.Idempotency, limits.Validate()
}

// readBody reads a single body into memory if it is not longer than limit; a negative
// limit is none. If it is longer, readBody puts what it has read in front of the rest.
func (r *request) readBody(limit int64) error {
	req := r.req
	if r.single == nil || limit == 0 || limit > 0 && req.ContentLength > limit {
		return nil
	}
	head, whole, err := readUpTo(req.Body, limit)
	if err != nil {
		return err // the end of the call closes the body
	}
	r.req = req.Clone(req.Context())
	if !whole {
		r.req.Body = putBack(req.Body, head, false)
		return nil
	}
	req.Body.Close()
	r.single = nil
	setBody(r.req, head)
	return nil
}

// setBody makes content the body of req.
func setBody(req *http.Request, content []byte) {
	req.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}
	req.Body, _ = req.GetBody()
	if req.Trailer != nil {
		return // trailers need chunks, which need an unknown length
	}
	req.ContentLength = int64(len(content))
	if len(content) == 0 {
		req.Body = http.NoBody
	}
}

// acceptIdentity asks for a body without compression. If net/http asked for a
// compressed one, it would decompress it, and no part of the result could be
// asked for again.
func (r *request) acceptIdentity() {
	if (r.req.Method == "" || r.req.Method == http.MethodGet) && r.req.Header.Get("Accept-Encoding") == "" {
		r.setHeader("Accept-Encoding", "identity")
	}
}

// readIdempotency returns whether the request may be sent again. said is what
// the policy says about that. If a key makes the request repeatable,
// readIdempotency adds it. On a redirect to a foreign host the request keeps its key,
// but is not repeated under it: that host has not said that it knows keys.
func (r *request) readIdempotency(ctx context.Context, t *engine, said backoff.Idempotency) backoff.Idempotency {
	keyHeader := t.keyHeader()
	r.keepKey(keyHeader)
	judged := r.req
	foreign := r.req.Response != nil && !sameOrigin(origin(r.req).URL, r.req.URL)
	if foreign {
		judged = r.withoutKeys(keyHeader)
	}
	wantsKey := said == backoff.Keyed
	after429 := said == RepeatAfter429
	if said == nil || wantsKey || after429 {
		found := t.idempotency(judged)
		wantsKey = wantsKey || found == backoff.Keyed
		if said == nil || found == backoff.Idempotent || after429 && found != backoff.NonIdempotent {
			said = found
		}
	}
	if said == backoff.Keyed || said == backoff.NonIdempotent || said == RepeatAfter429 {
		said = r.readKey(ctx, t, said, foreign)
	}
	r.retryConflict = wantsKey && r.keyed(keyHeader)
	return said
}

// idempotency returns what the table, or the request itself, says about sending
// the request again.
func (t *engine) idempotency(req *http.Request) backoff.Idempotency {
	if t.Idempotency != nil {
		return t.Idempotency(req)
	}
	return Idempotency(req)
}

// readKey returns whether a request may be sent again that is not repeatable without a
// key. If said wants one, the request gets that of its context, or a new one.
func (r *request) readKey(ctx context.Context, t *engine, said backoff.Idempotency, foreign bool) backoff.Idempotency {
	if said == backoff.Keyed && !foreign && !r.keyed(t.keyHeader()) {
		key := backoff.IdempotencyKey(ctx)
		if key == "" {
			key = rand.Text()
			r.made = underKey(key)
		} else {
			r.usedKey = usedKey{idemkey.Of(ctx), hashOf(r.req)}
		}
		r.setHeader(t.keyHeader(), t.KeyForm.write(key))
	}
	switch {
	case foreign:
		return backoff.NonIdempotent
	case r.keyed(t.keyHeader()):
		return backoff.Idempotent
	case said == RepeatAfter429:
		r.last = new(lastAnswer)
		return r.last
	}
	return backoff.NonIdempotent
}

// keyed reports whether the request carries a key.
func (r *request) keyed(keyHeader string) bool {
	return keyed(r.req) || r.req.Header.Get(keyHeader) != ""
}

// keepKey gives a redirected request the key that the Transport gave the first
// one. Without it, a server that did the request already would do it again.
func (r *request) keepKey(keyHeader string) {
	first := origin(r.req)
	if key := first.Header.Get(keyHeader); key != "" && r.req.Method == first.Method && !r.keyed(keyHeader) {
		r.setHeader(keyHeader, key)
	}
}

// setHeader sets a field in a copy of the request, so that the caller's is not changed.
func (r *request) setHeader(name, value string) {
	r.req = r.req.Clone(r.req.Context())
	r.req.Header.Set(name, value)
}

// withoutKeys returns the request without its keys. If the redirect has changed
// the method, such as from POST to GET, it is another request, and loses them.
func (r *request) withoutKeys(keyHeader string) *http.Request {
	bare := r.req.Clone(r.req.Context())
	for _, name := range [...]string{HeaderIdempotencyKey, headerAltKey, keyHeader} {
		bare.Header.Del(name)
	}
	if r.req.Method != origin(r.req).Method {
		r.req = bare
	}
	return bare
}

// setIdempotency gives the request a policy whose Idempotency is said, with the limits of
// a single body. Most requests are of one of two kinds, whose policies are made once for a
// host.
func (r *request) setIdempotency(said backoff.Idempotency, g *guards) {
	again := r.single == nil
	if r.made != "" && said == backoff.Idempotent {
		said = r.made
	}
	switch {
	case again && said == backoff.Idempotent:
	case again && said == backoff.NonIdempotent && r.policy == &g.policy:
		r.policy = &g.nonIdempotent
	default:
		own := *r.policy
		own.Idempotency = said
		if !again {
			r.sentOnce = own.MaxAttempts != 1 || own.ByClass != nil
			r.single.limit(&own)
		}
		r.policy = &own
	}
}

// underKey is the Idempotency of a request for which a Transport made this key. Another
// call would have another key, and does not repeat it.
type underKey string

// Repeatable implements [backoff.Idempotency].
func (underKey) Repeatable(context.Context, backoff.Class) bool { return true }

// MadeKey returns the key.
func (k underKey) MadeKey() string { return string(k) }

// withoutKey is an Idempotency for a request that does not carry the key of its
// context.
type withoutKey struct{ backoff.Idempotency }

// Repeatable implements [backoff.Idempotency].
func (w withoutKey) Repeatable(ctx context.Context, c backoff.Class) bool {
	return w.Idempotency.Repeatable(idemkey.With(ctx, nil), c)
}

// origin returns the request that a chain of redirects began with, or req
// itself.
func origin(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

// sameOrigin reports whether two URLs have the same scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) &&
		port(a) == port(b)
}

// port returns the port of a URL, or the standard one of its scheme.
func port(u *url.URL) string { return cmp.Or(u.Port(), standardPorts[strings.ToLower(u.Scheme)]) }

var standardPorts = map[string]string{"http": "80", "https": "443"}
