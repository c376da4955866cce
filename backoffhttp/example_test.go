package backoffhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// flaky is a server that is unavailable for its first n requests, and prints
// them all.
func flaky(n int) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println(strings.TrimSpace("server: " + r.Method + " " + string(body)))
		if n--; n >= 0 {
			w.Header().Set("X-Request-Id", fmt.Sprint("r", n))
			http.Error(w, "come back later", http.StatusServiceUnavailable)
		}
	}))
}

// show prints how a request ended.
func show(resp *http.Response, err error) {
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
}

// quick is the zero policy with shorter waits, for examples.
var quick = backoff.Policy{Schedule: backoff.Constant(time.Millisecond)}

func ExampleClient() {
	server := flaky(2)
	defer server.Close()

	client := backoffhttp.Client(quick)
	show(client.Get(server.URL))
	// Output:
	// server: GET
	// server: GET
	// server: GET
	// 200 OK
}

// It has no guards, and every call has all its attempts.
func ExampleUnguarded() {
	server := flaky(1)
	defer server.Close()

	client := &http.Client{Transport: &backoffhttp.Unguarded{Policy: quick}}
	show(client.Get(server.URL))
	// Output:
	// server: GET
	// server: GET
	// 200 OK
}

// A POST is sent once, unless it is stated that it may be sent twice.
func ExampleTransport() {
	server := flaky(1)
	defer server.Close()

	client := &http.Client{Transport: &backoffhttp.Transport{Policy: quick}}
	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("charge 10 EUR"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	var gave *backoff.Error
	if errors.As(backoffhttp.Check(resp), &gave) {
		fmt.Println("attempts:", gave.Attempts, "reason:", gave.Reason)
	}
	// Output:
	// server: POST charge 10 EUR
	// 503 Service Unavailable
	// attempts: 1 reason: not idempotent
}

// Attempts are limited to their answer's header; a body may take its time.
func ExampleTransport_attemptTimeout() {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			<-r.Context().Done() // hangs
			return
		}
		http.NewResponseController(w).Flush()
		time.Sleep(200 * time.Millisecond)
		io.WriteString(w, "at last")
	}))
	defer server.Close()

	policy := quick
	policy.AttemptTimeout = 100 * time.Millisecond
	resp, err := backoffhttp.Client(policy).Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)
	// Output: at last <nil>
}

// For SDKs that take a middleware instead of a client.
func ExampleTransport_Middleware() {
	server := flaky(1)
	defer server.Close()

	t := &backoffhttp.Transport{Policy: quick}
	// option.WithMiddleware(t.Middleware), and within the SDK:
	req, _ := http.NewRequest(http.MethodGet, server.URL, nil)
	show(t.Middleware(req, http.DefaultClient.Do))
	// Output:
	// server: GET
	// server: GET
	// 200 OK
}

// nonces proves each attempt with the nonce of the server's last answer, as of RFC 9449, 8,
// or RFC 7616. As Base it sees every answer, also those that are retried.
type nonces struct {
	http.RoundTripper
	last atomic.Value // a string
}

func (n *nonces) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("DPoP", fmt.Sprint("proof with ", n.last.Load()))
	resp, err := n.RoundTripper.RoundTrip(req)
	if err == nil && resp.Header.Get("DPoP-Nonce") != "" {
		n.last.Store(resp.Header.Get("DPoP-Nonce"))
	}
	return resp, err
}

// withoutNonce finds out that a server refused a request because of its nonce. It has not
// carried it out, so that a POST may be sent again, too.
func withoutNonce(err error) backoff.Class {
	var status *backoffhttp.StatusError
	if errors.As(err, &status) && status.Code == http.StatusUnauthorized && status.Header.Get("DPoP-Nonce") != "" {
		return backoff.ClassNotSent
	}
	return backoff.ClassUnknown // as usual
}

// The answer to the first attempt has the nonce for the second one.
func ExampleTransport_nonce() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("server: " + r.Method + ", " + r.Header.Get("DPoP"))
		w.Header().Set("DPoP-Nonce", "n1")
		if r.Header.Get("DPoP") != "proof with n1" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()

	policy := quick
	policy.Classify = withoutNonce
	client := &http.Client{Transport: &backoffhttp.Transport{
		Base:   &nonces{RoundTripper: http.DefaultTransport},
		Policy: policy,
	}}
	show(client.Post(server.URL, "text/plain", strings.NewReader("payment")))
	show(client.Post(server.URL, "text/plain", strings.NewReader("payment")))
	// Output:
	// server: POST, proof with <nil>
	// server: POST, proof with n1
	// 200 OK
	// server: POST, proof with n1
	// 200 OK
}

// The Timeout of the client becomes that of an attempt: the first one takes too
// long, and the second one succeeds. Cookies are kept.
func ExampleWrapClient() {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("server: cookies", r.Cookies())
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "a"})
		if requests.Add(1) == 1 {
			<-r.Context().Done()
		}
	}))
	defer server.Close()

	jar, _ := cookiejar.New(nil)
	existing := &http.Client{Timeout: 100 * time.Millisecond, Jar: jar}
	client := backoffhttp.WrapClient(existing, quick)
	for range 2 {
		show(client.Get(server.URL))
	}
	// Output:
	// server: cookies []
	// server: cookies []
	// 200 OK
	// server: cookies [session=a]
	// 200 OK
}

// This POST is a search, and may be sent again.
func ExampleWithRetry() {
	server := flaky(1)
	defer server.Close()
	client := backoffhttp.Client(quick)

	ctx := backoffhttp.WithRetry(context.Background(), func(p *backoff.Policy) {
		p.Idempotency = backoff.Idempotent
	})
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("query"))
	show(client.Do(req))
	// Output:
	// server: POST query
	// server: POST query
	// 200 OK
}

// Any client, without a Transport, inside a policy.
func ExampleCheck() {
	server := flaky(1)
	defer server.Close()

	policy := quick
	policy.Classify = backoffhttp.Classify
	err := policy.Do(context.Background(), func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return backoff.Permanent(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp)
	})
	fmt.Println(err)
	// Output:
	// server: GET
	// server: GET
	// <nil>
}

// To a sender of webhooks everything but 2xx is a failure, a redirect too.
func ExampleCheck_success() {
	resp := &http.Response{StatusCode: 302, Status: "302 Found"}
	fmt.Println(backoffhttp.Check(resp))
	fmt.Println(backoffhttp.Check(resp, backoffhttp.Status2xx))
	fmt.Println(backoffhttp.Check(resp, http.StatusOK, http.StatusFound))
	// Output:
	// <nil>
	// status 302 Found
	// <nil>
}

// An observer finds request IDs in the header of a failed answer.
func ExampleStatusError() {
	server := flaky(1)
	defer server.Close()

	policy := quick
	policy.Observer = func(_ context.Context, e backoff.Event) {
		var status *backoffhttp.StatusError
		if errors.As(e.Err, &status) {
			fmt.Println(e.Kind, status.Code, status.Header.Get("X-Request-Id"))
		}
	}
	show(backoffhttp.Client(policy).Get(server.URL))
	// Output:
	// server: GET
	// retry 503 r0
	// server: GET
	// 200 OK
}

func ExampleClassify() {
	for _, err := range []error{io.ErrUnexpectedEOF, &backoffhttp.StatusError{Code: 429}, errors.New("never heard of it")} {
		fmt.Printf("%v: %v\n", err, backoffhttp.Classify(err))
	}
	// Output:
	// unexpected EOF: retryable
	// status 429 Too Many Requests: throttled
	// never heard of it: permanent
}

func ExampleRetryAfter() {
	resp := &http.Response{Header: http.Header{"Retry-After": {"120"}, "Retry-After-Ms": {"1500"}}}
	fmt.Println(backoffhttp.RetryAfter(resp))
	// Output: 2m0s true
}

func ExampleIdempotency() {
	req, _ := http.NewRequest(http.MethodPatch, "https://example.com/users/7", nil)
	fmt.Println(backoffhttp.Idempotency(req))
	req.Header.Set("If-Match", `"v1"`)
	fmt.Println(backoffhttp.Idempotency(req))
	// Output:
	// NonIdempotent
	// Idempotent
}

// The operations of services whose methods do not tell. With Connect, as with
// Twirp, every call is a POST.
func ExampleOperations() {
	table, err := backoffhttp.NewOperations(map[string]string{
		"POST /search":      "always",
		"POST /charges":     "key",
		"PUT /users/{id}":   "If-Match, ?version",
		"DELETE /acl/{who}": "never",

		"POST /shop.v1.Shop/":         "after429",
		"POST /shop.v1.Shop/GetPrice": "always", // idempotency_level = NO_SIDE_EFFECTS
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, line := range []string{"POST /search", "POST /charges", "DELETE /acl/all", "POST /shop.v1.Shop/GetPrice", "POST /shop.v1.Shop/Order"} {
		method, path, _ := strings.Cut(line, " ")
		req, _ := http.NewRequest(method, "https://example.com"+path, nil)
		fmt.Printf("%s: %v\n", line, table.Idempotency(req))
	}
	// Output:
	// POST /search: Idempotent
	// POST /charges: Keyed
	// DELETE /acl/all: NonIdempotent
	// POST /shop.v1.Shop/GetPrice: Idempotent
	// POST /shop.v1.Shop/Order: RepeatAfter429
}

// GitHub says by a date when its limit is over, and answers 403.
func ExampleRateLimit() {
	t := &backoffhttp.Transport{RateLimits: backoffhttp.GitHubLimits}
	fmt.Println(t.RateLimits[0].Remaining, t.RateLimits[0].Reset)
	// Output: X-Ratelimit-Remaining X-Ratelimit-Reset
}

func ExampleStatusClass() {
	fmt.Println(backoffhttp.StatusClass(503), backoffhttp.StatusClass(429), backoffhttp.StatusClass(404))
	// Output: retryable throttled permanent
}

func ExampleParseRetryAfter() {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	fmt.Println(backoffhttp.ParseRetryAfter("120", now))
	fmt.Println(backoffhttp.ParseRetryAfter("Sun, 01 Mar 2026 12:00:30 GMT", now))
	fmt.Println(backoffhttp.ParseRetryAfter("soon", now))
	// Output:
	// 2m0s true
	// 30s true
	// 0s false
}

// Some servers want the key in double quotes.
func ExampleKeyForm() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Idempotency-Key"))
	}))
	defer server.Close()

	client := &http.Client{Transport: &backoffhttp.Transport{
		Policy:  backoff.Policy{Idempotency: backoff.Keyed}, // each POST is sent under the key of its context
		KeyForm: backoffhttp.KeyQuoted,
	}}
	ctx := backoff.WithIdempotencyKey(context.Background(), "charge-7")
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody)
	show(client.Do(req))
	// Output:
	// "charge-7"
	// 200 OK
}

func ExampleResetForm() {
	limit := backoffhttp.RateLimit{Remaining: "X-Left", Reset: "X-Again-In", Form: backoffhttp.ResetDuration}
	resp := &http.Response{Header: http.Header{"X-Left": {"0"}, "X-Again-In": {"1m30s"}}}
	fmt.Println(limit.Wait(resp))
	// Output: 1m30s true
}

// An overloaded server tells all kinds of clients.
func ExampleDoNotRetry() {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		backoffhttp.DoNotRetry(w)
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
	})
	header := request{}.to(h).Header()
	fmt.Println(header.Get("X-Should-Retry"), header.Get("Grpc-Retry-Pushback-Ms"), header.Get("X-Envoy-Overloaded"))
	// Output: false -1 true
}

// A service that retried without success tells its caller not to retry.
func ExampleWriteError() {
	policy := backoff.Policy{Name: "stock", Schedule: backoff.Constant(time.Millisecond)}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := policy.Do(r.Context(), func(context.Context) error { return io.ErrUnexpectedEOF })
		backoffhttp.WriteError(w, r, err)
	})
	w := request{}.to(h)
	fmt.Println(w.Code, w.Header().Get("X-Should-Retry"))
	// Output: 503 false
}

func ExampleInbound() {
	h := backoffhttp.Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up, _ := backoffhttp.UpstreamFrom(r.Context())
		_, limited := r.Context().Deadline()
		fmt.Println("attempt", up.Attempt, limited)
	}))
	request{header: http.Header{"Backoff-Attempt": {"2"}, "Backoff-Deadline-Ms": {"1500"}}}.to(h)
	// Output: attempt 2 true
}

// The inner loop makes one attempt if the outer loop is retrying.
func ExampleYieldToCaller() {
	policy := backoff.Policy{
		Schedule:    backoff.Constant(time.Millisecond),
		Idempotency: backoffhttp.YieldToCaller(backoff.Idempotent),
	}
	h := backoffhttp.Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attempts := 0
		policy.Do(r.Context(), func(context.Context) error {
			attempts++
			return io.ErrUnexpectedEOF
		})
		fmt.Println(attempts)
	}))
	for _, attempt := range []string{"1", "2"} {
		request{header: http.Header{"Backoff-Attempt": {attempt}}}.to(h)
	}
	// Output:
	// 4
	// 1
}

func ExampleUpstream() {
	h := backoffhttp.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if up, ok := backoffhttp.UpstreamFrom(r.Context()); ok && up.Attempt > 1 {
			fmt.Println("serve from the cache")
		}
	}))
	request{header: http.Header{"X-Envoy-Attempt-Count": {"2"}}}.to(h)
	// Output: serve from the cache
}
