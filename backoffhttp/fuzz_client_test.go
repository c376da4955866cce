package backoffhttp_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// Whatever a server writes into its headers, a call ends within its limits,
// waits for no negative time, and returns the server's answer.
func FuzzHostileHeaders(f *testing.F) {
	f.Add(503, "120", "", "", "", "0", "946684860")
	f.Add(429, "99999999999999999999", "-1", "false", "true", "-1", "1e309")
	f.Add(403, "Fri, 31 Dec 9999 23:59:59 GMT", "18446744073709551616", "true", "", "0", "NaN")
	f.Add(413, "0", "0", "TRUE", "\x00", "", "1m")
	f.Add(200, "5", "٣", "false", "false", "0", "2000-01-01T00:00:30Z")
	f.Fuzz(func(t *testing.T, code int, retryAfter, millis, should, overloaded, remaining, limit string) {
		header := []string{
			"Retry-After", retryAfter, "Retry-After-Ms", millis, "X-Ms-Retry-After-Ms", millis, "X-Amz-Retry-After", millis,
			"X-Should-Retry", should, "Stripe-Should-Retry", should, "X-Envoy-Overloaded", overloaded,
			"Grpc-Retry-Pushback-Ms", millis, "X-Ratelimit-Remaining", remaining, "X-Ratelimit-Reset", limit,
			"X-Amzn-Errortype", retryAfter, "Content-Range", limit,
		}
		if millis == "" {
			header = append(header[:14], header[16:]...)
		}
		for form := backoffhttp.ResetSeconds; form <= backoffhttp.ResetDuration; form++ {
			fuzzOnce(t, form, code, header)
		}
	})
}

func fuzzOnce(t *testing.T, form backoffhttp.ResetForm, code int, header []string) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := holding(answer(code, header...))
		tr.RateLimits = []backoffhttp.RateLimit{{Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Form: form}}
		began := time.Now()
		for range 2 {
			resp, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != code {
				t.Errorf("got status %d, want %d", resp.StatusCode, code)
			}
			var gave *backoff.Error
			if errors.As(backoffhttp.Check(resp), &gave) && gave.RetryAfter() < 0 {
				t.Errorf("RetryAfter() = %v", gave.RetryAfter())
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if w.requests() > 8 {
			t.Errorf("%d requests", w.requests())
		}
		if d := time.Since(began); d > 8*6*time.Minute { // MaxRetryAfter, and a tenth of it
			t.Errorf("waited %v", d)
		}
		for _, wait := range w.waits() {
			if wait < 0 {
				t.Errorf("a wait of %v", wait)
			}
		}
	})
}

// Classify knows texts: none of them, however long or odd, may confuse it.
func FuzzClassify(f *testing.F) {
	for _, seed := range []string{"stream error: stream ID 1; REFUSED_STREAM", "http2: Transport: cannot retry err [http2: Transport: cannot retry err [", "http2: server sent GOAWAY and closed the connection; ", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if class := backoffhttp.Classify(errors.New(text)); class == backoff.ClassUnknown || class > backoff.ClassPermanent {
			t.Errorf("%q: %v", text, class)
		}
	})
}

// A table's rules come from configuration.
func FuzzOperations(f *testing.F) {
	f.Add("GET /storage/v1/b/{bucket}/o/{object}", "?ifGenerationMatch, If-Match, {etag}", "/storage/v1/b/x/o/y%2Fz")
	f.Add("POST host.test/{$}", "never", "/")
	f.Fuzz(func(t *testing.T, pattern, rule, path string) {
		table, err := backoffhttp.NewOperations(map[string]string{pattern: rule})
		if err != nil {
			return
		}
		req, err := http.NewRequest("POST", "http://a.test"+path, nil)
		if err != nil {
			return
		}
		table.Idempotency(req).Repeatable(t.Context(), backoff.ClassRetryable)
	})
}
