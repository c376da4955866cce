package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// What the tests of go-retryablehttp promise.
var retryableHTTPPromises = slices.Concat(retryableBodies, retryableRules, retryableHooks, retryableErrors, retryableWaits, retryableClients)

var retryableBodies = []promise{
	{test: "client_test.go TestRequest", name: "the length of a body is known to the server", holds: eachAttemptIsWhole(buffered, 0)},
	{test: "client_test.go TestFromRequest", name: "a request of net/http goes out as it is, with each attempt", holds: eachAttemptIsWhole(inMemory, 0)},
	{test: "client_test.go TestFromRequest", name: "a request without a body has none with any attempt", holds: noAttemptHasABody},
	{test: "client_test.go TestClient_Do", name: "a text is sent again after refused connections and errors of the server", holds: eachAttemptIsWhole(aText, 0)},
	{test: "client_test.go TestClient_Do", name: "so is a body that GetBody makes", holds: aBodyOfGetBodyIsSentAgain},
	{test: "client_test.go TestClient_Do", name: "so is a body that can be read only once, with `MaxBuffer`", holds: eachAttemptIsWhole(aStream, 100)},
	{test: "client_test.go TestClient_Do", name: "a body that can be read only once is sent once, unless `MaxBuffer` is set", holds: aStreamIsSentOnce,
		theirs: "a body that is an io.Reader is sent again", why: "it would have to be read into memory, however long it is"},
	{test: "client_test.go TestClient_RedirectWithBody", name: "a redirect that keeps the method keeps the body", holds: redirected("order")},
	{test: "client_test.go TestClient_RedirectWithBody", name: "a redirect works without a body", holds: redirected("")},
}

func buffered() io.Reader { return bytes.NewBufferString("a body") }
func inMemory() io.Reader { return bytes.NewReader([]byte("a body")) }
func aText() io.Reader    { return strings.NewReader("a body") }
func aStream() io.Reader  { return io.LimitReader(strings.NewReader("a body and more"), 6) }

// eachAttemptIsWhole sends a body to a site that is not there yet, and then not well yet.
func eachAttemptIsWhole(body func() io.Reader, buffer int64) func(*testing.T) {
	return func(t *testing.T) {
		s := serve(t, says(500, "no"), says(502, "no"), says(200, "yes"))
		s.refusing.Store(true)
		time.AfterFunc(1500*time.Millisecond, func() { s.refusing.Store(false) })
		client := s.client(func(tr *backoffhttp.Transport) { tr.MaxBuffer, tr.Policy.MaxAttempts = buffer, 9 })
		req := request(t.Context(), "PUT", body())
		req.Header.Set("X-Trace", "a1")
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.Equal(t, "yes", textOf(t, resp))
		require.Len(t, s.requests(), 3)
		for _, got := range s.requests() {
			require.Equal(t, "PUT / a body 6 a1", fmt.Sprint(got.method, " ", got.uri, " ", got.body, " ", got.length, " ", got.header.Get("X-Trace")))
		}
	}
}

func noAttemptHasABody(t *testing.T) {
	s := serve(t, says(503, ""), says(200, ""))
	_, err := s.client().Do(request(t.Context(), "PUT", nil))
	require.NoError(t, err)
	require.Len(t, s.requests(), 2)
	for _, got := range s.requests() {
		require.Zero(t, got.length)
	}
}

func aBodyOfGetBodyIsSentAgain(t *testing.T) {
	s := serve(t, says(503, ""), says(200, ""))
	made := 0
	req := request(t.Context(), "PUT", aStream())
	req.GetBody = func() (io.ReadCloser, error) {
		made++
		return io.NopCloser(aStream()), nil
	}
	_, err := s.client().Do(req)
	require.NoError(t, err)
	require.Equal(t, "a body", s.requests()[1].body)
	require.Equal(t, 1, made)
}

func aStreamIsSentOnce(t *testing.T) {
	s := serve(t, says(503, "no"))
	resp, err := s.client().Do(request(t.Context(), "PUT", aStream()))
	require.NoError(t, err)
	require.ErrorContains(t, backoffhttp.Check(resp), "Transport.MaxBuffer")
	require.Equal(t, "no", textOf(t, resp))
	require.Len(t, s.requests(), 1)
}

func redirected(body string) func(*testing.T) {
	return func(t *testing.T) {
		s := serve(t, says(307, "", "Location", "/new"), says(503, ""), says(201, ""))
		req := request(t.Context(), "POST", strings.NewReader(body))
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := s.client().Do(req)
		require.NoError(t, err)
		require.Equal(t, 201, resp.StatusCode)
		require.Len(t, s.requests(), 3)
		for i, uri := range []string{"/", "/new", "/new"} {
			require.Equal(t, uri+" "+body, s.requests()[i].uri+" "+s.requests()[i].body)
		}
	}
}

// A rule of the caller's own says what is a failure, and what is retried.
var retryableRules = []promise{
	{test: "client_test.go TestClient_Do_WithResponseHandler", name: "without an Inspect a 200 is a success", holds: inspected(nil, 1, "")},
	{test: "client_test.go TestClient_Do_WithResponseHandler", name: "what Inspect accepts is a success", holds: inspected([]error{nil}, 1, "")},
	{test: "client_test.go TestClient_Do_WithResponseHandler", name: "what Inspect refuses is sent again, and refused a last time it is given up",
		holds: inspected([]error{errSlowQuery}, 4, "4 attempts")},
	{test: "client_test.go TestClient_Do_WithResponseHandler", name: "an error of Inspect that is final ends the call at once",
		holds: inspected([]error{backoff.Permanent(errSlowQuery)}, 1, errSlowQuery.Error())},
	{test: "client_test.go TestClient_Do_WithResponseHandler", name: "an error of Inspect that nobody knows ends the call, and `Check` returns it", holds: inspected([]error{io.ErrUnexpectedEOF, errDown}, 2, errDown.Error())},
	{test: "client_test.go TestClient_Do_WithResponseHandler", name: "what Inspect refuses once is a success the second time", holds: inspected([]error{errSlowQuery, nil}, 2, "")},
	{test: "client_test.go TestClient_Do_WithResponseHandler", name: "the client returns the response that Inspect refused, and `Check` the error", holds: inspectedResponse,
		theirs: "the client returns the error of the handler", why: "the response may say why; each status that is a failure is returned like this"},
	{test: "client_test.go TestClient_CheckRetry", name: "an error of Inspect that is final ends the call at the attempt that has it", holds: ownErrorOfARule},
	{test: "client_test.go TestClient_CheckRetryStop", name: "a rule that refuses every retry leaves the first response, without an error", holds: noRetryByRule},
	{test: "roundtripper_test.go TestRoundTripper_RoundTrip", name: "a rule may retry a status that is final otherwise", holds: a404IsRetried},
}

var errSlowQuery = backoff.OfClass(errors.New("the answer is not complete"), backoff.ClassRetryable)

func inspected(verdicts []error, attempts int, text string) func(*testing.T) {
	return func(t *testing.T) {
		s, asked := serve(t, says(200, "rows")), 0
		client := s.client(func(tr *backoffhttp.Transport) {
			if verdicts != nil {
				tr.Inspect = func(*http.Response) error {
					asked++
					return verdicts[min(asked, len(verdicts))-1]
				}
			}
		})
		resp, err := client.Do(request(t.Context(), "GET", nil))
		require.NoError(t, err)
		require.Len(t, s.requests(), attempts)
		if text != "" {
			require.ErrorContains(t, backoffhttp.Check(resp), text)
		} else if verdicts == nil || verdicts[len(verdicts)-1] == nil {
			require.NoError(t, backoffhttp.Check(resp))
		}
		require.Equal(t, "rows", textOf(t, resp))
	}
}

func inspectedResponse(t *testing.T) {
	s := serve(t, says(200, "half of it"))
	client := s.client(func(tr *backoffhttp.Transport) { tr.Inspect = func(*http.Response) error { return errSlowQuery } })
	resp, err := client.Do(request(t.Context(), "GET", nil))
	require.NoError(t, err)
	require.ErrorIs(t, backoffhttp.Check(resp), errSlowQuery)
	require.Equal(t, "half of it", textOf(t, resp))
}

func ownErrorOfARule(t *testing.T) {
	s, own, asked := serve(t, says(500, "why")), errors.New("enough"), 0
	client := s.client(func(tr *backoffhttp.Transport) {
		tr.Inspect = func(resp *http.Response) error {
			if asked++; asked == 2 {
				return backoff.Permanent(own)
			}
			return backoffhttp.Check(resp)
		}
	})
	resp, err := client.Do(request(t.Context(), "GET", nil))
	require.NoError(t, err)
	require.Equal(t, "why", textOf(t, resp))
	require.Len(t, s.requests(), 2)
}

func noRetryByRule(t *testing.T) {
	s := serve(t, says(500, "why"))
	client := s.client(func(tr *backoffhttp.Transport) {
		tr.Policy.Classify = func(error) backoff.Class { return backoff.ClassPermanent }
	})
	resp, err := client.Do(request(t.Context(), "GET", nil))
	require.NoError(t, err)
	require.Equal(t, "why", textOf(t, resp))
	require.Len(t, s.requests(), 1)
}

func a404IsRetried(t *testing.T) {
	s := serve(t, says(404, "not yet"), says(404, "not yet"), says(200, "here"))
	client := s.client(func(tr *backoffhttp.Transport) {
		tr.Policy.Classify = func(err error) backoff.Class {
			if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok && status.Code == 404 {
				return backoff.ClassRetryable
			}
			return backoff.ClassPermanent
		}
	})
	resp, err := client.Do(request(t.Context(), "GET", nil))
	require.NoError(t, err)
	require.Equal(t, "here", textOf(t, resp))
	require.Len(t, s.requests(), 3)
}

// What a program does before and after each attempt.
var retryableHooks = []promise{
	{test: "client_test.go TestClient_Do_WithPrepareRetry", name: "a request may be changed before each retry, and is not before the first attempt", holds: preparedRetries(says(503, ""), says(503, ""), says(200, ""))},
	{test: "client_test.go TestClient_Do_WithPrepareRetry", name: "without a retry nothing is changed", holds: preparedRetries(says(200, ""))},
	{test: "client_test.go TestClient_Do_WithPrepareRetry", name: "a failure that is final leads to no change", holds: preparedRetries(says(404, ""))},
	{test: "client_test.go TestClient_Do_WithPrepareRetry", name: "the caller's request stays as it was", holds: preparedRetries(says(503, ""), says(200, "")),
		theirs: "the caller finds the change in the request", why: "a RoundTripper must not change it (net/http), and the caller may send it again"},
	{test: "client_test.go TestClient_RequestLogHook", name: "a RoundTripper below sees each attempt with its number, from 0", holds: numberedAttempts},
	{test: "client_test.go TestClient_ResponseLogHook", name: "a hook reads the body of each failed response, and the caller that of the last", holds: loggedBodies},
	{test: "client_test.go TestClient_NewRequestWithContext", name: "each attempt has what the request's context carries", holds: contextReachesEachAttempt},
}

func preparedRetries(answers ...http.HandlerFunc) func(*testing.T) {
	return func(t *testing.T) {
		s := serve(t, answers...)
		client := s.client(func(tr *backoffhttp.Transport) {
			tr.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				if n := backoffhttp.RetryNumber(req.Context()); n > 0 {
					req = req.Clone(req.Context())
					req.Header.Set("X-Signature", fmt.Sprint("signed again ", n))
				}
				return s.wire.RoundTrip(req)
			})
		})
		req := request(t.Context(), "GET", nil)
		_, err := client.Do(req)
		require.NoError(t, err)
		require.Len(t, s.requests(), len(answers))
		require.Empty(t, s.requests()[0].header.Get("X-Signature"))
		for i, got := range s.requests()[1:] {
			require.Equal(t, fmt.Sprint("signed again ", i+1), got.header.Get("X-Signature"))
		}
		require.Empty(t, req.Header)
	}
}

func numberedAttempts(t *testing.T) {
	s := serve(t, says(503, ""), says(503, ""), says(200, ""))
	var numbers []int
	client := s.client(func(tr *backoffhttp.Transport) {
		tr.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			numbers = append(numbers, backoffhttp.RetryNumber(req.Context()))
			dump, err := httputil.DumpRequestOut(req, true)
			require.NoError(t, err)
			require.Contains(t, string(dump), "PUT / HTTP/1.1")
			require.Contains(t, string(dump), "a body")
			return s.wire.RoundTrip(req)
		})
	})
	_, err := client.Do(request(t.Context(), "PUT", aText()))
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2}, numbers)
	require.Equal(t, "a body", s.requests()[2].body)
}

func loggedBodies(t *testing.T) {
	s := serve(t, says(500, "first"), says(500, "second"), says(200, "rows"))
	var seen []string
	client := s.client(func(tr *backoffhttp.Transport) {
		tr.Inspect = func(resp *http.Response) error {
			if resp.StatusCode == 500 {
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				seen = append(seen, string(text))
			}
			return backoffhttp.Check(resp)
		}
	})
	resp, err := client.Do(request(t.Context(), "GET", nil))
	require.NoError(t, err)
	require.Equal(t, "rows", textOf(t, resp))
	require.Equal(t, []string{"first", "second"}, seen)
}

func contextReachesEachAttempt(t *testing.T) {
	s := serve(t, says(503, ""), says(200, ""))
	connections := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connections++ }})
	_, err := s.client().Do(request(ctx, "GET", nil))
	require.NoError(t, err)
	require.Equal(t, 2, connections)
}

var retryableErrors = []promise{
	{test: "client_test.go TestClient_Do_fails", name: "the error says how many attempts were made", holds: failedWith("4 attempts")},
	{test: "client_test.go TestClient_Do_fails", name: "and which status came last", holds: failedWith("500 Internal Server Error")},
	{test: "client_test.go TestClient_Do_fails", name: "no error has the password of the address", holds: noPassword},
	{test: "client_test.go TestClient_RequestWithContext", name: "a call that was cancelled before it began makes no attempt, and says so", holds: cancelledBefore,
		theirs: "it counts as one attempt", why: "nothing is sent"},
	{test: "client_test.go TestClient_DefaultRetryPolicy_TLS", name: "a certificate that is not trusted is final", holds: untrusted},
	{test: "client_test.go TestClient_DefaultRetryPolicy_redirects", name: "too many redirects are final", holds: tooManyRedirects},
	{test: "client_test.go TestClient_DefaultRetryPolicy_invalidscheme", name: "an address without a known scheme is final", holds: malformed(func(req *http.Request) { req.URL.Scheme = "gopher" }, "gopher")},
	{test: "client_test.go TestClient_DefaultRetryPolicy_invalidheadername", name: "a malformed name in the header is final", holds: malformed(func(req *http.Request) { req.Header["X\x1b"] = []string{"v"} }, "header")},
	{test: "client_test.go TestClient_DefaultRetryPolicy_invalidheadervalue", name: "a malformed value in the header is final", holds: malformed(func(req *http.Request) { req.Header.Set("X-Trace", "v\x1b") }, "header")},
	{test: "roundtripper_test.go TestRoundTripper_TransportFailureErrorHandling", name: "a failure that is final has the error that it has without retries", holds: sameErrorWithoutRetries(nil)},
	{test: "roundtripper_test.go TestRoundTripper_TransportFailureErrorHandling", name: "a failure that was retried has an error that matches the last one, and says more", holds: sameErrorWithoutRetries(backoff.RetryIf(func(error) bool { return true })),
		theirs: "the last error comes back as it is", why: "it says how often the call was tried; errors.Is and errors.As find the rest"},
}

func failedWith(text string) func(*testing.T) {
	return func(t *testing.T) {
		s := serve(t, says(500, ""))
		resp, err := s.client().Do(request(t.Context(), "PUT", aText()))
		require.NoError(t, err)
		require.ErrorContains(t, backoffhttp.Check(resp), text)
	}
}

func noPassword(t *testing.T) {
	s := serve(t, says(500, ""))
	for _, refusing := range []bool{false, true} {
		s.refusing.Store(refusing)
		s.wire.CloseIdleConnections()
		req := request(t.Context(), "GET", nil)
		req.URL.User = url.UserPassword("reader", "swordfish")
		resp, err := s.client().Do(req)
		if !refusing {
			require.NoError(t, err)
			err = backoffhttp.Check(resp)
		}
		require.Error(t, err)
		require.NotContains(t, err.Error(), "swordfish")
	}
}

func cancelledBefore(t *testing.T) {
	s := serve(t, says(200, ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.client().Do(request(ctx, "GET", nil))
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, s.dials.Load())
}

func untrusted(t *testing.T) {
	s := unstarted(t, says(200, ""))
	s.Config.ErrorLog = silent
	s.StartTLS()
	req := request(t.Context(), "GET", nil)
	req.URL.Scheme = "https"
	_, err := s.client().Do(req)
	require.ErrorContains(t, err, "certificate")
	require.EqualValues(t, 1, s.dials.Load())
}

func tooManyRedirects(t *testing.T) {
	s := serve(t, says(302, "", "Location", "/again"))
	_, err := s.client().Do(request(t.Context(), "GET", nil))
	require.ErrorContains(t, err, "10 redirects")
	require.Len(t, s.requests(), 10)
}

func malformed(spoil func(*http.Request), text string) func(*testing.T) {
	return func(t *testing.T) {
		s, asked := serve(t, says(200, "")), 0
		client := s.client(func(tr *backoffhttp.Transport) {
			tr.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				asked++
				return s.wire.RoundTrip(req)
			})
		})
		req := request(t.Context(), "GET", nil)
		spoil(req)
		_, err := client.Do(req)
		require.ErrorContains(t, err, text)
		require.LessOrEqual(t, asked, 1)
		require.Zero(t, s.dials.Load())
	}
}

func sameErrorWithoutRetries(classify backoff.Classifier) func(*testing.T) {
	return func(t *testing.T) {
		unknown := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere.test", IsNotFound: true}}
		base := roundTripper(func(*http.Request) (*http.Response, error) { return nil, unknown })
		_, plain := (&http.Client{Transport: base}).Do(request(t.Context(), "GET", nil))
		tr := &backoffhttp.Transport{Base: base, Policy: steady(4)}
		tr.Policy.Classify = classify
		_, err := (&http.Client{Transport: tr}).Do(request(t.Context(), "GET", nil))
		if classify == nil {
			require.Equal(t, plain, err)
		}
		dns, ok := errors.AsType[*net.DNSError](err)
		require.True(t, ok)
		require.True(t, dns.IsNotFound)
		require.ErrorIs(t, err, unknown)
		require.Equal(t, classify != nil, errors.Is(err, backoff.ErrExhausted))
	}
}

var retryableWaits = slices.Concat(retryAfters, asked, []promise{
	{test: "client_test.go TestBackoff", name: "waits double, up to the maximum, however many", holds: doublingWaits},
	{test: "client_test.go TestClient_BackoffCustom", name: "a schedule of the caller's own is asked for each retry, by its number", holds: ownSchedule},
})

// retryAfters say what is read in a Retry-After.
var retryAfters = []promise{
	retryAfter("seconds", 7*time.Second, true, "7"),
	retryAfter("a date", 7*time.Second, true, "Sat, 01 Jan 2000 00:00:07 GMT"),
	retryAfter("a date in the past, which is no wait", 0, true, "Fri, 31 Dec 1999 23:00:00 GMT"),
	retryAfter("no header, which says nothing", 0, false),
	retryAfter("an empty header, which says nothing", 0, false, ""),
	retryAfter("a negative number, which says nothing", 0, false, "-7"),
	retryAfter("a date that does not exist, which says nothing", 0, false, "Sat, 32 Jan 2000 00:00:07 GMT"),
	retryAfter("words, which say nothing", 0, false, "later"),
	{test: "client_test.go TestParseRetryAfterHeader", name: "of two values the longer counts", holds: retryAfter("", 9*time.Second, true, "7", "9").holds,
		theirs: "of two values the first counts", why: "who waits longer is not refused again by the proxy that added the other"},
}

func retryAfter(what string, wait time.Duration, ok bool, values ...string) promise {
	return promise{test: "client_test.go TestParseRetryAfterHeader", name: "Retry-After may be " + what, holds: func(t *testing.T) {
		got, found := backoffhttp.RetryAfter(&http.Response{Header: http.Header{"Retry-After": values}})
		require.Equal(t, ok, found)
		require.Equal(t, wait, got) // in a bubble it is midnight, January 1st, 2000
	}}
}

// asked are waits that a server asks for, beside the delay of the schedule.
var asked = []promise{
	askedWait("TestClient_DefaultBackoff", "a 429 may ask for seconds", time.Second, 2*time.Second, 429, "2"),
	askedWait("TestClient_DefaultBackoff", "a 429 may ask for a time", time.Second, 2*time.Second, 429, "Sat, 01 Jan 2000 00:00:02 GMT"),
	askedWait("TestClient_DefaultBackoff", "a 503 may ask for seconds", time.Second, 2*time.Second, 503, "2"),
	askedWait("TestClient_DefaultBackoff", "a 503 may ask for a time", time.Second, 2*time.Second, 503, "Sat, 01 Jan 2000 00:00:02 GMT"),
	different(askedWait("TestBackoff_RateLimitLinearJitterBackoff", "a 429 that asks for nothing gets the delay of the schedule, and its turn among the calls to the host", time.Second, time.Second, 429),
		"it gets the delay of the schedule alone", "a host that says too much gets fewer calls; `Unguarded` has no turns"),
	askedWait("TestBackoff_RateLimitLinearJitterBackoff", "a 503 that asks for nothing gets it, too", time.Second, time.Second, 503),
	askedWait("TestBackoff_RateLimitLinearJitterBackoff", "so does a 502", time.Second, time.Second, 502),
	different(askedWait("TestBackoff_RateLimitLinearJitterBackoff", "a 502 that asks for a time gets it", time.Second, 2*time.Second, 502, "2"),
		"only a 429 and a 503 are obeyed", "RFC 9110, 10.2.3 allows the header on any response; a proxy's 502 may say when the service is back"),
	different(askedWait("TestBackoff_RateLimitLinearJitterBackoff", "a wait that was asked for does not shorten the schedule's", 5*time.Second, 5*time.Second, 429, "2"),
		"the time that the server asked for takes the place of a longer delay", "the server says when it may be asked again, and not that it should be"),
	different(askedWait("TestClient_DefaultBackoff", "a wait that was asked for is lengthened by up to a tenth, or 100 ms", time.Second, 2*time.Second, 503, "2"),
		"the wait is exactly as asked", "clients that were refused together would come back together"),
}

func different(p promise, theirs, why string) promise {
	p.theirs, p.why = theirs, why
	return p
}

// askedWait holds if the first retry comes after the wait, or up to a tenth later where a server
// asked for it.
func askedWait(test, name string, delay, wait time.Duration, status int, after ...string) promise {
	return promise{test: "client_test.go " + test, name: name, holds: func(t *testing.T) {
		var header []string
		if after != nil {
			header = []string{"Retry-After", after[0]}
		}
		s := serve(t, says(status, "", header...), says(200, ""))
		client := s.client(func(tr *backoffhttp.Transport) { tr.Policy.Schedule = backoff.Constant(delay) })
		began := time.Now()
		_, err := client.Do(request(t.Context(), "GET", nil))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), wait)
		if status != 429 {
			require.LessOrEqual(t, time.Since(began), wait+wait/10)
		}
	}}
}

func doublingWaits(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second, Max: 3 * time.Minute}, Jitter: backoff.NoJitter}
	for retry, wait := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 64: 3 * time.Minute, 129: 3 * time.Minute} {
		require.Equal(t, wait, policy.WaitBefore(retry))
	}
}

func ownSchedule(t *testing.T) {
	s := serve(t, says(500, ""), says(500, ""), says(500, ""), says(200, ""))
	var retries []int
	client := s.client(func(tr *backoffhttp.Transport) {
		tr.Policy.Schedule = backoff.ScheduleFunc(func(retry int) time.Duration {
			retries = append(retries, retry)
			return time.Millisecond
		})
	})
	resp, err := client.Do(request(t.Context(), "GET", nil))
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, []int{1, 2, 3}, retries)
}

var retryableClients = []promise{
	{test: "client_test.go TestClient_Get", name: "Get is that of net/http", holds: sent(func(c *http.Client) (*http.Response, error) { return c.Get("http://site.test/things?n=1") }, "GET /things?n=1  ")},
	{test: "client_test.go TestClient_Head", name: "Head is that of net/http", holds: sent(func(c *http.Client) (*http.Response, error) { return c.Head("http://site.test/things") }, "HEAD /things  ")},
	{test: "client_test.go TestClient_Post", name: "Post is that of net/http", holds: sent(func(c *http.Client) (*http.Response, error) {
		return c.Post("http://site.test/things", "application/json", strings.NewReader(`[1]`))
	}, "POST /things application/json [1]")},
	{test: "client_test.go TestClient_PostForm", name: "PostForm is that of net/http", holds: sent(func(c *http.Client) (*http.Response, error) {
		return c.PostForm("http://site.test/things", url.Values{"n": {"1"}})
	}, "POST /things application/x-www-form-urlencoded n=1")},
	{test: "client_test.go TestClient_StandardClient", name: "a client is one of net/http, with a Transport that has the policy", holds: clientHasThePolicy},
	{test: "roundtripper_test.go TestRoundTripper_implements", name: "a Transport is an http.RoundTripper", holds: func(*testing.T) { var _ http.RoundTripper = new(backoffhttp.Transport) }},
	{test: "roundtripper_test.go TestRoundTripper_init", name: "the zero Transport works, and works again", holds: zeroTransport},
}

func sent(call func(*http.Client) (*http.Response, error), want string) func(*testing.T) {
	return func(t *testing.T) {
		s := serve(t, says(200, ""))
		resp, err := call(s.client())
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Len(t, s.requests(), 1)
		got := s.requests()[0]
		require.Equal(t, want, got.method+" "+got.uri+" "+got.header.Get("Content-Type")+" "+got.body)
	}
}

func clientHasThePolicy(t *testing.T) {
	tr, ok := backoffhttp.Client(backoff.Policy{Name: "things", MaxAttempts: 7}).Transport.(*backoffhttp.Transport)
	require.True(t, ok)
	require.Equal(t, "things", tr.Policy.Name)
	require.Equal(t, 7, tr.Policy.MaxAttempts)
}

func zeroTransport(t *testing.T) {
	s := serve(t, says(503, ""), says(200, ""))
	tr := new(backoffhttp.Transport)
	tr.Base = &s.wire
	for range 2 {
		resp, err := tr.RoundTrip(request(t.Context(), "GET", nil))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	}
	require.Len(t, s.requests(), 3)
}
