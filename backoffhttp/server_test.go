package backoffhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A request for a handler or a server. Its method is POST unless it says
// another.
type request struct {
	method string
	header http.Header
}

func (q request) on(ctx context.Context, url string) *http.Request {
	if q.method == "" {
		q.method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, q.method, url+"/", http.NoBody)
	if err != nil {
		panic(err)
	}
	for name, values := range q.header {
		r.Header[name] = values
	}
	return r
}

// to sends the request to a handler, without a network.
func (q request) to(h http.Handler) *httptest.ResponseRecorder {
	return q.with(context.Background(), h)
}

func (q request) with(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q.on(ctx, "http://service.example"))
	return w
}

func handle(f http.HandlerFunc) http.Handler { return f }

// service is a handler behind a real server.
func service(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}
