package recipes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

type price struct{ Amount float64 }

var prices = &http.Client{Transport: &backoffhttp.Transport{ // once, not for each call
	Policy:    backoff.Policy{Name: "prices", AttemptTimeout: 500 * time.Millisecond},
	ReadAhead: 1 << 20, // the timeout covers this much of the body
}}

func getPrice(ctx context.Context, url string) (p price, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // of all attempts
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return p, err
	}
	resp, err := prices.Do(req)
	if err != nil {
		return p, err
	}
	defer resp.Body.Close()
	if err := backoffhttp.Check(resp); err != nil {
		return p, err
	}
	err = json.NewDecoder(resp.Body).Decode(&p)
	return p, err
}

// The first answer stalls in its body, the second one breaks off, and the third
// one is whole.
func Example_getJSON() {
	const answer = `{"Amount": 3.14}`
	server := faulty.Start(stall(answer), breakOff(answer), faulty.Text(answer))
	defer server.Close()

	p, err := getPrice(context.Background(), server.URL)

	fmt.Println(p.Amount, err, "after", server.Requests(), "requests")
	// Output: 3.14 <nil> after 3 requests
}

// stall sends half of a body, and nothing more until the client ends the request.
func stall(body string) faulty.Step {
	return func(_ *faulty.Server, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, body[:len(body)/2])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// breakOff sends half of a body, and closes the connection.
func breakOff(body string) faulty.Step {
	return func(_ *faulty.Server, w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, body[:len(body)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}
