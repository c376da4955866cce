package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti4 "github.com/cenkalti/backoff/v4"
	cenkalti5 "github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

type operation = func(context.Context) error

var (
	errDown  = errors.New("down")
	errBusy  = errors.New("busy")
	errGone  = errors.New("gone")
	errEmpty = errors.New("empty")
)

func isBusy(err error) bool { return errors.Is(err, errBusy) }

type call = func(context.Context, operation) error

// A record tells when the attempts of a call were made, and what it returned.
type record struct {
	at  []time.Duration
	err error
}

// recorded makes a call in virtual time. Its attempts end in turn with
// the given errors, the last one again and again.
func recorded(t *testing.T, c call, results ...error) (r record) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r.err = c(t.Context(), func(context.Context) error {
			r.at = append(r.at, time.Since(began))
			return results[min(len(r.at), len(results))-1]
		})
	})
	return r
}

func (r record) waits() []time.Duration {
	var all []time.Duration
	for i := 1; i < len(r.at); i++ {
		all = append(all, r.at[i]-r.at[i-1])
	}
	return all
}

func seconds(all ...float64) []time.Duration {
	times := make([]time.Duration, len(all))
	for i, s := range all {
		times[i] = time.Duration(s * float64(time.Second))
	}
	return times
}

// logged counts the lines that are logged meanwhile.
func logged(t *testing.T, do func()) int {
	var text bytes.Buffer
	writer := log.Writer()
	log.SetOutput(&text)
	defer log.SetOutput(writer)
	do()
	require.NotContains(t, text.String(), "%!")
	return strings.Count(text.String(), "\n")
}

// A course is what calls of other libraries and of this one do alike.
type course struct {
	calls    []call
	results  []error // of the attempts in turn, the last one again and again
	attempts int
	// The waits, in seconds. One may be shorter and longer by a share of itself, and longer by some
	// more.
	delays       []float64
	jitter, more float64
}

var (
	avastPerError = []call{avast5PerError, hereAvastPerError}
	byError       = []call{avast5DelayByError, hereDelayByError}
	sethvargos3   = []call{sethvargoExponential, hereSethvargoExponential, hereSethvargoPredicate}
	failsafes2    = []call{failsafeRetry, hereFailsafeRetry}
	loopsHere     = []call{hereRange, hereOwnLoop, herePlug}
)

func TestCallsCorrespond(t *testing.T) {
	for _, c := range []course{
		{calls: append(loopsHere, cenkalti7Ticker, cenkalti7OwnLoop), results: []error{errDown, errDown, nil}, attempts: 3},
		{calls: loopsHere, results: []error{errDown}, attempts: 4},
		{calls: []call{avast5Exponential, hereAvastExponential}, results: []error{errDown}, attempts: 5, delays: []float64{0.2, 0.4, 0.8, 1.6}, more: 0.1},
		{calls: []call{avast5Hooks, hereAvastHooks}, results: []error{errDown}, attempts: 1}, // the predicate says no
		{calls: avastPerError, results: []error{errBusy, errDown, errBusy}, attempts: 3},
		{calls: avastPerError, results: []error{errDown}, attempts: 10},
		{calls: avastPerError[:1], results: []error{errDown, errBusy}, attempts: 3}, // avast counts the failures with this error,
		{calls: avastPerError[1:], results: []error{errDown, errBusy}, attempts: 2}, // and here the limit counts all attempts
		{calls: byError, results: []error{errDown, errBusy, errBusy, errDown, nil}, attempts: 5, delays: []float64{0.05, 1, 1, 0.05}},
		{calls: byError, results: []error{errDown}, attempts: 10},
		{calls: []call{avast5Throttle, hereAvastThrottle}, results: []error{errDown}, attempts: 10},
		{calls: sethvargos3[:2], results: []error{errBusy}, attempts: 5, delays: []float64{0.2, 0.4, 0.8, 1}, jitter: 0.1},
		{calls: sethvargos3, results: []error{errBusy}, attempts: 5},
		{calls: sethvargos3, results: []error{errBusy, errGone}, attempts: 2},
		{calls: failsafes2, results: []error{errDown}, attempts: 5, delays: []float64{0.1, 0.2, 0.4, 0.8}, jitter: 0.25},
		{calls: failsafes2, results: []error{errGone}, attempts: 1},
	} {
		for i, call := range slices.Repeat(c.calls, 20) {
			r := recorded(t, call, c.results...)
			require.Len(t, r.at, c.attempts, "call %d: %+v", i%len(c.calls), c)
			require.ErrorIs(t, r.err, c.results[len(c.results)-1])
			for n, delay := range c.delays {
				wait := r.waits()[n].Seconds()
				require.GreaterOrEqual(t, wait+1e-6, delay*(1-c.jitter), "%+v", c)
				require.LessOrEqual(t, wait-1e-6, delay*(1+c.jitter)+c.more, "%+v", c)
			}
		}
	}
}

func TestCenkaltisExponentialIsTheSame(t *testing.T) {
	for _, c := range []call{cenkalti4Exponential, cenkalti7Exponential, hereExponential} {
		for range 20 {
			r := recorded(t, c, errDown)
			require.Less(t, r.at[len(r.at)-1], 2*time.Minute)
			for i, wait := range r.waits() {
				delay := min(time.Minute, backoff.Exponential{Initial: time.Second / 2, Multiplier: 1.5, Max: -1}.Delay(i+1))
				require.GreaterOrEqual(t, wait+1, delay/2)
				require.LessOrEqual(t, wait-1, delay*3/2)
			}
		}
	}
}

func TestNotifyIsCalledForEachRetry(t *testing.T) {
	for _, c := range []call{cenkalti4Notify, hereNotify} {
		var r record
		lines := logged(t, func() { r = recorded(t, c, errDown, errDown, errDown, nil) })
		require.Len(t, r.at, 4)
		require.Equal(t, 3, lines)
		lines = logged(t, func() { r = recorded(t, c, errDown) })
		require.Equal(t, len(r.at)-1, lines)
		require.Less(t, r.at[len(r.at)-1], time.Minute)
		require.True(t, r.err == errDown)
	}
	require.True(t, recorded(t, cenkalti4Notify, cenkalti4.Permanent(errGone)).err == errGone)
	require.True(t, recorded(t, hereNotify, backoff.Permanent(errGone)).err == errGone)
}

// A context that is cancelled and one with a deadline end v4 with the context's
// error, which a caller may compare with.
func TestTheEndOfTheContextIsReturnedAsInV4(t *testing.T) {
	for _, c := range []call{cenkalti4Notify, hereNotify} {
		var late, stopped error
		attempts := recorded(t, func(ctx context.Context, save operation) error {
			limited, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			late = c(limited, save)
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			stopped = c(ctx, func(ctx context.Context) error {
				cancel()
				return save(ctx)
			})
			return nil
		}, errDown).at
		require.Greater(t, len(attempts), 3)
		require.True(t, late == context.DeadlineExceeded)
		require.True(t, stopped == context.Canceled)
	}
}

// Whoever waits for errGone, such as "there is no such file", must not take it for
// the end of the context.
func TestAPermanentErrorOutranksTheEndOfTheContextAsInV4(t *testing.T) {
	for name, permanent := range map[string]func(error) error{"v4": func(err error) error { return cenkalti4.Permanent(err) }, "here": backoff.Permanent} {
		c := map[string]call{"v4": cenkalti4Notify, "here": hereNotify}[name]
		for attempt := range 3 {
			var got error
			record := recorded(t, func(ctx context.Context, save operation) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				left := attempt
				got = c(ctx, func(ctx context.Context) error {
					err := save(ctx)
					if left--; left >= 0 {
						return err
					}
					cancel()
					return permanent(errGone)
				})
				return nil
			}, errDown)
			require.Len(t, record.at, attempt+1)
			require.True(t, got == errGone, "%s: %v", name, got)
		}
	}
}

func TestPermanentErrorsComeBackBare(t *testing.T) {
	_, inV5 := cenkalti5.Retry(t.Context(), func() (int, error) { return 0, cenkalti5.Permanent(errGone) })
	require.Equal(t, errGone, inV5)
	inV7 := recorded(t, cenkalti7Permanent, errGone).err
	require.ErrorIs(t, inV7, errGone)
	require.NotEqual(t, errGone.Error(), inV7.Error())
	here := recorded(t, herePermanent, errGone).err
	require.ErrorIs(t, here, errGone)
	require.EqualError(t, here, errGone.Error())
}

func TestTheReasonsCorrespond(t *testing.T) {
	for _, results := range [][]error{{errGone}, {errDown}} {
		old := recorded(t, cenkalti7Permanent, results...).err
		now := recorded(t, herePermanent, results...).err
		require.Equal(t, cenkalti7Reason(old), hereReason(now))
	}
	cancelled := func(c call) error {
		return recorded(t, func(ctx context.Context, op operation) error {
			ctx, cancel := context.WithCancel(ctx)
			return c(ctx, func(ctx context.Context) error { cancel(); return op(ctx) })
		}, errDown).err
	}
	require.Equal(t, "cancelled", cenkalti7Reason(cancelled(cenkalti7Exponential)))
	require.Equal(t, "cancelled", hereReason(cancelled(hereExponential)))
}

// sleep is what a program calls between attempts, and what its tests replace.
var sleep = time.Sleep

func TestTheHookOfAvastIsAlsoCalledAtTheEnd(t *testing.T) {
	for times, c := range map[int]call{3: avast5Hooks, 2: hereAvastHooks} {
		require.Equal(t, times, logged(t, func() { require.Len(t, recorded(t, c, errBusy).at, 3) }))
	}
}

// avast's bucket is full at the start, this library's budget has the attempts of
// one call then.
func TestTheBudgetsAtTheStart(t *testing.T) {
	bucket, retries := avast.NewFixedTokenBucketThrottle(avast.FixedTokenBucketThrottleConfig{}), 0
	for bucket.AllowRetry(0, errDown) {
		retries++
	}
	require.Equal(t, 20, retries)
	policy := backoff.Policy{MaxAttempts: 10, Budget: &backoff.RetryBudget{}}
	require.Len(t, recorded(t, policy.Do, errDown).at, 10)
	r := recorded(t, policy.Do, errDown)
	require.Len(t, r.at, 1)
	require.ErrorIs(t, r.err, backoff.ErrBudget)
	require.ErrorIs(t, r.err, errDown)
}

// Both end an attempt that hangs, and make another one.
func TestStacksCorrespond(t *testing.T) {
	for name, c := range map[string]call{"failsafe-go": failsafeStack, ours: hereFailsafeStack} {
		synctest.Test(t, func(t *testing.T) {
			began, calls := time.Now(), 0
			err := c(t.Context(), func(ctx context.Context) error {
				if calls++; calls == 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
			require.NoError(t, err, name)
			require.Equal(t, 2, calls, name)
			require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
			require.Less(t, time.Since(began), 2500*time.Millisecond)
		})
	}
}

const ours = "here"

func TestAHedgeIsSentAfterASecond(t *testing.T) {
	for _, c := range []func(context.Context, func(context.Context) (string, error)) (string, error){failsafeHedge, hereHedge} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			first := make(chan struct{}, 1)
			first <- struct{}{}
			page, err := c(t.Context(), func(ctx context.Context) (string, error) {
				select {
				case <-first:
					<-ctx.Done()
					return "", ctx.Err()
				default:
					return "page", nil
				}
			})
			require.NoError(t, err)
			require.Equal(t, "page", page)
			require.Equal(t, time.Second, time.Since(began))
		})
	}
}

func TestFallbacksAndResults(t *testing.T) {
	type fetching = func(context.Context, func(context.Context) (string, error)) (string, error)
	for _, c := range []fetching{failsafeFallback, hereFallback} {
		synctest.Test(t, func(t *testing.T) {
			page, err := c(t.Context(), func(context.Context) (string, error) { return "", errDown })
			require.NoError(t, err)
			require.Equal(t, "yesterday's", page)
		})
	}
	for _, c := range []fetching{failsafeByResult, hereByResult} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			page, err := c(t.Context(), func(context.Context) (string, error) {
				if calls++; calls < 3 {
					return "", nil
				}
				return "page", nil
			})
			require.NoError(t, err)
			require.Equal(t, "page", page)
			require.Equal(t, 3, calls)
		})
	}
}

func TestBreakersOpenAndCloseAlike(t *testing.T) {
	for name, start := range map[string]func() func(context.Context, operation) error{"gobreaker": gobreakerBreaker, ours: hereBreaker} {
		t.Run(name, func(t *testing.T) {
			changes := logged(t, func() {
				synctest.Test(t, func(t *testing.T) {
					do := start()
					admitted := func(result error) bool {
						called := false
						_ = do(t.Context(), func(context.Context) error { called = true; return result })
						return called
					}
					for range 5 {
						require.True(t, admitted(errDown))
					}
					require.True(t, admitted(context.Canceled), "neither counts it")
					require.True(t, admitted(errDown))
					require.False(t, admitted(nil), "the sixth failure opened it")
					time.Sleep(time.Minute - 1)
					require.False(t, admitted(nil))
					time.Sleep(time.Millisecond)
					require.True(t, admitted(nil))
					require.True(t, admitted(errDown), "one success closed it")
					require.True(t, admitted(nil))
				})
			})
			require.Equal(t, 3, changes, "to open, half-open, closed")
		})
	}
}

func TestRefusalsAndTwoSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetch := func(context.Context) (string, error) { return "", errDown }
		old := gobreaker.NewCircuitBreaker[string](gobreaker.Settings{})
		for range 6 {
			_, err := gobreakerValue(old, t.Context(), fetch)
			require.ErrorIs(t, err, errDown)
		}
		_, err := gobreakerValue(old, t.Context(), fetch)
		require.Equal(t, errBusy, err)

		now := new(backoff.Breaker)
		_, err = hereBreakerValue(now, t.Context(), fetch)
		require.ErrorIs(t, err, errDown)
		now.Trip()
		require.Equal(t, 1, logged(t, func() { _, err = hereBreakerValue(now, t.Context(), fetch) }))
		require.Equal(t, errBusy, err)

		save := func(context.Context) error { return errDown }
		require.Equal(t, errDown, gobreakerTwoStep(gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{}), t.Context(), save))
		require.Equal(t, errDown, hereBreakerTwoStep(new(backoff.Breaker), t.Context(), save))
		require.ErrorIs(t, hereBreakerTwoStep(now, t.Context(), save), backoff.ErrOpen)
		now.Reset()
	})
}

// A service answers in turn, the last one again and again. 0 is no answer.
type service struct {
	answers []int
	after   string // Retry-After
	sent    int
}

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	status := s.answers[min(s.sent, len(s.answers)-1)]
	s.sent++
	if status == 0 {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	header := http.Header{}
	if s.after != "" {
		header.Set("Retry-After", s.after)
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: header, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader("why"))}, nil
}

// over makes a client and a request with it, and sends that to the service.
func (s *service) over(t *testing.T, client func() *http.Client, req *http.Request) (*http.Response, error) {
	base := http.DefaultTransport
	http.DefaultTransport = s
	defer func() { http.DefaultTransport = base }()
	c := client()
	if rt, ok := c.Transport.(*retryablehttp.RoundTripper); ok {
		rt.Client.HTTPClient.Transport = s // it does not use the default one
	}
	resp, err := c.Do(req)
	if err == nil {
		t.Cleanup(func() { resp.Body.Close() })
	}
	return resp, err
}

func request(t *testing.T, method string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), method, "http://service.test/", strings.NewReader("body"))
	require.NoError(t, err)
	return req
}

// An exchange is what clients make of a request.
type exchange struct {
	clients []func() *http.Client
	method  string
	change  func(*http.Request) *http.Request // may be nil
	answers []int
	after   string // Retry-After

	sent        int
	status      int           // 0 is an error,
	err         error         // which matches this
	least, most time.Duration // most counts if it is more
	gaveUp      bool          // the response says so
}

func TestHTTPClientsCorrespond(t *testing.T) {
	type clients = []func() *http.Client
	old, here := clients{failsafeClient, retryableClient}, clients{hereClient, hereRetryableClient}
	// The last ones have CheckRetry, Backoff, ErrorHandler, a Timeout and a CheckRedirect of their
	// own, as Vault's has: as it is, with a policy, and moved.
	whole := clients{retryableWhole, retryableKept, hereRetryableWhole}
	for _, x := range []exchange{
		{clients: slices.Concat(old, here), method: "GET", answers: []int{503, 503, 200}, sent: 3, status: 200, most: time.Minute},
		{clients: old, method: "POST", answers: []int{503, 503, 200}, sent: 3, status: 200, most: time.Minute},
		{clients: here, method: "POST", answers: []int{503, 503, 200}, sent: 1, status: 503},
		{clients: here, method: "POST", change: hereRetryablePost, answers: []int{503, 503, 200}, sent: 3, status: 200, most: time.Minute},
		{clients: clients{hereRetryableSafe}, method: "POST", answers: []int{503, 503, 200}, sent: 3, status: 200, most: time.Minute},
		{clients: old, method: "GET", answers: []int{503}, sent: 4, most: time.Minute},
		{clients: here, method: "GET", answers: []int{503}, sent: 4, status: 503, most: time.Minute},
		{clients: old, method: "GET", answers: []int{503, 200}, after: "86400", sent: 2, status: 200, least: 24 * time.Hour},
		{clients: here, method: "GET", answers: []int{503, 200}, after: "86400", sent: 1, status: 503},
		{clients: old, method: "GET", answers: []int{500, 200}, after: "20", sent: 2, status: 200, most: time.Second},
		{clients: here, method: "GET", answers: []int{500, 200}, after: "20", sent: 2, status: 200, least: 20 * time.Second, most: time.Minute},

		{clients: clients{retryablePlugged}, method: "GET", answers: []int{503}, sent: 4, err: backoff.ErrExhausted, most: time.Minute},
		{clients: clients{retryablePlugged}, method: "POST", answers: []int{503}, sent: 1, status: 503},

		{clients: whole, method: "GET", answers: []int{200}, sent: 1, status: 200},
		{clients: whole, method: "GET", answers: []int{412, 412, 200}, sent: 3, status: 200, least: 3 * time.Second},
		{clients: whole, method: "GET", answers: []int{412}, sent: 3, status: 412, least: 3 * time.Second},
		{clients: whole, method: "GET", answers: []int{404}, sent: 1, status: 404},
		{clients: whole, method: "GET", answers: []int{302}, sent: 1, status: 302},
		{clients: whole, method: "GET", answers: []int{501}, sent: 1, status: 501},
		{clients: whole, method: "PUT", answers: []int{503}, sent: 3, status: 503, least: 3 * time.Second},
		{clients: whole, method: "POST", answers: []int{503, 200}, sent: 2, status: 200, least: time.Second},
		{clients: whole, method: "POST", answers: []int{400}, sent: 1, status: 400},
		{clients: whole, method: "GET", answers: []int{0, 200}, sent: 2, status: 200, least: 11 * time.Second},
		{clients: whole, method: "POST", answers: []int{0, 200}, sent: 2, status: 200, least: 11 * time.Second},
		{clients: whole, method: "GET", answers: []int{0}, sent: 3, err: context.DeadlineExceeded, least: 33 * time.Second},
		{clients: whole[:1], method: "GET", answers: []int{503}, after: "60", sent: 3, status: 503, least: 3 * time.Second},
		{clients: whole[1:], method: "GET", answers: []int{503}, after: "60", sent: 3, status: 503, least: 2 * time.Minute, most: 3 * time.Minute, gaveUp: true},
	} {
		for _, client := range x.clients {
			synctest.Test(t, func(t *testing.T) { x.try(t, client) })
		}
	}
}

func (x exchange) try(t *testing.T, client func() *http.Client) {
	s, began, req := &service{answers: x.answers, after: x.after}, time.Now(), request(t, x.method)
	if req = req.WithContext(guard.WithFailFast(req.Context())); x.change != nil {
		req = x.change(req)
	}
	resp, err := s.over(t, client, req)
	took := time.Since(began)
	require.Equal(t, x.sent, s.sent, "%+v", x)
	require.GreaterOrEqual(t, took, x.least, "%+v", x)
	require.LessOrEqual(t, took, max(x.least, x.most), "%+v", x)
	if x.status == 0 {
		require.Error(t, err, "%+v", x)
		require.True(t, x.err == nil || errors.Is(err, x.err), err)
		return
	}
	require.NoError(t, err, "%+v", x)
	require.Equal(t, x.status, resp.StatusCode, "%+v", x)
	if x.gaveUp {
		gave, ok := errors.AsType[*backoff.Error](backoffhttp.Check(resp))
		require.True(t, ok)
		require.Equal(t, x.sent, gave.Attempts)
		return
	}
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "why", string(text))
}
