// Package gaveup stores with an HTTP response why there were no more attempts. It
// stores that in the context of the request of the response.
package gaveup

import (
	"context"
	"net/http"

	"github.com/gobackoff/backoff"
)

// A Mark says why there were no more attempts.
type Mark struct {
	Why    *backoff.Error
	Remark string         // what to change, where Why cannot know it
	Answer *http.Response // the last one
}

// markKey is the key of the Mark in a context.
type markKey struct{}

// Set replaces the Mark of an answer. The answer must have its request.
func Set(resp *http.Response, m *Mark) {
	resp.Request = resp.Request.WithContext(context.WithValue(resp.Request.Context(), markKey{}, m))
}

// Of returns the Mark in the context of a request, or nil.
func Of(req *http.Request) *Mark {
	if req == nil {
		return nil
	}
	return in(req.Context())
}

// in returns the Mark in a context, or nil.
func in(ctx context.Context) *Mark {
	m, _ := ctx.Value(markKey{}).(*Mark)
	return m
}

// Unmark removes the Mark of an earlier call from a response. The Mark is there if
// ctx, the context of this call, came from the response of that call.
func Unmark(ctx context.Context, resp *http.Response) {
	if old := in(ctx); old != nil && old == Of(resp.Request) {
		Set(resp, nil)
	}
}

// Err returns the Mark as an error: Why, with the remark.
func (m *Mark) Err() error {
	if m.Remark == "" {
		return m.Why
	}
	noted := *m.Why
	noted.Note = m.Remark
	return &noted
}
