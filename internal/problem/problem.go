// Package problem writes the answers that refuse a request (RFC 9457).
package problem

import (
	"encoding/json"
	"net/http"
)

// Details is the body of an answer of the type application/problem+json.
type Details struct {
	Type   string `json:"type,omitempty"` // the address of a page about the problem
	Title  string `json:"title"`
	Status int    `json:"status"`
}

// Write answers a request with d, under the status of d.
func Write(w http.ResponseWriter, d Details) {
	text, _ := json.Marshal(d) // two strings and a number: it cannot fail
	header := w.Header()
	header.Del("Content-Length")
	header.Set("Content-Type", "application/problem+json")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(d.Status)
	w.Write(append(text, '\n'))
}
