package backoffhttp_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

// tallied returns a Transport for one host, and what that host's guards have counted:
// successes and failures of the breaker, successes and retries of the budget.
func tallied(base http.RoundTripper) (*backoffhttp.Transport, *guard.Service, func() [4]uint64) {
	service := new(guard.Service)
	tr := &backoffhttp.Transport{Base: base, Services: &guard.Services{New: func(string) *guard.Service { return service }}}
	return tr, service, func() [4]uint64 {
		s := service.State()
		return [4]uint64{s.Breaker.Successes, s.Breaker.Failures, s.Budget.Successes, s.Budget.Retries}
	}
}

func TestWhatNetHTTPRefusesSaysNothingOfTheHost(t *testing.T) {
	unfit := map[string]func(*http.Request){
		"header value": func(r *http.Request) { r.Header.Set("X-Name", "a\nb") },
		"cookie":       func(r *http.Request) { r.Header.Set("Cookie", "a=\x00") },
		"header name":  func(r *http.Request) { r.Header["a b"] = []string{"c"} },
		"method":       func(r *http.Request) { r.Method = "GE T" },
		"trailer":      func(r *http.Request) { r.Trailer = http.Header{"A b": {"c"}} },
		"host":         func(r *http.Request) { r.Host = "é.xn--ü" },
		"path":         func(r *http.Request) { r.URL = &url.URL{Scheme: "http", Host: r.URL.Host, Opaque: "a\x01b"} },
		"long body":    func(r *http.Request) { r.ContentLength, r.Body = 1, io.NopCloser(strings.NewReader("longer")) },
		"no body":      func(r *http.Request) { r.ContentLength, r.Body = 7, nil },
		"long header":  func(r *http.Request) { r.Header.Set("X-Name", strings.Repeat("x", 20<<10)) },
	}
	only := map[string]int{"no body": 1, "long body": 2, "long header": 2}
	for _, version := range []int{1, 2} {
		var protocols http.Protocols
		protocols.SetHTTP1(version == 1)
		protocols.SetUnencryptedHTTP2(version == 2)
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }, func(s *httptest.Server) { s.Config.Protocols, s.Config.MaxHeaderBytes = &protocols, 8<<10 })
		base := &http.Transport{Protocols: &protocols}
		t.Cleanup(base.CloseIdleConnections)
		tr, _, counted := tallied(base)
		require.Equal(t, 200, roundTrip(t, tr, newRequest(t, "GET", s.URL, nil)).StatusCode) // HTTP/2 now knows the limits of the server
		for name, spoil := range unfit {
			if only[name] == 3-version { // the server answers that
				continue
			}
			for range 10 {
				req := newRequest(t, "PUT", s.URL, nil)
				spoil(req)
				_, err := tr.RoundTrip(req)
				require.Error(t, err, name)
			}
			require.Equal(t, [4]uint64{1, 0, 1, 0}, counted(), "HTTP/%d: %s", version, name)
		}
	}
}

func TestAnAnswerThatInspectFailsProvesAWorkingHost(t *testing.T) {
	for code, failures := range map[int]uint64{200: 0, 202: 0, 404: 0, 501: 0, 503: 30} {
		for class := backoff.ClassUnknown; class <= backoff.ClassPermanent; class++ {
			if class == backoff.ClassThrottled || class == backoff.ClassOverloaded {
				continue // the program says so of the host
			}
			synctest.Test(t, func(t *testing.T) {
				tr, service, counted := tallied(newWire(answer(code)))
				service.Breaker = &backoff.Breaker{FailureRate: -1, ConsecutiveFailures: -1}
				tr.Policy = backoff.Policy{MaxAttempts: 1, Classify: func(error) backoff.Class { return class }}
				tr.Inspect = func(resp *http.Response) error { return errors.New("not what was asked for") }
				for range 30 {
					getRoot(t, tr)
				}
				require.Equal(t, failures, counted()[1], "%d, %s", code, class)
				tr.Inspect = func(resp *http.Response) error {
					return backoff.OfClass(errors.New("overloaded"), backoff.ClassRetryable)
				}
				getRoot(t, tr)
				require.Equal(t, failures+1, counted()[1], "a mark says that the host failed")
			})
		}
	}
}

func TestAnErrorThatNobodyKnowsIsAFailureThoughItIsNotRetried(t *testing.T) {
	w := newWire(failure(errors.New("unheard of")))
	tr, _, counted := tallied(w)
	for range 4 {
		require.Error(t, try(tr, newRequest(t, "GET", "http://a.test/", nil)))
	}
	require.Equal(t, [4]uint64{0, 4, 0, 0}, counted())
	require.Equal(t, 4, w.requests())
}

func TestARepeatedAnswerIsNoFailureAndCostsTheBudgetNothing(t *testing.T) {
	for _, code := range []int{404, 409, 423, 403, 202} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(answer(code))
			tr, _, counted := tallied(w)
			if code == 202 {
				tr.Inspect = func(resp *http.Response) error { return backoffhttp.Check(resp, 200) }
			}
			ctx := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) {
				p.Classify = func(err error) backoff.Class {
					if e := new(backoffhttp.StatusError); errors.As(err, &e) && e.Code == code {
						return backoff.ClassRetryable
					}
					return backoff.ClassUnknown
				}
			})
			for call := range 12 {
				require.Equal(t, code, roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx)).StatusCode)
				require.Equal(t, 4*(call+1), w.requests(), code)
			}
			require.Equal(t, [4]uint64{12, 0, 48, 0}, counted(), code)
		})
	}
}

func TestABodyThatIsLostHidesNoAnswerAndSaysNothingOfTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503, "Retry-After", "2"))
		tr, service, counted := tallied(w)
		lost := func() error {
			req := newRequest(t, "PUT", "http://a.test/", strings.NewReader("content"))
			req.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }
			_, err := tr.RoundTrip(req)
			return err
		}
		_, breaker := service.Parts()
		for range 30 {
			err := lost()
			gave, ok := err.(*backoff.Error)
			require.True(t, ok, "%T", err)
			require.ErrorIs(t, err, io.ErrClosedPipe)
			require.ErrorContains(t, err, "(Request.GetBody)")
			require.Equal(t, 503, statusOf(t, gave.Last).Code)
			require.Equal(t, []any{1, 2 * time.Second}, []any{gave.Attempts, gave.RetryAfter()})
			time.Sleep(time.Minute)
		}
		require.Equal(t, [4]uint64{0, 0, 0, 0}, counted())
		require.Equal(t, []int{30, 0}, []int{w.requests(), w.open()})
		breaker.Trip()
		time.Sleep(time.Minute)
		for range 3 {
			lost()
			require.Equal(t, backoff.BreakerHalfOpen, breaker.State())
		}
	})
}
