// Package idempotency makes HTTP handlers safe to retry: a request that arrives
// again under the same Idempotency-Key gets the response to the first one and
// does not take effect a second time.
//
//	func main() {
//		once := idempotency.Middleware(account, idempotency.Options{})
//		http.Handle("POST /charges", once(http.HandlerFunc(charge)))
//		log.Fatal(http.ListenAndServe(":8080", nil))
//	}
//
//	// account returns who sends a request: each account has its own keys.
//	func account(r *http.Request) (string, error) {
//		return userOf(r.Context())
//	}
//
// [Middleware] keeps keys and responses in a [Store]: in a [MemoryStore] by
// default, which is enough for one process, or in a database, with package
// sqlstore. Package storetest tests other implementations of Store.
//
// The client's side of an Idempotency-Key is in package backoff (backoff.Keyed,
// backoff.WithIdempotencyKey), and in package backoffhttp, whose Transport
// sends a key with the requests that are Keyed.
package idempotency
