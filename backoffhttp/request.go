package backoffhttp

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
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
	// made is the key that the Transport made for the request, if it did.
	made underKey
	// copied says that req and its header are copies, which may be changed.
	copied bool
	// sentOnce says that there is only one attempt because the body cannot be
	// sent again.
	sentOnce bool
}

// isPlain reports whether nothing has to be read from a request before its
// first attempt, under guards that ask for nothing either.
func isPlain(req *http.Request) bool {
	if req.Response != nil || overrides.Load() && req.Context().Value(overrideKey{}) != nil {
		return false
	}
	return idempotentMethod(req.Method) || backoff.IdempotencyKey(req.Context()) == ""
}

// read reads a request. An error refuses the call.
func (t *Transport) read(req *http.Request, g *guards) (request, error) {
	ctx := req.Context()
	r := request{req: req}
	said, err := r.readPolicy(ctx, t, g)
	if err != nil {
		return r, err
	}
	r.propagate = t.Propagate != nil && t.Propagate(req.URL)
	again, err := r.readBody(t.MaxBuffer)
	if err != nil {
		return r, backoff.Permanent(err)
	}
	if t.Resume {
		r.acceptIdentity()
	}
	said = r.readIdempotency(ctx, t, said)
	up, _ := UpstreamFrom(ctx)
	r.upstream = up.Attempt
	if up.Attempt > 1 && said != backoff.Idempotent {
		said = onlyNotSent{} // the caller of this service is retrying already
	}
	r.setIdempotency(said, again, g)
	return r, nil
}

// readPolicy sets the policy and the timeouts, and returns the Idempotency of
// the policy. The contexts of the request may change all three.
func (r *request) readPolicy(ctx context.Context, t *Transport, g *guards) (backoff.Idempotency, error) {
	p := g.source
	r.policy, r.timeouts = &g.policy, g.timeouts
	if o, ok := ctx.Value(overrideKey{}).(*override); ok {
		own := o.apply(*p)
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

// readBody makes a request whose body can be sent again, if it can, and reports
// whether it can. A request without a body, or with GetBody, is left as it is.
// Any other body is read into memory if it is not longer than limit; a negative
// limit is none. If the body is longer, readBody puts what it has read in front
// of the rest.
func (r *request) readBody(limit int64) (again bool, err error) {
	req := r.req
	switch {
	case req.Body == nil || req.Body == http.NoBody || req.GetBody != nil:
		return true, nil
	case limit == 0 || limit > 0 && req.ContentLength > limit:
		return false, nil
	}
	head, whole, err := readUpTo(req.Body, limit)
	if err != nil {
		return false, err // the end of the call closes the body
	}
	r.copy()
	if !whole {
		r.req.Body = readCloser{io.MultiReader(bytes.NewReader(head), req.Body), req.Body}
		return false, nil
	}
	req.Body.Close()
	setBody(r.req, head)
	return true, nil
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
		r.copy()
		r.req.Header.Set("Accept-Encoding", "identity")
	}
}

// readIdempotency returns whether the request may be sent again. said is what
// the policy says about that. If a key makes the request repeatable,
// readIdempotency adds it.
func (r *request) readIdempotency(ctx context.Context, t *Transport, said backoff.Idempotency) backoff.Idempotency {
	keyHeader := t.keyHeader()
	foreign := r.req.Response != nil && !sameOrigin(origin(r.req).URL, r.req.URL)
	if foreign {
		r.removeKeys(keyHeader)
	}
	wantsKey := said == backoff.Keyed
	if said == nil || wantsKey {
		found := t.idempotency(r.req)
		wantsKey = wantsKey || found == backoff.Keyed
		if said == nil || found == backoff.Idempotent {
			said = found
		}
	}
	if said != backoff.Idempotent {
		said = r.readKey(ctx, t, said, foreign)
	}
	r.retryConflict = wantsKey && r.keyed(keyHeader)
	return said
}

// idempotency returns what the table, or the request itself, says about sending
// the request again.
func (t *Transport) idempotency(req *http.Request) backoff.Idempotency {
	if t.Idempotency != nil {
		return t.Idempotency(req)
	}
	return Idempotency(req)
}

// readKey adds a key to a request that is not idempotent, if said or the
// context wants one. It returns said with the key taken into account. A request
// that was redirected to a foreign host gets none.
func (r *request) readKey(ctx context.Context, t *Transport, said backoff.Idempotency, foreign bool) backoff.Idempotency {
	key := backoff.IdempotencyKey(ctx)
	if !foreign && (said == backoff.Keyed || key != "" && !idempotentMethod(r.req.Method)) {
		r.addKey(key, t.keyHeader(), t.KeyForm)
	}
	switch {
	case said != backoff.Keyed && said != backoff.NonIdempotent:
		return said
	case r.keyed(t.keyHeader()):
		return backoff.Idempotent
	case foreign:
		return onlyNotSent{}
	}
	return backoff.NonIdempotent
}

// keyed reports whether the request carries a key.
func (r *request) keyed(keyHeader string) bool {
	return keyed(r.req) || r.req.Header.Get(keyHeader) != ""
}

// addKey adds a key to the request, unless it has one: the key of the request
// that a chain of redirects began with, or the given one, or a new one.
func (r *request) addKey(key, keyHeader string, form KeyForm) {
	if r.keyed(keyHeader) {
		return
	}
	value := origin(r.req).Header.Get(keyHeader)
	if value == "" {
		if key == "" {
			key = rand.Text()
			r.made = underKey(key)
		}
		value = form.write(key)
	}
	r.copy()
	r.req.Header.Set(keyHeader, value)
}

// removeKeys removes all keys from a request to a host that they were not made
// for.
func (r *request) removeKeys(keyHeader string) {
	if !r.keyed(keyHeader) {
		return
	}
	r.copy()
	for _, name := range [...]string{HeaderIdempotencyKey, headerAltKey, keyHeader} {
		r.req.Header.Del(name)
	}
}

// copy makes req a copy, so that the caller's request is not changed.
func (r *request) copy() {
	if r.copied {
		return
	}
	r.req = r.req.WithContext(r.req.Context())
	r.req.Header = r.req.Header.Clone()
	r.copied = true
}

// setIdempotency gives the request a policy whose Idempotency is said, and that
// makes one attempt unless the request can be sent again. Most requests are of
// one of two kinds, whose policies are made once for a host.
func (r *request) setIdempotency(said backoff.Idempotency, again bool, g *guards) {
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
			limitToOneAttempt(&own)
			own.Idempotency = never{} // nor does a Patience
		}
		r.policy = &own
	}
}

// underKey is the Idempotency of a request for which a Transport made this key. A
// Patience around the call keeps the key.
type underKey string

// Repeatable implements [backoff.Idempotency].
func (underKey) Repeatable(context.Context, backoff.Class) bool { return true }

// MadeKey returns the key.
func (k underKey) MadeKey() string { return string(k) }

// never is the Idempotency of a request whose body cannot be sent again.
type never struct{}

// Repeatable implements [backoff.Idempotency].
func (never) Repeatable(context.Context, backoff.Class) bool { return false }

// onlyNotSent is the Idempotency of a request that is sent again only if it
// never reached the server. Unlike [backoff.NonIdempotent] it ignores a key in
// the context, which the request does not carry.
type onlyNotSent struct{}

// Repeatable implements [backoff.Idempotency].
func (onlyNotSent) Repeatable(_ context.Context, c backoff.Class) bool {
	return c == backoff.ClassNotSent
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
func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if strings.EqualFold(u.Scheme, "https") {
		return "443"
	}
	return "80"
}
