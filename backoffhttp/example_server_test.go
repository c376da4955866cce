package backoffhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// send is what a client does, without a network.
func send(h http.Handler, key, body string) *httptest.ResponseRecorder {
	return request{key: key, body: body}.to(h)
}

// The second request is answered like the first one, and nobody is charged again.
func ExampleDedup() {
	account := func(r *http.Request) (string, error) {
		return "account 7", nil // as authentication has found out
	}
	charges := 0
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "charged")
	})
	h := backoffhttp.Dedup(account, backoffhttp.DedupOptions{})(charge)

	for range 3 {
		w := send(h, "8e03978e", "10 EUR")
		fmt.Println(w.Code, w.Body)
	}
	fmt.Println(send(h, "8e03978e", "99 EUR").Code, send(h, "", "10 EUR").Code)
	fmt.Println("charges:", charges)
	// Output:
	// 201 charged
	// 201 charged
	// 201 charged
	// 422 400
	// charges: 1
}

// A service with an error format of its own.
func ExampleDedupOptions() {
	keyed := backoffhttp.Dedup(backoffhttp.SingleTenant, backoffhttp.DedupOptions{
		Store: &backoffhttp.MemoryStore{TTL: time.Hour},
		Lease: 10 * time.Second,
		Reject: func(w http.ResponseWriter, r *http.Request, status int, err error) {
			w.WriteHeader(status)
			if errors.Is(err, backoffhttp.ErrKeyMissing) {
				fmt.Fprint(w, `{"error":"no_key"}`)
			}
		},
	})
	w := send(keyed(http.NotFoundHandler()), "", "")
	fmt.Println(w.Code, w.Body)
	// Output: 400 {"error":"no_key"}
}

// Callers are told apart by what authentication has put into the context.
func ExampleScope() {
	type user struct{}
	var scope backoffhttp.Scope = func(r *http.Request) (string, error) {
		name, ok := r.Context().Value(user{}).(string)
		if !ok {
			return "", errors.New("nobody is logged in")
		}
		return name, nil
	}
	h := backoffhttp.Dedup(scope, backoffhttp.DedupOptions{})(http.NotFoundHandler())
	fmt.Println(send(h, "key", "").Code)
	// Output: 403
}

func ExampleSingleTenant() {
	h := backoffhttp.Dedup(backoffhttp.SingleTenant, backoffhttp.DedupOptions{})(http.NotFoundHandler())
	fmt.Println(send(h, "key", "").Code)
	// Output: 404
}

func ExampleMemoryStore() {
	store := &backoffhttp.MemoryStore{MaxRecords: 1_000_000, MaxBytes: 1 << 30}
	_ = backoffhttp.Dedup(backoffhttp.SingleTenant, backoffhttp.DedupOptions{Store: store})
	fmt.Println(store.Len())
	// Output: 0
}

// What Dedup does with a Store.
func ExampleStore() {
	var store backoffhttp.Store = new(backoffhttp.MemoryStore)
	ctx := context.Background()
	first, _ := store.Begin(ctx, "key", "fingerprint", time.Minute)
	second, _ := store.Begin(ctx, "key", "fingerprint", time.Minute)
	fmt.Println(first.State, second.State)

	store.Finish(ctx, first.Claim, backoffhttp.Record{Status: 201, Body: []byte("charged")})
	third, _ := store.Begin(ctx, "key", "fingerprint", time.Minute)
	fmt.Printf("%v: %d %s\n", third.State, third.Record.Status, third.Record.Body)
	// Output:
	// claimed in flight
	// done: 201 charged
}

func ExampleEntryState() {
	var store backoffhttp.MemoryStore
	ctx := context.Background()
	store.Begin(ctx, "key", "fingerprint", time.Minute)
	other, _ := store.Begin(ctx, "key", "fingerprint of another request", time.Minute)
	fmt.Println(other.State == backoffhttp.EntryMismatch)
	// Output: true
}

func ExampleEntry() {
	var store backoffhttp.MemoryStore
	ctx := context.Background()
	store.Begin(ctx, "key", "fingerprint", time.Minute)
	entry, _ := store.Begin(ctx, "key", "fingerprint", time.Minute)
	fmt.Println(entry.State, entry.Left > 50*time.Second)
	// Output: in flight true
}

// An operation that must not happen twice looks whether it has, where an earlier run has
// ended without a record.
func ExampleClaim() {
	charges := make(map[string]bool)
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claim, _ := backoffhttp.ClaimFrom(r.Context())
		if claim.Run > 1 && charges[claim.Key] {
			fmt.Fprint(w, "charged before")
			return
		}
		charges[claim.Key] = true
		w.WriteHeader(http.StatusInternalServerError) // what went wrong comes after the effect
	})
	h := backoffhttp.Dedup(backoffhttp.SingleTenant, backoffhttp.DedupOptions{})(charge)
	fmt.Println(send(h, "key", "").Code)
	fmt.Println(send(h, "key", "").Body)
	fmt.Println(len(charges), "charge")
	// Output:
	// 500
	// charged before
	// 1 charge
}

func ExampleRecord() {
	created := backoffhttp.Record{
		Status: http.StatusCreated,
		Header: http.Header{"Location": {"/charges/1"}},
		Body:   []byte("charged"),
	}
	w := httptest.NewRecorder()
	created.Send(w)
	fmt.Println(w.Code, w.Header().Get("Location"), w.Body)
	// Output: 201 /charges/1 charged
}

// Another service is asked under a key of this operation, the same for all runs of it.
func ExampleDeriveKey() {
	h := backoffhttp.Dedup(backoffhttp.SingleTenant, backoffhttp.DedupOptions{})(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			key := backoffhttp.DeriveKey(r.Context(), "charge card")
			ctx := backoff.WithIdempotencyKey(r.Context(), key)
			fmt.Println(len(backoff.IdempotencyKey(ctx)), key != backoffhttp.DeriveKey(r.Context(), "send mail"))
		}))
	send(h, "key", "")
	// Output: 32 true
}

// An overloaded server says so to clients of all kinds.
func ExampleDoNotRetry() {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		backoffhttp.DoNotRetry(w)
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
	})
	header := send(h, "", "").Header()
	fmt.Println(header.Get("X-Should-Retry"), header.Get("Grpc-Retry-Pushback-Ms"), header.Get("X-Envoy-Overloaded"))
	// Output: false -1 true
}

// A service between two others retries, and if that was in vain, its caller must not do
// it all again.
func ExampleWriteError() {
	policy := backoff.Policy{Name: "stock", Schedule: backoff.Constant(time.Millisecond)}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := policy.Do(r.Context(), func(context.Context) error { return io.ErrUnexpectedEOF })
		backoffhttp.WriteError(w, r, err)
	})
	w := send(h, "", "")
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

func ExampleUpstream() {
	h := backoffhttp.Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if up, ok := backoffhttp.UpstreamFrom(r.Context()); ok && up.Attempt > 1 {
			fmt.Println("serve from the cache")
		}
	}))
	request{header: http.Header{"X-Envoy-Attempt-Count": {"2"}}}.to(h)
	// Output: serve from the cache
}

// The loop inside makes one attempt where the loop around it is retrying.
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
