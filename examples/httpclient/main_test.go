package main

import (
	"bytes"
	"testing"
)

const want = `GET, a server that recovers:
  attempt 1: status 503 Service Unavailable
  attempt 2: status 429 Too Many Requests
  200 OK "3.14", requests 3
GET, a server that does not:
  attempt 1: status 503 Service Unavailable
  attempt 2: status 503 Service Unavailable
  attempt 3: status 503 Service Unavailable
  503 Service Unavailable "", requests 4, because of attempts
POST:
  503 Service Unavailable "", requests 1, because of not idempotent
POST, under a key:
  attempt 1: status 503 Service Unavailable
  200 OK "charged once", requests 2
GET, a server that is closed for the day:
  503 Service Unavailable "", requests 1, because of retry after
`

func TestTheClientRetriesWhatIsWorthIt(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
