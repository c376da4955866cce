package idempotency

import (
	"context"
	"errors"
	"net/http"

	"github.com/gobackoff/backoff/internal/problem"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// The reasons for which [Middleware] refuses a request. [Options.Reject] gets
// an error that matches one of them.
var (
	// ErrKeyMissing: the request has no Idempotency-Key (400).
	ErrKeyMissing = errors.New("idempotency: no key")
	// ErrKeyInvalid: the key is malformed or too long, or there are several
	// (400).
	ErrKeyInvalid = errors.New("idempotency: invalid key")
	// ErrKeyReused: the key belongs to another request (422).
	ErrKeyReused = errors.New("idempotency: key of another request")
	// ErrInFlight: another request with the key is being executed (409, with
	// Retry-After).
	ErrInFlight = errors.New("idempotency: request in flight")
	// ErrNotKept: the request was executed, but its response was not kept
	// (410).
	ErrNotKept = errors.New("idempotency: response not kept")
	// ErrUnscoped: the Scope does not know the caller (403).
	ErrUnscoped = errors.New("idempotency: unknown caller")
	// ErrBody: the body of the request is too large (413), or could not be
	// read (400).
	ErrBody = errors.New("idempotency: request body")
	// ErrStore: the store failed, and the request was not executed (503, with
	// Retry-After).
	ErrStore = errors.New("idempotency: store")
)

// refusals are the answers to these errors. The titles are those of the draft,
// where it has one.
var refusals = []struct {
	err    error
	status int
	title  string
}{
	{ErrKeyMissing, http.StatusBadRequest, "Idempotency-Key is missing"},
	{ErrKeyInvalid, http.StatusBadRequest, "Idempotency-Key is not valid"},
	{ErrKeyReused, http.StatusUnprocessableEntity, "Idempotency-Key is already used"},
	{ErrInFlight, http.StatusConflict, "A request is outstanding for this Idempotency-Key"},
	{ErrNotKept, http.StatusGone, "The request was executed, and its response is not available any more"},
	{ErrUnscoped, http.StatusForbidden, "The caller is not known"},
	{ErrBody, http.StatusBadRequest, "The body of the request could not be read"},
	{ErrStore, http.StatusServiceUnavailable, "The request could not be registered, and was not executed"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "The request was not answered in time"}, // by the handler
}

const (
	headerReplayed    = "Idempotent-Replayed" // Stripe's name for it
	headerRetryAfter  = "Retry-After"
	headerShouldRetry = "X-Should-Retry" // "true" or "false"
)

// refuse responds in place of the handler. The response names the reason and
// nothing else, because what err wraps may name hosts and tables.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, title := refusal(err)
	switch {
	case errors.Is(err, ErrInFlight):
		w.Header().Set(headerShouldRetry, "true")
		fallthrough
	case status == http.StatusServiceUnavailable:
		w.Header().Set(headerRetryAfter, retryafter.Format(h.RetryAfter))
	}
	if h.Docs != "" {
		w.Header().Add("Link", "<"+h.Docs+`>; rel="describedby"; type="text/html"`)
	}
	if h.Reject != nil {
		h.Reject(w, r, status, err)
		return
	}
	problem.Write(w, problem.Details{Type: h.Docs, Title: title, Status: status})
}

// refusal returns the status and the title of the answer for err.
func refusal(err error) (status int, title string) {
	for _, known := range refusals {
		if errors.Is(err, known.err) {
			status, title = known.status, known.title
			break
		}
	}
	var own interface{ HTTPStatusCode() int } // of the scope
	switch {
	case status == http.StatusForbidden:
		if errors.As(err, &own) && own.HTTPStatusCode() >= 400 && own.HTTPStatusCode() < 600 {
			status = own.HTTPStatusCode()
		}
	case errors.As(err, new(*http.MaxBytesError)): // the body is longer than MaxBody
		status = http.StatusRequestEntityTooLarge
	}
	return status, title
}

// markFinal marks a 409 that a handler sent as permanent, so that a client does not
// take it for the 409 of a request in flight, which asks to wait.
func markFinal(header http.Header, status int) {
	if status == http.StatusConflict && header.Get(headerShouldRetry) == "" {
		header.Set(headerShouldRetry, "false")
	}
}
