package fault_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest/fault"
)

// The call is made again until its third attempt passes. In a test, it is
// sent.Check(t, 3) that looks at the attempts.
func ExampleInjector() {
	sent := &fault.Injector{Plan: fault.Script(fault.Lost(), fault.Status(503))}
	save := sent.Op(func(context.Context) error { return nil })

	err := backoff.Policy{Schedule: backoff.Constant(0)}.Do(context.Background(), save)

	fmt.Println(err)
	for _, a := range sent.Attempts() {
		fmt.Println(a.Number, a.Fault, a.Err)
	}
	// Output:
	// <nil>
	// 1 Lost read tcp: connection reset by peer
	// 2 Status(503) status 503 Service Unavailable
	// 3 OK <nil>
}

// Two faults with the same settings are equal.
func ExampleFault() {
	f := fault.Status(429).RetryAfter(1500 * time.Millisecond)
	fmt.Println(f, f == fault.Status(429).RetryAfter(2*time.Second))
	// Output: Status(429).RetryAfter(2s) true
}

// A plan is a function, so that a rule is plain Go.
func ExamplePlan() {
	sent := &fault.Injector{Plan: func(a fault.Attempt) fault.Fault {
		if a.Method == http.MethodPost && a.Number == 1 {
			return fault.Reset()
		}
		return fault.OK()
	}}
	client := http.Client{Transport: sent.Handler(http.NotFoundHandler())}
	_, err := client.Post("http://shop/orders", "text/plain", strings.NewReader("two pears"))
	resp, _ := client.Get("http://shop/orders")
	fmt.Println(err != nil, resp.StatusCode)
	// Output: true 404
}

func ExampleAttempt() {
	sent := new(fault.Injector)
	client := http.Client{Transport: sent.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))}
	_, _ = client.Post("http://shop/orders", "text/plain", strings.NewReader("two pears"))
	a := sent.Attempts()[0]
	fmt.Println(a.Method, a.Path, a.Length, a.Whole, a.Status, "open:", a.Open)
	// Output: POST /orders 9 true 200 open: true
}

// The proxy stands between a real client and a real server.
func ExampleProxy() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	sent := &fault.Injector{Plan: fault.Script(fault.Lost())}
	proxy, err := sent.Proxy(server.Listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 2 {
		resp, err := client.Post(proxy.URL(), "text/plain", strings.NewReader("two pears"))
		if err != nil {
			fmt.Println("no response")
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// no response
	// 404
}
