package backoffhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/pace"
	"github.com/stretchr/testify/require"
)

var forbidding = http.Header{
	"Retry-After":            {"60"},
	"Grpc-Retry-Pushback-Ms": {"-1"},
	"X-Envoy-Overloaded":     {"true"},
	"X-Envoy-Ratelimited":    {"true"},
	"X-Should-Retry":         {"false"},
	"Stripe-Should-Retry":    {"false"},
}

func TestDoNotRetrySaysSoInAllHeaders(t *testing.T) {
	w := httptest.NewRecorder()
	backoffhttp.DoNotRetry(w)
	require.Equal(t, forbidding, w.Header())
	require.False(t, w.Flushed)

	w = httptest.NewRecorder()
	w.Header().Set("Retry-After", "7")
	backoffhttp.DoNotRetry(w)
	require.Equal(t, "7", w.Header().Get("Retry-After"))
}

// outcomes is a budget that remembers how attempts ended.
type outcomes struct {
	backoff.BudgetDefaults

	all []string
}

func (*outcomes) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, true
}
func (o *outcomes) Done(_ backoff.Ticket, r backoff.Result) { o.all = append(o.all, r.String()) }

// A card is declined, and the server says not to try again: the server is well.
func TestADoNotRetryOnAPermanentResponseIsNoFailure(t *testing.T) {
	for status, want := range map[int]string{
		402: "permanent", 429: "throttled", 503: "throttled",
	} {
		shop := service(t, handle(func(w http.ResponseWriter, r *http.Request) {
			backoffhttp.DoNotRetry(w)
			w.WriteHeader(status)
		}))
		ended := new(outcomes)
		tr := &backoffhttp.Transport{
			Base: new(http.Transport), Policy: backoff.Policy{MaxRetryAfter: -1},
			Services: &guard.Services{New: func(string) *guard.Service {
				s := &guard.Service{Budget: ended, Breaker: &backoff.Breaker{WindowCalls: 20}}
				if status == 402 {
					s.Budget = backoff.JoinBudgets(ended, new(pace.HoldOff))
				}
				return s
			}},
		}
		t.Cleanup(tr.CloseIdleConnections)
		refused := 0
		for range 40 {
			resp, err := tr.RoundTrip(request{method: "GET"}.on(t.Context(), shop.URL))
			if errors.Is(err, backoff.ErrOpen) {
				refused++
				continue
			}
			require.NoError(t, err)
			require.Equal(t, status, resp.StatusCode)
			resp.Body.Close()
		}
		require.Equal(t, status != 402, refused > 0, "status %d: %d refused", status, refused)
		require.Len(t, ended.all, 40-refused)
		require.NotContains(t, ended.all, "failed")
		require.Contains(t, ended.all, want)
	}
}

// do returns what a policy makes of err.
func do(p backoff.Policy, err error) error {
	p.Schedule = backoff.Constant(0)
	return p.Do(context.Background(), func(context.Context) error { return err })
}

func TestWriteErrorTellsTheCallerWhatToDo(t *testing.T) {
	expired, cancel := context.WithTimeout(context.Background(), -1)
	defer cancel()
	over := (&backoff.Policy{}).Do(expired, func(context.Context) error { return nil })
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	cancelled := (&backoff.Policy{}).Do(gone, func(context.Context) error { return nil })
	transient, throttled := io.ErrUnexpectedEOF, statusError(429)
	// whole is every word of DoNotRetry but Retry-After, alone X-Should-Retry and
	// Stripe-Should-Retry.
	const whole, alone = 5, 2
	for name, test := range map[string]struct {
		err    error
		status int
		said   int
		after  string
	}{
		"gave up":          {err: do(backoff.Policy{}, transient), status: 503, said: alone},
		"gave up, wrapped": {err: fmt.Errorf("x: %w", do(backoff.Policy{}, transient)), status: 503, said: alone},
		"throttled":        {err: do(backoff.Policy{}, throttled), status: 429, said: whole},
		"wait too long":    {err: do(backoff.Policy{}, backoff.RetryAfter(throttled, time.Hour)), status: 429, said: whole, after: "3600"},
		"maintenance":      {err: do(backoff.Policy{}, backoff.RetryAfter(transient, time.Hour)), status: 503, said: alone, after: "3600"},
		"out of time":      {err: over, status: 504, said: alone},
		"out of time, 429": {err: outOfTime(throttled), status: 504, said: alone},
		"cancelled":        {err: cancelled, status: 503},
		"cancelled, asked": {err: cancelledAfter(backoff.RetryAfter(throttled, time.Second)), status: 503, after: "1"},
		"invalid policy":   {err: do(backoff.Policy{Budget: &backoff.RetryBudget{Ratio: -1}}, transient), status: 502, said: alone},
		"one attempt":      {err: do(backoff.Policy{MaxAttempts: 1}, transient), status: 503},
		"not repeatable":   {err: do(backoff.Policy{Idempotency: backoff.NonIdempotent}, transient), status: 503, said: alone},
		"overloaded":       {err: do(backoff.Policy{}, backoff.OfClass(transient, backoff.ClassOverloaded)), status: 503, said: whole},
		"budget refused":   {err: do(backoff.Policy{Budget: refusing{}}, transient), status: 503, said: whole},
		"circuit open":     {err: &backoff.OpenError{Name: "x"}, status: 503},
		"no budget":        {err: backoff.ErrBudget, status: 503, said: whole},
		"permanent":        {err: do(backoff.Policy{}, statusError(404)), status: 502, said: alone},
		"deadline":         {err: context.DeadlineExceeded, status: 504},
		"bare, overloaded": {err: backoff.OfClass(transient, backoff.ClassOverloaded), status: 503, said: whole},
		"bare, throttled":  {err: backoff.RetryAfter(throttled, 1500*time.Millisecond), status: 429},
		"bare, says when":  {err: wait(1500 * time.Millisecond), status: 500, after: "2"},
		"bare, transient":  {err: transient, status: 503},
		"bare, unknown":    {err: errors.New("10.0.0.1 is down"), status: 500},

		"bare, permanent, throttled":     {err: backoff.Permanent(response(429, "", "")), status: 502, said: whole},
		"bare, told by X-Should-Retry":   {err: response(503, "X-Should-Retry", "false"), status: 503, said: alone},
		"told by X-Should-Retry alone":   {err: do(backoff.Policy{}, response(503, "X-Should-Retry", "false")), status: 503, said: alone},
		"told so by a proxy":             {err: do(backoff.Policy{}, response(503, "X-Envoy-Overloaded", "true")), status: 503, said: whole},
		"told so by gRPC's word":         {err: do(backoff.Policy{}, response(503, "Grpc-Retry-Pushback-Ms", "-1")), status: 503, said: whole},
		"told so by a service throttled": {err: do(backoff.Policy{}, response(429, "X-Should-Retry", "false")), status: 429, said: whole},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			backoffhttp.WriteError(w, request{}.on(t.Context(), "http://x"), test.err)
			require.Equal(t, test.status, w.Code)
			require.Equal(t, test.after, w.Header().Get("Retry-After"))
			said := 0
			for name := range forbidding {
				if name != "Retry-After" && w.Header().Get(name) != "" {
					said++
				}
			}
			require.Equal(t, test.said > 0, w.Header().Get("X-Should-Retry") == "false")
			require.Equal(t, test.said, said)
			require.JSONEq(t, fmt.Sprintf(`{"title":%q,"status":%d}`, http.StatusText(test.status), test.status), w.Body.String())
		})
	}
}

// outOfTime is the error of a call whose time ends before the wait after err does.
func outOfTime(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return backoff.Policy{Schedule: backoff.Constant(time.Hour), Jitter: backoff.NoJitter}.Do(ctx, func(context.Context) error { return err })
}

// cancelledAfter is the error of a call that is cancelled while it waits after err.
func cancelledAfter(err error) error {
	ctx, cancel := context.WithCancel(context.Background())
	return backoff.Policy{}.Do(ctx, func(context.Context) error {
		cancel()
		return err
	})
}

// response is a response as an error.
func response(status int, header, value string) error {
	return backoffhttp.Check(&http.Response{StatusCode: status, Header: http.Header{header: {value}}})
}

type wait time.Duration

func (d wait) Error() string             { return "busy" }
func (d wait) RetryAfter() time.Duration { return time.Duration(d) }

// What opened a circuit came to another call, a while ago. It says nothing about
// the status, the wait and the retries of the call that was refused.
func TestWriteErrorIs503ForAnOpenCircuitWhateverOpenedIt(t *testing.T) {
	expired, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	over := (&backoff.Policy{}).Do(expired, func(context.Context) error { return nil })
	for name, last := range map[string]error{
		"deadline":           context.DeadlineExceeded,
		"a call out of time": over,
		"throttled":          statusError(429),
		"a call throttled":   do(backoff.Policy{}, backoff.RetryAfter(statusError(429), time.Hour)),
		"a single attempt":   do(backoff.Policy{MaxAttempts: 1}, io.ErrUnexpectedEOF),
		"permanent":          backoff.Permanent(io.ErrUnexpectedEOF),
	} {
		open := &backoff.OpenError{Name: "x", State: backoff.BreakerOpen, Last: last}
		for how, err := range map[string]error{
			"bare":              open,
			"wrapped":           fmt.Errorf("charge: %w", open),
			"joined":            errors.Join(errors.New("unknown"), open),
			"through a policy":  do(backoff.Policy{}, open),
			"through one of 1":  do(backoff.Policy{MaxAttempts: 1}, open),
			"joined, in policy": do(backoff.Policy{}, errors.Join(errors.New("unknown"), open)),
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				w := httptest.NewRecorder()
				backoffhttp.WriteError(w, request{}.on(t.Context(), "http://x"), err)
				require.Equal(t, http.StatusServiceUnavailable, w.Code)
				require.Empty(t, w.Header().Get("Retry-After"))
				require.Empty(t, w.Header().Get("X-Should-Retry"), "nothing was repeated")
			})
		}
	}
}

// A breaker knows when it admits calls again. That is no reason to come later than in
// 5 s, and nobody is told not to come whose call was not sent.
func TestWriteErrorTellsWhenACircuitAdmitsCallsAgain(t *testing.T) {
	for open, want := range map[time.Duration]string{time.Second - 1: "", 2500 * time.Millisecond: "3", time.Hour: "5"} {
		breaker := &backoff.Breaker{OpenFor: backoff.Constant(open), Jitter: backoff.NoJitter}
		fn := func(context.Context) error { return nil }
		inPolicy := func(ctx context.Context) error { return breaker.Do(ctx, fn) }
		trips := func(context.Context) error {
			if breaker.State() == backoff.BreakerClosed {
				breaker.Trip()
				return io.ErrUnexpectedEOF
			}
			return breaker.Do(t.Context(), fn)
		}
		synctest.Test(t, func(t *testing.T) {
			for _, c := range []struct {
				name, retry string
				err         error
			}{
				{"breaker in policy, after an attempt", "false", backoff.Policy{Schedule: backoff.Constant(0)}.Do(t.Context(), trips)},
				{"breaker", "", breaker.Do(t.Context(), fn)},
				{"policy in breaker", "", breaker.Do(t.Context(), func(ctx context.Context) error { return (&backoff.Policy{}).Do(ctx, fn) })},
				{"breaker in policy", "", (&backoff.Policy{}).Do(t.Context(), inPolicy)},
				{"breaker in two", "", (&backoff.Policy{}).Do(t.Context(), func(ctx context.Context) error { return (&backoff.Policy{}).Do(ctx, inPolicy) })},
			} {
				w := httptest.NewRecorder()
				backoffhttp.WriteError(w, request{}.on(t.Context(), "http://x"), c.err)
				require.Equal(t, http.StatusServiceUnavailable, w.Code, c.name)
				require.Equal(t, want, w.Header().Get("Retry-After"), c.name)
				require.Equal(t, c.retry, w.Header().Get("X-Should-Retry"), c.name)
			}
		})
	}
}

func TestWriteErrorWritesNothingForNil(t *testing.T) {
	w := httptest.NewRecorder()
	backoffhttp.WriteError(w, request{}.on(t.Context(), "http://x"), nil)
	require.Empty(t, w.Header())
	require.Empty(t, w.Body.String())
}

func TestWriteErrorIs504WhereTheCallersTimeIsOver(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	w := httptest.NewRecorder()
	backoffhttp.WriteError(w, request{}.on(ctx, "http://x"), errors.New("unknown"))
	require.Equal(t, http.StatusGatewayTimeout, w.Code)
}

// A server that stops ends the contexts of its requests. Another one may answer them.
func TestAServerThatStopsForbidsNoRetry(t *testing.T) {
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "a.test"}) },
		ErrorHandler: backoffhttp.WriteError,
	}
	for name, transport := range map[string]http.RoundTripper{
		"with retries": over(failure(refusedDial)), "without": step(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}),
	} {
		bubble(t, name, func(t *testing.T) {
			proxy.Transport = transport
			server, stop := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, stop)
			w := httptest.NewRecorder()
			proxy.ServeHTTP(w, request{method: "GET"}.on(server, "http://x"))
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			for name := range forbidding {
				require.Empty(t, w.Header().Get(name))
			}
		})
	}
}

func TestWriteErrorIsAnErrorHandler(t *testing.T) {
	nowhere := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	proxy := httputil.NewSingleHostReverseProxy(nowhere)
	proxy.ErrorHandler = backoffhttp.WriteError
	require.Equal(t, http.StatusServiceUnavailable, request{}.to(proxy).Code)
}

// statusError is an error of another client, with a status.
type statusError int

func (e statusError) Error() string       { return "refused for secret reasons" }
func (e statusError) HTTPStatusCode() int { return int(e) }

// What a server asks for in vain must not keep the clients of its client away.
func TestWriteErrorPassesOnADayAtMost(t *testing.T) {
	for asked, want := range map[string]string{
		"86399": "86399", "86400": "86400", "86401": "86400", "99999999999999999999": "86400", "Fri, 31 Dec 9999 23:59:59 GMT": "86400",
	} {
		err := backoff.Policy{}.Do(t.Context(), func(context.Context) error {
			return backoffhttp.Check(&http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {asked}}})
		})
		w := httptest.NewRecorder()
		backoffhttp.WriteError(w, request{}.on(t.Context(), "http://x"), err)
		require.Equal(t, 429, w.Code)
		require.Equal(t, want, w.Header().Get("Retry-After"), asked)
	}
}

// The body of a request that a ReverseProxy passes on can be read once only. A POST that was
// lost may have been made, so its client must not send it again; a PUT it may.
func TestALostPostIsNotToBeSentAgainWhateverItsBody(t *testing.T) {
	for method, forbidden := range map[string]string{"POST": "false", "PUT": ""} {
		for _, lost := range []step{failure(io.EOF), answer(500)} {
			synctest.Test(t, func(t *testing.T) {
				tr, _ := scripted(lost, answer(200))
				req := newRequest(t, method, "http://a.test/", stream("10 EUR"))
				resp, err := tr.RoundTrip(req)
				if err == nil {
					defer resp.Body.Close()
					err = backoffhttp.Check(resp)
				}
				w := httptest.NewRecorder()
				backoffhttp.WriteError(w, req, err)
				require.Equal(t, http.StatusServiceUnavailable, w.Code)
				require.Equal(t, forbidden, w.Header().Get("X-Should-Retry"), "%s: %v", method, err)
			})
		}
	}
}
