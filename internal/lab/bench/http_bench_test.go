package bench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// inMemory answers in memory, as fast as the contract of a RoundTripper allows:
// it reads and closes the body, and makes a response.
type inMemory struct {
	requests int
	bytes    int64
}

func (m *inMemory) RoundTrip(req *http.Request) (*http.Response, error) {
	m.requests++
	if req.Body != nil {
		n, _ := io.Copy(io.Discard, req.Body)
		m.bytes += n
		req.Body.Close()
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}, nil
}

const endpoint = "http://service.test/path"

// BenchmarkHTTP is a call over http.Client that succeeds at once, all but the
// network. The floor is the client alone. backoff has its guards on;
// backoff-unguarded is without. retryablehttp has a client of its own, and,
// with the suffix -transport, one that is put into an http.Client as the others
// are.
func BenchmarkHTTP(b *testing.B) {
	b.Run("get", func(b *testing.B) { benchmarkHTTP(b, http.MethodGet, nil) })
	b.Run("post-1KiB", func(b *testing.B) { benchmarkHTTP(b, http.MethodPost, make([]byte, 1<<10)) })
}

func benchmarkHTTP(b *testing.B, method string, body []byte) {
	for _, c := range []struct {
		name      string
		transport func(*inMemory) http.RoundTripper
	}{
		{"minimal", func(m *inMemory) http.RoundTripper { return m }},
		{"backoff", func(m *inMemory) http.RoundTripper { return &backoffhttp.Transport{Base: m} }},
		{"backoff-unguarded", func(m *inMemory) http.RoundTripper { return &backoffhttp.Transport{Base: m, Unguarded: true} }},
		{"backoff-timeout", func(m *inMemory) http.RoundTripper {
			return &backoffhttp.Transport{Base: m, Policy: backoff.Policy{AttemptTimeout: time.Minute}}
		}},
		{"retryablehttp-transport", func(m *inMemory) http.RoundTripper {
			return &retryablehttp.RoundTripper{Client: retryable(m)}
		}},
		{"failsafe", func(m *inMemory) http.RoundTripper {
			return failsafehttp.NewRoundTripper(m, failsafehttp.NewRetryPolicyBuilder().WithBackoff(initial, limit).Build())
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var m inMemory
			client := &http.Client{Transport: c.transport(&m)}
			measure(b, &m, body, func(ctx context.Context) (*http.Response, error) {
				req, err := http.NewRequestWithContext(ctx, method, endpoint, reader(body))
				if err != nil {
					return nil, err
				}
				return client.Do(req)
			})
		})
	}
	b.Run("retryablehttp", func(b *testing.B) {
		var m inMemory
		client := retryable(&m)
		measure(b, &m, body, func(ctx context.Context) (*http.Response, error) {
			req, err := retryablehttp.NewRequestWithContext(ctx, method, endpoint, raw(body))
			if err != nil {
				return nil, err
			}
			return client.Do(req)
		})
	})
}

// measure makes the call once per iteration, and checks that it was.
func measure(b *testing.B, m *inMemory, body []byte, call func(context.Context) (*http.Response, error)) {
	ctx := start(b)
	for b.Loop() {
		resp, err := call(ctx)
		must(b, err)
		resp.Body.Close()
	}
	expect(b, m.requests, 1)
	expect(b, int(m.bytes), len(body))
}

// retryable does not wait.
func retryable(server http.RoundTripper) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: server}
	client.Logger = nil
	client.RetryWaitMin, client.RetryWaitMax = 0, 0
	return client
}

// reader is what http.NewRequest knows how to rewind.
func reader(body []byte) io.Reader {
	if body == nil {
		return nil
	}
	return bytes.NewReader(body)
}

// raw is what retryablehttp.NewRequest rewinds without a copy.
func raw(body []byte) any {
	if body == nil {
		return nil
	}
	return body
}

// BenchmarkHTTPRetry is a call that succeeds at the third attempt, without
// waiting: what two attempts more cost, beside their own two requests, which
// the floor makes too, by three calls of the client. failsafe leaves the
// answers' bodies open.
func BenchmarkHTTPRetry(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		f := &failing{}
		benchmarkRetry(b, f, f)
	})
	b.Run("backoff", func(b *testing.B) {
		f := &failing{}
		policy := backoff.Policy{Schedule: backoff.Constant(0)}
		benchmarkRetry(b, f, &backoffhttp.Transport{Base: f, Policy: policy, Unguarded: true})
	})
	b.Run("retryablehttp", func(b *testing.B) {
		f := &failing{}
		client := retryable(f)
		measureRetry(b, f, func(ctx context.Context) (*http.Response, error) {
			req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
			if err != nil {
				return nil, err
			}
			return client.Do(req)
		})
	})
	b.Run("retryablehttp-transport", func(b *testing.B) {
		f := &failing{}
		benchmarkRetry(b, f, &retryablehttp.RoundTripper{Client: retryable(f)})
	})
	b.Run("failsafe", func(b *testing.B) {
		f := &failing{}
		policy := failsafehttp.NewRetryPolicyBuilder().Build()
		benchmarkRetry(b, f, failsafehttp.NewRoundTripper(f, policy))
	})
}

// failing answers 503 twice, then 200.
type failing struct{ inMemory }

func (f *failing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f.inMemory.RoundTrip(req)
	if f.requests%3 != 0 {
		resp.Status, resp.StatusCode = "503 Service Unavailable", http.StatusServiceUnavailable
	}
	return resp, err
}

func benchmarkRetry(b *testing.B, f *failing, transport http.RoundTripper) {
	client := &http.Client{Transport: transport}
	measureRetry(b, f, func(ctx context.Context) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
		if err != nil {
			return nil, err
		}
		return client.Do(req)
	})
}

// measureRetry makes the call until it succeeds, which only the floor has to do
// more than once.
func measureRetry(b *testing.B, f *failing, call func(context.Context) (*http.Response, error)) {
	ctx := start(b)
	for b.Loop() {
		for {
			resp, err := call(ctx)
			must(b, err)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
	}
	expect(b, f.requests, 3)
}
