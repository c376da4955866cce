package fault

import (
	"context"
	"net/http"
	"net/http/httptest"
)

// Handler is [Injector.Transport] with a handler in place of a server: no socket
// is needed, so it works in a bubble of testing/synctest. The response is there
// when the handler has returned. A handler that panics with
// [http.ErrAbortHandler] resets the connection.
func (i *Injector) Handler(h http.Handler) http.RoundTripper { return transport{i, local{h}} }

// local sends requests to a handler.
type local struct{ http.Handler }

// RoundTrip calls the handler. It does not wait for the handler once the context
// has ended.
func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan func() (*http.Response, error), 1)
	go func() {
		defer cancel()
		result := l.serve(r, ctx)
		closeBody(r)
		done <- result
	}()
	select {
	case result := <-done:
		return result()
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// serve calls the handler, and returns its result.
func (l local) serve(r *http.Request, ctx context.Context) (result func() (*http.Response, error)) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			result = func() (*http.Response, error) { return nil, connectionReset("read") }
		default:
			result = func() (*http.Response, error) { panic(v) }
		}
	}()
	w, got := httptest.NewRecorder(), r.Clone(ctx)
	got.RequestURI, got.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1234"
	if got.Host == "" {
		got.Host = r.URL.Host
	}
	if got.Body == nil {
		got.Body = http.NoBody
	}
	l.ServeHTTP(w, got)
	return func() (*http.Response, error) {
		resp := w.Result()
		resp.Request = r
		return resp, nil
	}
}
