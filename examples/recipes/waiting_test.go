package recipes

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// The server starts two seconds after the call has begun. Four attempts alone
// are used up before that.
func Example_waiting() {
	ctx := context.Background()
	server := faulty.Start(faulty.Status(http.StatusNotFound))
	defer server.Close()
	server.Stop() // connections are refused from here on
	time.AfterFunc(2*time.Second, func() { _ = server.Restart() })
	url := server.URL

	client := backoffhttp.Client(backoff.Policy{Name: "import"})
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // or a call waits for 5 s at most
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)

	resp := must(client.Do(must(req, err)))
	resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 404 Not Found
}
