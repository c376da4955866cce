package recipes

import (
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// The server is unavailable for two requests, and the third one succeeds. Then
// it is down, and the breaker opens.
func Example_get() {
	server, err := faulty.Start(faulty.Status(503), faulty.Status(503), faulty.Text("3.14"), faulty.Status(503))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	client := backoffhttp.Client(backoff.Policy{Name: "prices"}) // once, not for each call

	get := func(url string) error {
		resp, err := client.Get(url)
		if err != nil {
			return err // no response; errors.Is(err, backoff.ErrOpen) if the breaker refused
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp) // an error for a response such as the last 503
	}

	fmt.Println(get(server.URL), "after", server.Requests(), "requests")

	for began := time.Now(); time.Since(began) < 10*time.Second && !errors.Is(err, backoff.ErrOpen); {
		err = get(server.URL)
	}
	fmt.Println("open:", errors.Is(err, backoff.ErrOpen))
	// Output:
	// <nil> after 3 requests
	// open: true
}
