package backoffhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

// refusing is a budget without retries.
type refusing struct{ backoff.BudgetDefaults }

func (refusing) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, a.First()
}

func TestTheContextEndsAWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("user went away")
		time.AfterFunc(150*time.Millisecond, func() { cancel(cause) })
		w := newWire(answer(503, "X-Request-Id", "7"))
		began := time.Now()
		_, err := over(w).RoundTrip(newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
		require.Equal(t, 150*time.Millisecond, time.Since(began))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		status := statusOf(t, err)
		require.Equal(t, "7", status.Header.Get("X-Request-Id"))
		var gave *backoff.Error
		_ = errors.As(err, &gave)
		require.Equal(t, 2, gave.Attempts, "what was not begun does not count")
		require.Zero(t, w.open())
	})
}

func TestAnEndedContextMakesNoAttemptAndClosesTheBody(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := newWire(answer(200))
	for _, tr := range []http.RoundTripper{over(w), &backoffhttp.Transport{Base: w}} {
		body := &watched{ReadCloser: io.NopCloser(strings.NewReader("x"))}
		_, err := tr.RoundTrip(newRequest(t, "PUT", "http://a.test/", body).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, w.requests())
		require.True(t, body.closed.Load())
	}
}

func TestAnAnswerCountsThoughTheContextEndsMeanwhile(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWire(func(req *http.Request) (*http.Response, error) {
		cancel()
		return answer(200)(req)
	})
	resp, err := over(w).RoundTrip(newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
	require.NoError(t, err)
	require.Equal(t, "body of 200", text(t, resp))
}

func TestTheCallersRequestIsNotChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(503), answer(503), answer(200))
		tr.Policy.Idempotency = backoff.Keyed
		tr.Policy.AttemptTimeout = time.Second
		tr.Propagate = everywhere
		tr.Resume = true
		req := newRequest(t, "POST", "http://a.test/x?y=z", strings.NewReader("content"))
		req.Header.Set("X-Own", "kept")
		before, header := *req, req.Header.Clone()
		roundTrip(t, tr, req)
		require.Equal(t, 3, w.requests())
		require.Equal(t, header, req.Header)
		require.Equal(t, before.URL, req.URL)
		require.Equal(t, before.Body, req.Body)
		require.Equal(t, before.Context(), req.Context())
		for i := range 3 {
			require.Equal(t, "content", w.request(i).body)
			require.Equal(t, "kept", w.request(i).header.Get("X-Own"))
		}
	})
}

func TestARequestThatIsNoRequestIsRefused(t *testing.T) {
	for _, req := range []*http.Request{{Header: http.Header{}}, {}} {
		_, err := new(backoffhttp.Transport).RoundTrip(req)
		require.ErrorContains(t, err, "nil Request.URL")
	}
}

func TestABaseWithoutAnswerNorErrorIsAnError(t *testing.T) {
	base := step(func(*http.Request) (*http.Response, error) { return nil, nil })
	_, err := over(base).RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
	require.ErrorContains(t, err, "neither an answer")
}

func TestInspectMakesFailuresOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answerBody(200, "<Error>"), answer(503, "Retry-After", "3"), answerBody(200, "fine"))
		tr.Inspect = func(resp *http.Response) error {
			if resp.StatusCode != 200 {
				return backoffhttp.Check(resp)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body = io.NopCloser(strings.NewReader(string(body)))
			if strings.HasPrefix(string(body), "<Error>") {
				return backoff.OfClass(errors.New("error in a 200"), backoff.ClassRetryable)
			}
			return err
		}
		require.Equal(t, "fine", text(t, getRoot(t, tr)))
		require.Equal(t, 100*time.Millisecond, w.waits()[0])
		require.GreaterOrEqual(t, w.waits()[1], 3*time.Second, "Check keeps Retry-After")
	})
}

func TestInspectMayPassAnAnswer(t *testing.T) {
	tr, w := scripted(answer(503))
	tr.Inspect = func(*http.Response) error { return nil }
	require.Equal(t, 503, getRoot(t, tr).StatusCode)
	require.Equal(t, 1, w.requests())
}

func TestMiddlewareIsTheSameWithANextFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(500), answer(200))
		tr := over(nil)
		var middleware func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error) = tr.Middleware
		resp, err := middleware(newRequest(t, "GET", "http://a.test/", nil), w.RoundTrip)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, 2, w.requests())
	})
}

func TestATransportMayBeTheDefaultTransport(t *testing.T) {
	s := serve(t, inTurn(status(503), status(200)))
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = &backoffhttp.Transport{Policy: atOnce()}
	resp, err := http.Get(s.URL)
	require.NoError(t, err)
	require.Equal(t, "body of 200", text(t, resp))
	http.DefaultClient.CloseIdleConnections()
}

func TestCloseIdleConnectionsReachesTheBase(t *testing.T) {
	base := &idler{RoundTripper: newWire(answer(200))}
	(&http.Client{Transport: &backoffhttp.Transport{Base: base}}).CloseIdleConnections()
	require.Equal(t, 1, base.closed)
	(&backoffhttp.Transport{Base: newWire()}).CloseIdleConnections() // which has no such method
}

type idler struct {
	http.RoundTripper
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

func TestAnInvalidPolicyIsRefusedBeforeTheFirstAttempt(t *testing.T) {
	for _, p := range []backoff.Policy{
		{AttemptTimeoutSchedule: backoff.Constant(-1)},
		{Schedule: backoff.Exponential{Multiplier: 0.5}},
	} {
		w := newWire(answer(200))
		body := &watched{ReadCloser: io.NopCloser(strings.NewReader("x"))}
		_, err := (&backoffhttp.Transport{Base: w, Policy: p}).RoundTrip(newRequest(t, "PUT", "http://a.test/", body))
		require.ErrorContains(t, err, "backoff: Policy.")
		require.Zero(t, w.requests())
		require.True(t, body.closed.Load())
	}
}

func TestTransportsAroundOneAnotherDoNotMultiply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503))
		resp := roundTrip(t, over(over(over(w))), newRequest(t, "GET", "http://a.test/", nil))
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, 4, w.requests())
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWire(failure(syscall.ECONNRESET))
		_, err := over(over(over(w))).RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, 4, w.requests())
	})
}

func TestATimeoutStaysATimeoutToTheCaller(t *testing.T) {
	client := &http.Client{Transport: &backoffhttp.Transport{Base: newWire(failure(lateAnswer{})), Policy: atOnce()}}
	_, err := client.Get("http://a.test/")
	var timeout interface{ Timeout() bool }
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
}

// As with any other client: programs compare, switch on the type, and label
// their metrics with it.
func TestAPermanentErrorIsTheClientsOwn(t *testing.T) {
	past, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	missing := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
	for name, row := range map[string]struct {
		ctx   context.Context
		fails error
		want  error
	}{
		"no such host":          {t.Context(), missing, missing},
		"a deadline that is up": {past, nil, context.DeadlineExceeded},
	} {
		client := &http.Client{Transport: &backoffhttp.Transport{Base: newWire(failure(row.fails)), Policy: atOnce()}}
		_, err := client.Do(newRequest(t, "GET", "http://a.test/", nil).WithContext(row.ctx))
		var failed *url.Error
		require.ErrorAs(t, err, &failed, name)
		require.True(t, failed.Err == row.want, "%s: %T", name, failed.Err)
	}
}

type lateAnswer struct{}

func (lateAnswer) Error() string { return "late" }
func (lateAnswer) Timeout() bool { return true }

func everywhere(u *url.URL) bool { return true }

// A base that leaves the answer's request out loses nothing.
func TestAnAnswerWithoutItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := over(step(func(req *http.Request) (*http.Response, error) {
			resp, err := answer(503)(req)
			resp.Request = nil
			return resp, err
		}))
		resp := getRoot(t, tr)
		require.ErrorContains(t, backoffhttp.Check(resp), "gave up after 4 attempts")
	})
}

// What the caller gets beside a nil error says which guard ended the call, and
// what to change, in a text by which logs can group.
func TestCheckSaysWhatToChange(t *testing.T) {
	retrying := func(t *testing.T) context.Context {
		var ctx context.Context
		req := httptest.NewRequest("GET", "/", nil)
		req.Header.Set(backoffhttp.HeaderAttempt, "2")
		backoffhttp.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).ServeHTTP(httptest.NewRecorder(), req)
		return context.WithoutCancel(ctx)
	}
	for name, c := range map[string]struct {
		transport *backoffhttp.Transport // nil for the zero value
		request   func(t *testing.T) *http.Request
		step      step
		reason    backoff.Reason
		text      string
	}{
		"attempts": {transport: &backoffhttp.Transport{Services: without()}, reason: backoff.ReasonAttempts, text: "gave up after 4 attempts.*: status 503 Service Unavailable$"},
		"a body that is sent once": {
			request: func(t *testing.T) *http.Request { return newRequest(t, "PUT", "http://a.test/", stream("content")) },
			reason:  backoff.ReasonAttempts, text: `cannot be sent again \(Request.GetBody, Transport.MaxBuffer\): .*status 503`,
		},
		"a body that is sent once, as every request": {
			transport: &backoffhttp.Transport{Policy: backoff.Policy{MaxAttempts: 1}},
			request:   func(t *testing.T) *http.Request { return newRequest(t, "PUT", "http://a.test/", stream("content")) },
			reason:    backoff.ReasonAttempts, text: "gave up after 1 attempt: status 503 Service Unavailable$",
		},
		"budget of the host": {
			transport: &backoffhttp.Transport{Services: &guard.Services{New: func(string) *guard.Service { return &guard.Service{Budget: refusing{}} }}},
			reason:    backoff.ReasonBudget, text: `budget.*the budget of the host \(Transport.Services\): status 503`,
		},
		"budget of the policy": {
			transport: &backoffhttp.Transport{Policy: backoff.Policy{Budget: refusing{}}},
			reason:    backoff.ReasonBudget, text: "budget.*status 503 Service Unavailable$",
		},
		"a caller that retries": {
			request: func(t *testing.T) *http.Request {
				return newRequest(t, "GET", "http://a.test/", nil).WithContext(retrying(t))
			},
			reason: backoff.ReasonAttempts, text: `retrying already \(Inbound\): .*status 503`,
		},
		"elapsed": {
			transport: &backoffhttp.Transport{Policy: backoff.Policy{
				MaxElapsed: time.Millisecond, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter,
			}},
			reason: backoff.ReasonElapsed, text: "status 503 Service Unavailable$",
		},
		"not idempotent": {
			request: func(t *testing.T) *http.Request { return newRequest(t, "POST", "http://a.test/", nil) },
			reason:  backoff.ReasonNotIdempotent, text: `not idempotent \(Idempotency\); a POST without Idempotency-Key: status 503 Service Unavailable$`,
		},
		"not idempotent, by the user's own words": {
			transport: &backoffhttp.Transport{Policy: backoff.Policy{Idempotency: backoff.NonIdempotent}},
			reason:    backoff.ReasonNotIdempotent, text: `not idempotent \(Idempotency\): status 503 Service Unavailable$`,
		},
		"overloaded": {
			step:   answer(503, "X-Should-Retry", "false"),
			reason: backoff.ReasonOverloaded, text: "status 503 Service Unavailable$",
		},
		"hint": {step: answer(503, "Retry-After", "1000"), reason: backoff.ReasonRetryAfter, text: "status 503 Service Unavailable$"},
		"deadline": {step: answer(503, "Retry-After", "100"), reason: backoff.ReasonDeadline, text: "status 503 Service Unavailable$",
			request: func(t *testing.T) *http.Request {
				ctx := within(t, time.Minute)
				return newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx)
			}},
	} {
		bubble(t, name, func(t *testing.T) {
			if c.step == nil {
				c.step = answer(503)
			}
			if c.request == nil {
				c.request = func(t *testing.T) *http.Request { return newRequest(t, "GET", "http://a.test/", nil) }
			}
			if c.transport == nil {
				c.transport = new(backoffhttp.Transport)
			}
			c.transport.Base, c.transport.FailFast = newWire(c.step), true
			outer := &backoffhttp.Transport{Base: c.transport, FailFast: true, Policy: atOnce()} // changes nothing
			clients := []*http.Client{{Transport: c.transport}, {Transport: outer}}
			if c.transport.Policy.MaxAttempts == 1 {
				clients = clients[:1] // it leaves retries to the outer one
			}
			for _, client := range clients {
				resp, err := client.Do(c.request(t))
				require.NoError(t, err)
				err = backoffhttp.Check(resp)
				require.Equal(t, c.reason, gaveUp(t, resp).Reason)
				status := statusOf(t, err)
				require.Equal(t, 503, status.Code)
				require.Regexp(t, c.text, err.Error())
				require.Equal(t, "body of 503", text(t, resp))
				if errors.Is(err, backoff.ErrBudget) != (c.reason == backoff.ReasonBudget) {
					t.Error("does not match its sentinel")
				}
			}
		})
	}
}

// Check does not take an answer for a success that Inspect found to be none,
// nor the next one for a failure.
func TestCheckKnowsAnAnswerBelow400ThatIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("in the body")
		tr := over(newWire(answer(200)))
		tr.Inspect = func(*http.Response) error { return backoff.OfClass(failed, backoff.ClassRetryable) }
		resp := getRoot(t, tr)
		err := backoffhttp.Check(resp)
		require.ErrorIs(t, err, failed)
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Equal(t, "body of 200", text(t, resp))

		next := newRequest(t, "GET", "http://a.test/", nil).WithContext(resp.Request.Context())
		require.NoError(t, backoffhttp.Check(roundTrip(t, over(newWire(answer(200))), next)))
	})
}
