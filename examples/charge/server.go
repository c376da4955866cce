package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/gobackoff/backoff/idempotency"
)

// A service charges the orders it gets, and counts the charges in a ledger.
type service struct {
	*httptest.Server

	mu     sync.Mutex
	ledger map[string]int // charges by order
}

func startService(keyed bool) *service {
	s := &service{ledger: make(map[string]int)}
	var handler http.Handler = http.HandlerFunc(s.charge)
	if keyed {
		handler = idempotency.Middleware(idempotency.SingleTenant, idempotency.Options{})(handler)
	}
	s.Server = httptest.NewServer(handler)
	return s
}

// charge makes a charge. It does not use keys: the middleware does.
func (s *service) charge(w http.ResponseWriter, r *http.Request) {
	order, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.ledger[string(order)]++
	s.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "charged %s", order)
}

// audit compares the ledger with the confirmations that the client got.
func (s *service) audit(confirmed []bool) result {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := result{orders: len(confirmed)}
	for i, ok := range confirmed {
		n := s.ledger[fmt.Sprint("order ", i)]
		switch {
		case n == 1:
			r.once++
		case n > 1:
			r.double++
		}
		switch {
		case !ok:
			r.unanswered++
		case n == 0:
			r.lost++
			fallthrough
		default:
			r.confirmed++
		}
	}
	return r
}
