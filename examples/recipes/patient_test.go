package recipes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

// The server starts two seconds after the call has begun. Four attempts alone
// are used up before that.
func Example_patient() {
	ctx := context.Background()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	address := free.Addr().String()
	free.Close() // connections are refused from here on
	url := "http://" + address
	var server http.Server
	defer server.Close()
	time.AfterFunc(2*time.Second, func() {
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = server.Serve(listener) // it answers with 404
		}
	})

	client := &http.Client{Transport: &backoffhttp.Transport{
		Policy: backoff.Policy{Name: "import"},
		Services: &guard.Services{New: func(host string) *guard.Service {
			return &guard.Service{Name: host, Patient: true} // one line of waiting calls for each host
		}},
	}}
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // or a call may wait for good
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)

	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 404 Not Found
}
