package bench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// inMemory answers in memory, as fast as the contract of a RoundTripper allows: it reads and closes
// the body, and makes a response. Of every three requests it answers the first failures with 503.
type inMemory struct {
	failures, requests int
	bytes              int64
}

func (m *inMemory) RoundTrip(req *http.Request) (*http.Response, error) {
	m.requests++
	if req.Body != nil {
		n, _ := io.Copy(io.Discard, req.Body)
		m.bytes += n
		req.Body.Close()
	}
	resp := &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
	if (m.requests-1)%3 < m.failures {
		resp.Status, resp.StatusCode = "503 Service Unavailable", http.StatusServiceUnavailable
	}
	return resp, nil
}

const endpoint = "http://service.test/path"

// A request is made by a client of net/http, or by one that has its own.
type request func(ctx context.Context, method string, body []byte) (*http.Response, error)

var clients = []struct {
	name string
	make func(*inMemory) request
}{
	{"minimal", func(m *inMemory) request { return through(m) }},
	{"backoff", func(m *inMemory) request { return through(&backoffhttp.Transport{Base: m}) }},
	{"backoff-unguarded", func(m *inMemory) request {
		return through(&backoffhttp.Unguarded{Base: m, Policy: backoff.Policy{Schedule: backoff.Constant(0)}})
	}},
	{"retryablehttp", func(m *inMemory) request {
		client := retryable(m)
		return func(ctx context.Context, method string, body []byte) (*http.Response, error) {
			var raw any // which it rewinds without a copy
			if body != nil {
				raw = body
			}
			req, err := retryablehttp.NewRequestWithContext(ctx, method, endpoint, raw)
			if err != nil {
				return nil, err
			}
			return client.Do(req)
		}
	}},
	{"retryablehttp-transport", func(m *inMemory) request { return through(&retryablehttp.RoundTripper{Client: retryable(m)}) }},
	{"failsafe", func(m *inMemory) request {
		return through(failsafehttp.NewRoundTripper(m, failsafehttp.NewRetryPolicyBuilder().Build()))
	}},
}

func through(transport http.RoundTripper) request {
	client := &http.Client{Transport: transport}
	return func(ctx context.Context, method string, body []byte) (*http.Response, error) {
		var reader io.Reader // which http.NewRequest knows how to rewind
		if body != nil {
			reader = bytes.NewReader(body)
		}
		req, err := http.NewRequestWithContext(ctx, method, endpoint, reader)
		if err != nil {
			return nil, err
		}
		return client.Do(req)
	}
}

// retryable does not wait.
func retryable(server http.RoundTripper) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: server}
	client.Logger = nil
	client.RetryWaitMin, client.RetryWaitMax = 0, 0
	return client
}

// BenchmarkHTTP is a call over http.Client, all but the network. backoff has its guards on, and
// backoff-unguarded is without. retryablehttp has its own client; with the suffix -transport it
// is in an http.Client, as the others are. retry is answered by 503 twice: minimal makes three
// calls, and failsafe does not close the bodies of these answers.
func BenchmarkHTTP(b *testing.B) {
	for _, c := range []struct {
		name, method string
		body         []byte
		failures     int
	}{
		{name: "get", method: http.MethodGet},
		{name: "post-1KiB", method: http.MethodPost, body: make([]byte, 1<<10)},
		{name: "retry", method: http.MethodGet, failures: 2},
	} {
		b.Run(c.name, func(b *testing.B) {
			for _, client := range clients {
				name := client.name
				if c.failures > 0 { // the guards would stop the calls
					if name == "backoff" {
						continue
					}
					name = strings.TrimSuffix(name, "-unguarded")
				}
				b.Run(name, httpCalls(client.make, c.method, c.body, c.failures))
			}
		})
	}
}

func httpCalls(client func(*inMemory) request, method string, body []byte, failures int) func(*testing.B) {
	return func(b *testing.B) {
		m := inMemory{failures: failures}
		ctx, call := start(b), client(&m)
		for b.Loop() {
			for ok := false; !ok; {
				resp, err := call(ctx, method, body)
				must(b, err)
				resp.Body.Close()
				ok = resp.StatusCode == http.StatusOK
			}
		}
		expect(b, m.requests, 1+failures)
		expect(b, int(m.bytes), len(body))
	}
}
