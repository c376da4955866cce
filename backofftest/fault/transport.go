package fault

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff/backofftest/internal/record"
)

// Transport returns base with the faults of the plan: the base of the client
// under test. Each request is an attempt. A nil base is [http.DefaultTransport].
func (i *Injector) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{i, base}
}

type transport struct {
	injector *Injector
	base     http.RoundTripper
}

// RoundTrip makes an attempt.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	exchange, sent := record.Watch(r)
	n := exchange.Note()
	e := t.injector.begin(Attempt{Method: n.Method, Path: n.Path, Key: n.Header.Get("Idempotency-Key")}, exchange)
	resp, err := t.send(sent, e.Fault)
	if err == nil {
		e.Fault.setRetryAfter(resp.Header)
	}
	exchange.Answer(resp, err)
	return resp, t.injector.end(e, exchange.Note().Status, err)
}

// send gets the response to a request under a fault.
func (t transport) send(r *http.Request, f Fault) (*http.Response, error) {
	var request *body
	switch f.kind {
	case status:
		return f.answer(r)
	case reset:
		closeBody(r)
		return nil, connectionReset("write")
	case cutRequest:
		if r.Body != nil && r.Body != http.NoBody {
			request = newBody(r.Body, r, f)
			r.Body, r.GetBody = request, nil
		}
	}
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response := newBody(resp.Body, r, f)
	if request != nil && request.ended.Load() {
		err = connectionReset("write")
	} else if f.bytes == 0 && f.kind >= lost && f.kind != cut && f.kind != truncate {
		err = response.hold()
	}
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	if f.kind >= cut {
		resp.Body = response
	}
	return resp, nil
}

// CloseIdleConnections closes those of the base.
func (t transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// answer is the response of a Status. It reads the request, as a service does.
func (f Fault) answer(r *http.Request) (*http.Response, error) {
	defer closeBody(r)
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
	}
	if r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	text := f.text()
	return &http.Response{
		Status: fmt.Sprintf("%d %s", f.status, http.StatusText(f.status)), StatusCode: f.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"text/plain"}, "Content-Length": {strconv.Itoa(len(text))}},
		ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
	}, nil
}
