package faultproxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/faultproxy"
)

// counter is a server that counts the requests it has carried out.
type counter struct {
	*httptest.Server
	requests atomic.Int64
}

func newCounter() *counter {
	c := new(counter)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		io.WriteString(w, strings.Repeat("x", 1000))
	}))
	return c
}

func (c *counter) addr() string { return c.Listener.Addr().String() }

// post sends a request on a connection of its own and reads the whole answer.
func post(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader("order 7"))
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// A lost answer and a lost request look the same to the client. The server has
// carried out one of them.
func ExampleStart() {
	server := newCounter()
	defer server.Close()
	proxy, err := faultproxy.Start(server.addr(), faultproxy.Script(faultproxy.DropAnswer(), faultproxy.Reset()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	policy := backoff.Policy{Schedule: backoff.Constant(time.Millisecond)}
	attempts := 0
	err = policy.Do(context.Background(), func(ctx context.Context) error {
		attempts++
		return post(ctx, proxy.URL())
	})
	fmt.Println(err, "after", attempts, "attempts; the server carried out", server.requests.Load())
	// Output: <nil> after 3 attempts; the server carried out 2
}

// Under TLS the proxy cannot tell requests from answers, and so each connection
// is an exchange.
func ExampleConfig() {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	proxy, err := faultproxy.Config{
		Target:        server.Listener.Addr().String(),
		Plan:          faultproxy.Script(faultproxy.Reset()),
		PerConnection: true,
	}.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	for range 2 {
		resp, err := server.Client().Get("https://" + proxy.Addr())
		if err != nil {
			fmt.Println("reset")
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// reset
	// 404 Not Found
}

// The client notices an answer that ends too soon, since it was told the
// length.
func ExampleTruncate() {
	server := newCounter()
	defer server.Close()
	proxy, err := faultproxy.Start(server.addr(), faultproxy.Always(faultproxy.Truncate(500)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	err = post(context.Background(), proxy.URL())
	fmt.Println(errors.Is(err, io.ErrUnexpectedEOF))
	// Output: true
}

// The same seed gives the same faults, in the same order.
func ExampleRandomly() {
	plan := faultproxy.Randomly(1,
		faultproxy.Share{Fault: faultproxy.DropAnswer(), Probability: 0.3},
		faultproxy.Share{Fault: faultproxy.Stall(100, time.Second), Probability: 0.2})
	for n := 1; n <= 6; n++ {
		fmt.Println(n, plan(n))
	}
	// Output:
	// 1 stall
	// 2 pass
	// 3 pass
	// 4 pass
	// 5 drop answer
	// 6 drop answer
}

// A fifth of the exchanges loses its answer, until the plan is removed.
func ExampleShare() {
	server := newCounter()
	defer server.Close()
	proxy, err := faultproxy.Start(server.addr(), faultproxy.Randomly(1,
		faultproxy.Share{Fault: faultproxy.DropAnswer(), Probability: 0.2}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	failed := 0
	for range 50 {
		if post(context.Background(), proxy.URL()) != nil {
			failed++
		}
	}
	proxy.SetPlan(nil)
	fmt.Println(failed, "of 50 failed; then:", post(context.Background(), proxy.URL()))
	// Output: 9 of 50 failed; then: <nil>
}

func ExampleStats() {
	server := newCounter()
	defer server.Close()
	proxy, err := faultproxy.Start(server.addr(), faultproxy.Script(faultproxy.Reset()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	for range 3 {
		_ = post(context.Background(), proxy.URL())
	}
	fmt.Printf("%+v\n", proxy.Stats())
	// Output: {Connections:3 Exchanges:3 Faults:1}
}

// While a server restarts, the system refuses its connections.
func ExampleProxy_Refuse() {
	server := newCounter()
	defer server.Close()
	proxy, err := faultproxy.Start(server.addr(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	proxy.Refuse()
	refused := post(context.Background(), proxy.URL())
	fmt.Println(refused != nil)
	if err := proxy.Restore(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(post(context.Background(), proxy.URL()))
	// Output:
	// true
	// <nil>
}
