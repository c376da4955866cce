package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gobackoff/backoff/idempotency"
)

// send is what a client does, without a network.
func send(h http.Handler, key, body string) *httptest.ResponseRecorder {
	return request{key: key, body: body}.to(h)
}

// The second request gets the response to the first one, and charges nobody.
func ExampleMiddleware() {
	account := func(r *http.Request) (string, error) {
		return "account 7", nil // as the authentication found out
	}
	charges := 0
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "charged")
	})
	h := idempotency.Middleware(account, idempotency.Options{})(charge)

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
func ExampleOptions() {
	keyed := idempotency.Middleware(idempotency.SingleTenant, idempotency.Options{
		Store: &idempotency.MemoryStore{TTL: time.Hour},
		Lease: 10 * time.Second,
		Reject: func(w http.ResponseWriter, r *http.Request, status int, err error) {
			w.WriteHeader(status)
			if errors.Is(err, idempotency.ErrKeyMissing) {
				fmt.Fprint(w, `{"error":"no_key"}`)
			}
		},
	})
	w := send(keyed(http.NotFoundHandler()), "", "")
	fmt.Println(w.Code, w.Body)
	// Output: 400 {"error":"no_key"}
}

// The Scope returns what the authentication has put into the context.
func ExampleScope() {
	type user struct{}
	var scope idempotency.Scope = func(r *http.Request) (string, error) {
		name, ok := r.Context().Value(user{}).(string)
		if !ok {
			return "", errors.New("nobody is logged in")
		}
		return name, nil
	}
	h := idempotency.Middleware(scope, idempotency.Options{})(http.NotFoundHandler())
	fmt.Println(send(h, "key", "").Code)
	// Output: 403
}

func ExampleSingleTenant() {
	h := idempotency.Middleware(idempotency.SingleTenant, idempotency.Options{})(http.NotFoundHandler())
	fmt.Println(send(h, "key", "").Code)
	// Output: 404
}

func ExampleMemoryStore() {
	store := &idempotency.MemoryStore{MaxRecords: 1_000_000, MaxBytes: 1 << 30}
	_ = idempotency.Middleware(idempotency.SingleTenant, idempotency.Options{Store: store})
	fmt.Println(store.Len())
	// Output: 0
}

// Middleware uses a Store like this.
func ExampleStore() {
	var store idempotency.Store = new(idempotency.MemoryStore)
	ctx := context.Background()
	first, _ := store.Begin(ctx, "key", "fingerprint", time.Minute)
	second, _ := store.Begin(ctx, "key", "fingerprint", time.Minute)
	fmt.Println(first.State, second.State)

	store.Finish(ctx, first.Claim, idempotency.Record{Status: 201, Body: []byte("charged")})
	third, _ := store.Begin(ctx, "key", "fingerprint", time.Minute)
	fmt.Printf("%v: %d %s\n", third.State, third.Record.Status, third.Record.Body)
	// Output:
	// claimed in flight
	// done: 201 charged
}

func ExampleEntryState() {
	var store idempotency.MemoryStore
	ctx := context.Background()
	store.Begin(ctx, "key", "fingerprint", time.Minute)
	other, _ := store.Begin(ctx, "key", "fingerprint of another request", time.Minute)
	fmt.Println(other.State == idempotency.EntryMismatch)
	// Output: true
}

func ExampleEntry() {
	var store idempotency.MemoryStore
	ctx := context.Background()
	store.Begin(ctx, "key", "fingerprint", time.Minute)
	entry, _ := store.Begin(ctx, "key", "fingerprint", time.Minute)
	fmt.Println(entry.State, entry.Left > 50*time.Second)
	// Output: in flight true
}

// If an earlier run ended without a record, an operation that must not happen
// twice looks whether it happened.
func ExampleClaim() {
	charges := make(map[string]bool)
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claim, _ := idempotency.ClaimFrom(r.Context())
		if claim.Run > 1 && charges[claim.Key] {
			fmt.Fprint(w, "charged before")
			return
		}
		charges[claim.Key] = true
		w.WriteHeader(http.StatusInternalServerError) // the failure comes after the charge
	})
	h := idempotency.Middleware(idempotency.SingleTenant, idempotency.Options{})(charge)
	fmt.Println(send(h, "key", "").Code)
	fmt.Println(send(h, "key", "").Body)
	fmt.Println(len(charges), "charge")
	// Output:
	// 500
	// charged before
	// 1 charge
}

func ExampleRecord() {
	created := idempotency.Record{
		Status: http.StatusCreated,
		Header: http.Header{"Location": {"/charges/1"}},
		Body:   []byte("charged"),
	}
	w := httptest.NewRecorder()
	created.Send(w)
	fmt.Println(w.Code, w.Header().Get("Location"), w.Body)
	// Output: 201 /charges/1 charged
}

// All runs of a request call the other service with the same key.
func ExampleDeriveKey() {
	h := idempotency.Middleware(idempotency.SingleTenant, idempotency.Options{})(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			key := idempotency.DeriveKey(r.Context(), "charge card")
			req, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, "https://cards.example/charges", http.NoBody)
			req.Header.Set("Idempotency-Key", key)
			fmt.Println(len(key), key != idempotency.DeriveKey(r.Context(), "send mail"))
		}))
	send(h, "key", "")
	// Output: 32 true
}
