package backoffhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// An overloaded server tells all kinds of clients.
func ExampleDoNotRetry() {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		backoffhttp.DoNotRetry(w)
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
	})
	header := request{}.to(h).Header()
	fmt.Println(header.Get("X-Should-Retry"), header.Get("Grpc-Retry-Pushback-Ms"), header.Get("X-Envoy-Overloaded"))
	// Output: false -1 true
}

// A service that retried without success tells its caller not to retry.
func ExampleWriteError() {
	policy := backoff.Policy{Name: "stock", Schedule: backoff.Constant(time.Millisecond)}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := policy.Do(r.Context(), func(context.Context) error { return io.ErrUnexpectedEOF })
		backoffhttp.WriteError(w, r, err)
	})
	w := request{}.to(h)
	fmt.Println(w.Code, w.Header().Get("X-Should-Retry"))
	// Output: 503 false
}

func ExampleInbound() {
	h := backoffhttp.Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up, _ := backoffhttp.UpstreamFrom(r.Context())
		_, limited := r.Context().Deadline()
		fmt.Println("attempt", up.Attempt, limited)
	}))
	request{header: http.Header{"Backoff-Attempt": {"2"}, "Backoff-Deadline-Ms": {"1500"}}}.to(h)
	// Output: attempt 2 true
}

// The inner loop makes one attempt if the outer loop is retrying.
func ExampleYieldToCaller() {
	policy := backoff.Policy{
		Schedule:    backoff.Constant(time.Millisecond),
		Idempotency: backoffhttp.YieldToCaller(backoff.Idempotent),
	}
	h := backoffhttp.Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attempts := 0
		policy.Do(r.Context(), func(context.Context) error {
			attempts++
			return io.ErrUnexpectedEOF
		})
		fmt.Println(attempts)
	}))
	for _, attempt := range []string{"1", "2"} {
		request{header: http.Header{"Backoff-Attempt": {attempt}}}.to(h)
	}
	// Output:
	// 4
	// 1
}

func ExampleUpstream() {
	h := backoffhttp.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if up, ok := backoffhttp.UpstreamFrom(r.Context()); ok && up.Attempt > 1 {
			fmt.Println("serve from the cache")
		}
	}))
	request{header: http.Header{"X-Envoy-Attempt-Count": {"2"}}}.to(h)
	// Output: serve from the cache
}
