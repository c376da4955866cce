package fault

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing/iotest"
	"time"

	"github.com/gobackoff/backoff"
)

// Transport returns base with the faults of the plan: the base of the client
// under test. Each request is an attempt. A nil base is [http.DefaultTransport].
func (i *Injector) Transport(base http.RoundTripper) http.RoundTripper {
	return transport{i, cmp.Or(base, http.DefaultTransport)}
}

// Handler is [Injector.Transport] with a handler in place of a server: no socket
// is needed, so it works in a bubble of testing/synctest. The handler runs in the
// goroutine that sends the request, and the response is there when it has
// returned. A handler that waits must end with the context of its request, as
// [Hang] and [Slow] do.
func (i *Injector) Handler(h http.Handler) http.RoundTripper { return transport{i, local{h}} }

type transport struct {
	injector *Injector
	base     http.RoundTripper
}

// RoundTrip makes an attempt.
func (t transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	a, sent := t.injector.watch(r)
	f, base := a.Fault, t.base
	if f.kind == status {
		base = local{http.HandlerFunc(f.answer)}
	}
	err = f.call(r.Context(), f.bytes < 0, func(context.Context) (err error) {
		resp, err = base.RoundTrip(sent)
		return err
	})
	switch {
	case f.kind == reset && sent.Body != nil:
		sent.Body.Close()
	case err != nil && resp != nil:
		resp.Body.Close()
		resp = nil
	case err == nil && f.kind == cut:
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(resp.Body, f.bytes), iotest.ErrReader(errBroken)), resp.Body}
	}
	return t.injector.answered(a, resp, err)
}

// answer is the handler of a Status. It reads the request, as a service does.
func (f Fault) answer(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Length", strconv.Itoa(len(f.body)))
	w.Header().Set("Connection", "close")
	if f.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.after.Seconds())))
	}
	w.WriteHeader(f.status)
	io.WriteString(w, f.body)
}

// local sends requests to a handler.
type local struct{ http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	w, got := httptest.NewRecorder(), httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.RequestURI(), r.Body)
	got.Header, got.Host, got.ContentLength = r.Header.Clone(), cmp.Or(r.Host, r.URL.Host), r.ContentLength
	defer got.Body.Close()
	l.ServeHTTP(w, got)
	resp := w.Result()
	resp.Request = r
	return resp, context.Cause(r.Context())
}

// Op returns op with the faults of the plan. Each call is an attempt. Op calls op
// if the request would have reached the service: with [Lost], for one, op does
// its work, and the caller gets an error.
//
// The error of [Status] has a method HTTPStatusCode, and that of
// [Fault.RetryAfter] can be read by the policies of package backoff.
func (i *Injector) Op(op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		a := i.begin(Attempt{Whole: true})
		f, do := a.Fault, op
		if f.kind == status {
			do = f.refuse
		}
		return i.end(a, 0, f.call(ctx, f.kind == cut, do))
	}
}

// Doer returns d, whose operations have the faults of the plan, see
// [Injector.Op]. It suits code under test that takes a [backoff.Doer].
func (i *Injector) Doer(d backoff.Doer) backoff.Doer {
	return doer(func(ctx context.Context, op func(context.Context) error) error { return d.Do(ctx, i.Op(op)) })
}

type doer func(ctx context.Context, op func(context.Context) error) error

func (d doer) Do(ctx context.Context, op func(context.Context) error) error { return d(ctx, op) }

// call calls do under f, which may break the connection before the response.
func (f Fault) call(ctx context.Context, breaks bool, do func(context.Context) error) error {
	if f.kind == reset {
		return errBroken
	}
	err := do(ctx)
	if breaks {
		return errBroken
	}
	return cmp.Or(pause(ctx, f.wait), err)
}

// pause waits for d, and returns an error if ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	late, stop := context.WithTimeout(ctx, d)
	defer stop()
	<-late.Done()
	return context.Cause(ctx)
}

// refuse is an operation whose service answers with a status.
func (f Fault) refuse(context.Context) error {
	if f.after > 0 {
		return backoff.RetryAfter(refusal(f.status), f.after)
	}
	return refusal(f.status)
}

// A refusal is the error of a status.
type refusal int

func (r refusal) Error() string       { return fmt.Sprintf("status %d %s", int(r), http.StatusText(int(r))) }
func (r refusal) HTTPStatusCode() int { return int(r) }
