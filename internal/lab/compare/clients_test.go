package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"
	"resty.dev/v3"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

var clients = table{
	name:      "clients",
	libraries: []string{ours, "go-retryablehttp", "failsafe-go", "resty"},
	rows: []row{
		{"unavailable", "a GET meets 503 three times, and then 200: requests sent",
			with(each(httpClients, getsSent), map[string]observation{
				"resty": also(getsSent, restyPlain, httpClients["resty"], "AddRetryConditions"),
			}), "TestFailsafeBodiesOfRetriedResponsesAreClosed"},
		{"bodies", "a GET meets 503 three times: bodies of retried responses that are closed",
			each(httpClients, closedBodies), "TestFailsafeBodiesOfRetriedResponsesAreClosed"},
		{"retry-after-long", "503 with Retry-After: 86400, where waits of up to 30 s are set: how long the call takes",
			said(each(httpClients, longRetryAfter), map[string]string{"go-retryablehttp": "documented", "failsafe-go": "documented"}), "TestRetryablehttp247RetryAfterIsBounded"},
		{"http-deadline", "Retry-After: 60 with 10 s left: how long the call takes",
			each(httpClients, hopelessRetryAfter), "TestRetryablehttp272NoSleepIntoADeadline"},
		{"post", "a POST meets 503: requests sent",
			said(each(httpClients, postsSent), map[string]string{"go-retryablehttp": "documented"}), "TestRetryablehttpAndFailsafePOSTIsNotRetried"},
		{"last-response", "every response is 503 with a text: what the caller gets",
			with(each(httpClients, lastResponse), map[string]observation{
				"go-retryablehttp": also(lastResponse, httpClients["go-retryablehttp"], passingThrough, "PassthroughErrorHandler"),
				"failsafe-go":      also(lastResponse, httpClients["failsafe-go"], returningLast, "ReturnLastFailure"),
			}), "TestRetryablehttp46TheLastResponseIsReturned"},
		{"another-host", "a service has the hosts a and b, and a responds with 503: the hosts that a GET asks, in turn",
			with(each(httpClients, hostsAsked), map[string]observation{
				ours:    also(hostsAsked, httpClients[ours], oursByTurns, "a RoundTripper that asks RetryNumber"),
				"resty": also(hostsAsked, httpClients["resty"], restyBalanced, "SetLoadBalancer"),
			}), "TestTheBaseLearnsTheNumberOfTheRetry"},
	},
}

// An httpClient sends a request up to 4 times over a transport, with waits of 1
// to 30 s of its own.
type httpClient func(base http.RoundTripper) func(*http.Request) (*http.Response, error)

var httpClients = map[string]httpClient{
	ours: func(base http.RoundTripper) func(*http.Request) (*http.Response, error) {
		tr := &backoffhttp.Unguarded{Base: base}
		tr.Policy.Schedule = backoff.Exponential{Initial: time.Second}
		tr.Policy.MaxRetryAfter = 30 * time.Second
		return (&http.Client{Transport: tr}).Do
	},
	"go-retryablehttp": func(base http.RoundTripper) func(*http.Request) (*http.Response, error) {
		c := newRetryable(base)
		c.Logger = nil
		return c.StandardClient().Do
	},
	"failsafe-go": func(base http.RoundTripper) func(*http.Request) (*http.Response, error) {
		return (&http.Client{Transport: failsafehttp.NewRoundTripper(base, failsafeHTTPBuilder().Build())}).Do
	},
	"resty": func(base http.RoundTripper) func(*http.Request) (*http.Response, error) {
		return restyDo(newResty(base).AddRetryConditions(restyConditions...))
	},
}

// By itself resty retries no status, but it has these conditions to choose from.
var restyConditions = []resty.RetryConditionFunc{
	resty.RetryConditionStatus5XX, resty.RetryConditionStatusTooManyRequests, resty.RetryConditionStatusZero,
}

func newResty(base http.RoundTripper) *resty.Client {
	return resty.NewWithClient(&http.Client{Transport: base}).SetLogger(silence{}).
		SetRetryCount(3).SetRetryWaitTime(time.Second).SetRetryMaxWaitTime(30 * time.Second)
}

// restyDo sends requests of net/http with a client of resty.
func restyDo(c *resty.Client) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		r := c.R().SetContext(req.Context()).SetResponseDoNotParse(true)
		r.Header = req.Header
		if req.Body != nil {
			r.SetBody(req.Body)
		}
		resp, err := r.Execute(req.Method, req.URL.String())
		if resp == nil {
			return nil, err
		}
		return resp.RawResponse, err
	}
}

// silence is a log that says nothing.
type silence struct{}

func (silence) Errorf(string, ...any) {}
func (silence) Warnf(string, ...any)  {}
func (silence) Debugf(string, ...any) {}

func newRetryable(base http.RoundTripper) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient.Transport = base
	c.RetryMax = 3
	return c
}

func failsafeHTTPBuilder() retrypolicy.Builder[*http.Response] {
	return failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(3).WithBackoff(time.Second, 30*time.Second)
}

// The same clients with a setting that a row names.

func passingThrough(base http.RoundTripper) func(*http.Request) (*http.Response, error) {
	c := newRetryable(base)
	c.Logger, c.ErrorHandler = nil, retryablehttp.PassthroughErrorHandler
	return c.StandardClient().Do
}

func returningLast(base http.RoundTripper) func(*http.Request) (*http.Response, error) {
	return (&http.Client{Transport: failsafehttp.NewRoundTripper(base, failsafeHTTPBuilder().ReturnLastFailure().Build())}).Do
}

func restyPlain(base http.RoundTripper) func(*http.Request) (*http.Response, error) {
	return restyDo(newResty(base))
}

// oursByTurns sends each retry to the next host.
func oursByTurns(base http.RoundTripper) func(*http.Request) (*http.Response, error) {
	return httpClients[ours](roundTripper(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.URL.Host = []string{"a.test", "b.test"}[backoffhttp.RetryNumber(req.Context())%2]
		return base.RoundTrip(req)
	}))
}

func restyBalanced(base http.RoundTripper) func(*http.Request) (*http.Response, error) {
	hosts, err := resty.NewRoundRobin("http://a.test", "http://b.test")
	if err != nil {
		panic(err)
	}
	do := restyDo(newResty(base).AddRetryConditions(restyConditions...).SetLoadBalancer(hosts))
	return func(req *http.Request) (*http.Response, error) {
		req.URL = &url.URL{Path: req.URL.Path} // the load balancer adds the rest
		return do(req)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A service answers in turn, the last answer again and again, and notes what
// becomes of the bodies.
type service struct {
	answers []answer
	mu      sync.Mutex
	sent    int
	closed  int
}

type answer struct {
	status int
	header http.Header
	text   string
}

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[min(s.sent, len(s.answers)-1)]
	s.sent++
	header := a.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: a.status, Status: fmt.Sprint(a.status), Header: header, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(a.text)),
		Body: &countedBody{Reader: strings.NewReader(a.text), service: s}}, nil
}

type countedBody struct {
	io.Reader
	service *service
	once    sync.Once
}

func (b *countedBody) Close() error {
	b.once.Do(func() {
		b.service.mu.Lock()
		defer b.service.mu.Unlock()
		b.service.closed++
	})
	return nil
}

func down(header ...string) *service {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &service{answers: []answer{{status: 503, header: h, text: "why"}}}
}

func request(ctx context.Context, method string, body io.Reader) *http.Request {
	req, err := http.NewRequestWithContext(ctx, method, "http://service.test/", body)
	if err != nil {
		panic(err)
	}
	return req
}

func getsSent(t *testing.T, client httpClient) string {
	s := down()
	s.answers = []answer{{status: 503}, {status: 503}, {status: 503}, {status: 200}}
	if resp, err := client(s)(request(t.Context(), "GET", nil)); err == nil {
		resp.Body.Close()
	}
	return fmt.Sprint(s.sent)
}

func closedBodies(t *testing.T, client httpClient) string {
	s := down()
	s.answers = []answer{{status: 503}, {status: 503}, {status: 503}, {status: 200}}
	resp, err := client(s)(request(t.Context(), "GET", nil))
	if err != nil || resp.StatusCode != 200 {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%d of 3", s.closed) // the last one is not closed yet
}

func longRetryAfter(t *testing.T, client httpClient) string {
	s := down("Retry-After", "86400")
	s.answers = append(s.answers, answer{status: 200})
	return timeOf(client, s, request(t.Context(), "GET", nil))
}

func hopelessRetryAfter(t *testing.T, client httpClient) string {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return timeOf(client, down("Retry-After", "60"), request(ctx, "GET", nil))
}

func timeOf(client httpClient, s *service, req *http.Request) string {
	began := time.Now()
	if resp, err := client(s)(req); err == nil {
		resp.Body.Close()
	}
	return time.Since(began).Round(time.Millisecond).String()
}

func postsSent(t *testing.T, client httpClient) string {
	s := down()
	if resp, err := client(s)(request(t.Context(), "POST", strings.NewReader("charge"))); err == nil {
		resp.Body.Close()
	}
	return fmt.Sprint(s.sent)
}

func hostsAsked(t *testing.T, client httpClient) string {
	var asked []string
	bad, good := &service{answers: []answer{{status: 503}}}, &service{answers: []answer{{status: 200}}}
	do := client(roundTripper(func(req *http.Request) (*http.Response, error) {
		host, _, _ := strings.Cut(req.URL.Host, ".")
		asked = append(asked, host)
		if host == "a" {
			return bad.RoundTrip(req)
		}
		return good.RoundTrip(req)
	}))
	req := request(t.Context(), "GET", nil)
	req.URL.Host = "a.test"
	if resp, err := do(req); err == nil {
		resp.Body.Close()
	}
	return strings.Join(asked, ", ")
}

func lastResponse(t *testing.T, client httpClient) string {
	resp, err := client(down())(request(t.Context(), "GET", nil))
	if err != nil {
		if e, ok := errors.AsType[retrypolicy.ExceededError](err); ok && e.LastResult != nil {
			return "an error that holds the response"
		}
		return "an error without it"
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return fmt.Sprintf("the response, %d, %q", resp.StatusCode, text)
}
