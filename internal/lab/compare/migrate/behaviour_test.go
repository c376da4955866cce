package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
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

func TestCenkaltisConstantIsTheSame(t *testing.T) {
	for _, c := range cenkaltiConstant.and(cenkalti4Constant, cenkalti7Constant, hereConstant) {
		r := recorded(t, c, errDown)
		require.Equal(t, seconds(0, 1, 2, 3, 4), r.at)
		require.ErrorIs(t, r.err, errDown)
	}
}

func TestCenkaltisExponentialIsTheSame(t *testing.T) {
	for _, c := range cenkaltiExponential.and(cenkalti4Exponential, cenkalti7Exponential, hereExponential) {
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

func TestCenkaltisDefaultHasNoLimitButTime(t *testing.T) {
	for _, c := range cenkaltiPermanent.and(cenkalti4Permanent, cenkalti7Permanent) {
		r := recorded(t, c, errDown)
		require.Greater(t, len(r.at), 10)
		require.Less(t, r.at[len(r.at)-1], 15*time.Minute)
	}
	require.Len(t, recorded(t, herePermanent, errDown).at, 4)
}

func TestPermanentErrorsComeBackBare(t *testing.T) {
	bare := map[string]bool{"4": true, "5": true, "6": false, "7": false, "here": true}
	for name, c := range map[string]call{"4": cenkalti4Permanent, "5": cenkaltiPermanent.in5, "6": cenkaltiPermanent.in6, "7": cenkalti7Permanent, "here": herePermanent} {
		r := recorded(t, c, errGone)
		require.Len(t, r.at, 1, name)
		require.ErrorIs(t, r.err, errGone)
		require.Equal(t, bare[name], r.err.Error() == errGone.Error(), "%s: %v", name, r.err)
		require.Equal(t, name == "4" || name == "5", r.err == errGone, name)
	}
}

func TestTheHookOfCenkaltiIsCalledAsOften(t *testing.T) {
	for _, c := range cenkaltiNotify.and(cenkalti4Notify, cenkalti7Notify, hereNotify) {
		require.Equal(t, 2, logged(t, func() { require.Len(t, recorded(t, c, errDown).at, 3) }))
	}
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

func TestARetryAfterOfCenkaltisIsExactAndHereItIsSpreadUpward(t *testing.T) {
	for _, c := range cenkaltiRetryAfter.and(cenkalti7RetryAfter) {
		require.Equal(t, seconds(30), recorded(t, c, errDown).waits())
	}
	wait := recorded(t, hereRetryAfter, errDown).waits()[0]
	require.GreaterOrEqual(t, wait, 30*time.Second)
	require.LessOrEqual(t, wait, 33*time.Second)

	require.NotErrorIs(t, recorded(t, cenkaltiRetryAfter.in5, errDown).err, errDown, "v5 and v6 know no cause")
	require.ErrorIs(t, recorded(t, cenkalti7RetryAfter, errDown).err, errDown)
	require.ErrorIs(t, recorded(t, hereRetryAfter, errDown).err, errDown)
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
	require.Equal(t, "cancelled", cenkalti7Reason(cancelled(cenkalti7Constant)))
	require.Equal(t, "cancelled", hereReason(cancelled(hereConstant)))
}

func TestLoopsOfTheCallersOwn(t *testing.T) {
	for _, c := range []call{cenkalti7Ticker, cenkalti7OwnLoop, hereRange, hereOwnLoop, herePlug} {
		r := recorded(t, c, errDown, errDown, nil)
		require.NoError(t, r.err)
		require.Len(t, r.at, 3)
	}
	for _, c := range []call{hereRange, hereOwnLoop, herePlug} {
		r := recorded(t, c, errDown)
		require.ErrorIs(t, r.err, errDown)
		require.Len(t, r.at, 4)
	}
}

// sleep is what a program calls between attempts, and what its tests replace.
var sleep = time.Sleep

func TestATestMayReplaceTheWait(t *testing.T) {
	defer func() { sleep = time.Sleep }()
	for _, c := range []call{cenkalti7OwnLoop, hereOwnLoop} {
		var waits []time.Duration
		sleep = func(wait time.Duration) { waits = append(waits, wait) }
		r := recorded(t, c, errDown, errDown, nil)
		require.NoError(t, r.err)
		require.Len(t, waits, 2)
		require.Equal(t, seconds(0, 0), r.waits(), "nothing has slept")
	}
}

// The ticks of cenkalti's Ticker go on during an attempt.
func TestATickerCountsTheWaitWhileTheAttemptRuns(t *testing.T) {
	gaps := func(c call) (all []time.Duration) {
		var ended time.Time
		_ = recorded(t, func(ctx context.Context, op operation) error {
			return c(ctx, func(ctx context.Context) error {
				if !ended.IsZero() {
					all = append(all, time.Since(ended))
				}
				err := op(ctx)
				time.Sleep(10 * time.Second)
				ended = time.Now()
				return err
			})
		}, errDown, errDown, nil)
		return all
	}
	require.Equal(t, seconds(0, 0), gaps(cenkalti7Ticker))
	for _, gap := range gaps(hereRange) {
		require.Positive(t, gap)
	}
}

func TestValuesComeBack(t *testing.T) {
	for i, c := range []func(context.Context, func(context.Context) (string, error)) (string, error){
		cenkalti4Value, cenkalti7Value, avast4Value, avast5Value, failsafeHedge, hereValue, hereHedge,
	} {
		synctest.Test(t, func(t *testing.T) {
			page, err := c(t.Context(), func(context.Context) (string, error) { return "page", nil })
			require.NoError(t, err, i)
			require.Equal(t, "page", page)
			time.Sleep(time.Minute)
		})
	}
}

func TestAvastsExponentialIsTheSame(t *testing.T) {
	for _, c := range []call{avast4Exponential, avast5Exponential, hereAvastExponential} {
		for range 50 {
			r := recorded(t, c, errDown)
			require.Len(t, r.at, 5)
			require.ErrorIs(t, r.err, errDown)
			for i, wait := range r.waits() {
				delay := 200 * time.Millisecond << i
				require.GreaterOrEqual(t, wait, delay)
				require.LessOrEqual(t, wait, delay+100*time.Millisecond)
			}
		}
	}
}

func TestTheHookOfAvastIsAlsoCalledAtTheEnd(t *testing.T) {
	for _, c := range []call{avast4Hooks, avast5Hooks} {
		require.Equal(t, 3, logged(t, func() { require.Len(t, recorded(t, c, errBusy).at, 3) }))
	}
	require.Equal(t, 2, logged(t, func() { require.Len(t, recorded(t, hereAvastHooks, errBusy).at, 3) }))
	for _, c := range []call{avast4Hooks, avast5Hooks, hereAvastHooks} {
		require.Len(t, recorded(t, c, errDown).at, 1, "the predicate says no")
	}
}

func TestZeroAttemptsAreNoLimitInAvast(t *testing.T) {
	results := make([]error, 31)
	for i := range 30 {
		results[i] = errDown
	}
	zero := func(ctx context.Context, op operation) error {
		return avast.New(avast.Context(ctx), avast.Attempts(0)).Do(func() error { return op(ctx) })
	}
	for _, c := range []call{zero, avast5Forever, hereAvastForever} {
		require.Len(t, recorded(t, c, results...).at, 31)
	}
}

func TestALimitForOneError(t *testing.T) {
	for _, c := range []call{avast5PerError, hereAvastPerError} {
		r := recorded(t, c, errBusy, errDown, errBusy)
		require.Len(t, r.at, 3)
		require.ErrorIs(t, r.err, errBusy)
		require.Len(t, recorded(t, c, errDown).at, 10)
	}
	require.Len(t, recorded(t, avast5PerError, errDown, errBusy).at, 3, "avast counts the failures with this error")
	require.Len(t, recorded(t, hereAvastPerError, errDown, errBusy).at, 2, "here the limit counts all attempts")
}

func TestADelayByErrorIsTheSame(t *testing.T) {
	for _, c := range []call{avast5DelayByError, failsafeDelayByError, hereDelayByError} {
		r := recorded(t, c, errDown, errBusy, errBusy, errDown, nil)
		require.NoError(t, r.err)
		require.Equal(t, seconds(0.05, 1, 1, 0.05), r.waits())
		require.Len(t, recorded(t, c, errDown).at, 10)
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
	require.Len(t, recorded(t, avast5Throttle, errDown).at, 10)
	require.Len(t, recorded(t, hereAvastThrottle, errDown).at, 10)
	policy := backoff.Policy{MaxAttempts: 10, Budget: &backoff.RetryBudget{}}
	require.Len(t, recorded(t, policy.Do, errDown).at, 10)
	r := recorded(t, policy.Do, errDown)
	require.Len(t, r.at, 1)
	require.ErrorIs(t, r.err, backoff.ErrBudget)
	require.ErrorIs(t, r.err, errDown)
}

func TestSethvargosMarkIsTheOppositeOne(t *testing.T) {
	for _, c := range []call{sethvargoExponential, hereSethvargoExponential, hereSethvargoPredicate} {
		require.Len(t, recorded(t, c, errBusy).at, 5)
		r := recorded(t, c, errBusy, errGone)
		require.Len(t, r.at, 2)
		require.EqualError(t, r.err, "gone")
	}
	for _, c := range []call{sethvargoExponential, hereSethvargoExponential} {
		for i, wait := range recorded(t, c, errBusy).waits() {
			delay := float64(200*time.Millisecond) * float64(int(1)<<i)
			require.GreaterOrEqual(t, float64(wait)+1, min(0.9*delay, float64(time.Second)))
			require.LessOrEqual(t, wait, time.Second)
		}
	}
}

func TestTheErrorOfSethvargoIsBare(t *testing.T) {
	require.EqualError(t, recorded(t, sethvargoExponential, errBusy).err, "busy")
	err := recorded(t, hereSethvargoExponential, errBusy).err
	require.ErrorIs(t, err, errBusy)
	require.ErrorIs(t, err, backoff.ErrExhausted)
}

// sethvargo's cuts the last wait to the time that is left, and makes one more
// attempt.
func TestFibonacci(t *testing.T) {
	require.Equal(t, seconds(0, 1, 3, 6, 11, 19, 32, 53, 60), recorded(t, sethvargoFibonacci, errDown).at)
	require.Equal(t, seconds(0, 1, 3, 6, 11, 19, 32, 53), recorded(t, hereFibonacci, errDown).at)
}

func TestFailsafesRetryIsTheSame(t *testing.T) {
	for _, c := range []call{failsafeRetry, hereFailsafeRetry} {
		r := recorded(t, c, errDown)
		require.ErrorIs(t, r.err, errDown)
		require.Len(t, r.at, 5)
		for i, wait := range r.waits() {
			delay := 100 * time.Millisecond << i
			require.InDelta(t, delay.Seconds(), wait.Seconds(), 0.2501*delay.Seconds())
		}
		require.Len(t, recorded(t, c, errGone).at, 1)
	}
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

var (
	oldClients = map[string]func() *http.Client{"failsafe-go": failsafeClient, "go-retryablehttp": retryableClient}
	newClients = map[string]func() *http.Client{"for failsafe-go": hereClient, "for go-retryablehttp": hereRetryableClient}
)

// all calls a function for every client in a bubble of its own.
func all(t *testing.T, clients map[string]func() *http.Client, try func(*testing.T, func() *http.Client)) {
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { try(t, client) })
		})
	}
}

func TestAGETIsSentAgainByAll(t *testing.T) {
	for _, clients := range []map[string]func() *http.Client{oldClients, newClients} {
		all(t, clients, func(t *testing.T, client func() *http.Client) {
			s := &service{answers: []int{503, 503, 200}}
			resp, err := s.over(t, client, request(t, "GET"))
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, 3, s.sent)
		})
	}
}

func TestAPOSTIsNotSentAgainHere(t *testing.T) {
	all(t, oldClients, func(t *testing.T, client func() *http.Client) {
		s := &service{answers: []int{503, 503, 200}}
		_, err := s.over(t, client, request(t, "POST"))
		require.NoError(t, err)
		require.Equal(t, 3, s.sent)
	})
	all(t, newClients, func(t *testing.T, client func() *http.Client) {
		s := &service{answers: []int{503, 503, 200}}
		resp, err := s.over(t, client, request(t, "POST"))
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, 1, s.sent)
		s.sent = 0
		resp, err = s.over(t, client, hereRetryablePost(request(t, "POST")))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

func TestTheLastResponseIsReturnedHere(t *testing.T) {
	all(t, oldClients, func(t *testing.T, client func() *http.Client) {
		s := &service{answers: []int{503}}
		_, err := s.over(t, client, request(t, "GET"))
		require.Error(t, err)
		require.Equal(t, 4, s.sent)
	})
	all(t, newClients, func(t *testing.T, client func() *http.Client) {
		s := &service{answers: []int{503}}
		resp, err := s.over(t, client, request(t, "GET"))
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, 4, s.sent)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "why", string(text))
	})
}

func TestALongRetryAfterEndsTheCallHere(t *testing.T) {
	try := func(t *testing.T, client func() *http.Client) time.Duration {
		s := &service{answers: []int{503, 200}, after: "86400"}
		began := time.Now()
		_, err := s.over(t, client, request(t, "GET"))
		require.NoError(t, err)
		return time.Since(began)
	}
	all(t, oldClients, func(t *testing.T, client func() *http.Client) { require.Equal(t, 24*time.Hour, try(t, client)) })
	all(t, newClients, func(t *testing.T, client func() *http.Client) { require.Zero(t, try(t, client)) })
}

func TestARetryAfterCountsWithEveryStatusHere(t *testing.T) {
	try := func(t *testing.T, client func() *http.Client) time.Duration {
		s := &service{answers: []int{500, 200}, after: "20"}
		began := time.Now()
		resp, err := s.over(t, client, request(t, "GET"))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		return time.Since(began)
	}
	all(t, oldClients, func(t *testing.T, client func() *http.Client) { require.LessOrEqual(t, try(t, client), time.Second) })
	all(t, newClients, func(t *testing.T, client func() *http.Client) {
		require.GreaterOrEqual(t, try(t, client), 20*time.Second)
	})
}

func TestAChosenStatusIsRetried(t *testing.T) {
	all(t, map[string]func() *http.Client{"go-retryablehttp": retryableCheck, ours: hereRetryableCheck}, func(t *testing.T, client func() *http.Client) {
		s := &service{answers: []int{404, 404, 200}}
		resp, err := s.over(t, client, request(t, "GET"))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

func TestAPluggedClientObeysThePolicy(t *testing.T) {
	all(t, map[string]func() *http.Client{"go-retryablehttp": retryablePlugged}, func(t *testing.T, client func() *http.Client) {
		s := &service{answers: []int{503}}
		_, err := s.over(t, client, request(t, "GET"))
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Equal(t, 4, s.sent)
		s.sent = 0
		resp, err := s.over(t, client, request(t, "POST"))
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, 1, s.sent)
	})
}

// A client with CheckRetry, Backoff, ErrorHandler, a Timeout and a CheckRedirect
// of its own, as Vault's has, moved whole, and kept with a policy.
func TestAWholeClientBehavesAlike(t *testing.T) {
	clients := map[string]func() *http.Client{
		"go-retryablehttp": retryableWhole, "go-retryablehttp with plug": retryableKept, ours: hereRetryableWhole,
	}
	for _, row := range []struct {
		method  string
		answers []int
		sent    int
		took    time.Duration
		status  int // 0 is a timeout
	}{
		{"GET", []int{200}, 1, 0, 200},
		{"GET", []int{412, 412, 200}, 3, 3 * time.Second, 200},
		{"GET", []int{412}, 3, 3 * time.Second, 412},
		{"GET", []int{404}, 1, 0, 404},
		{"GET", []int{302}, 1, 0, 302},
		{"GET", []int{501}, 1, 0, 501},
		{"PUT", []int{503}, 3, 3 * time.Second, 503},
		{"POST", []int{503, 200}, 2, time.Second, 200},
		{"POST", []int{400}, 1, 0, 400},
		{"GET", []int{0, 200}, 2, 11 * time.Second, 200},
		{"POST", []int{0, 200}, 2, 11 * time.Second, 200},
		{"GET", []int{0}, 3, 33 * time.Second, 0},
	} {
		all(t, clients, func(t *testing.T, client func() *http.Client) {
			s := &service{answers: row.answers}
			began := time.Now()
			resp, err := s.over(t, client, request(t, row.method))
			require.Equal(t, row.took, time.Since(began), row)
			require.Equal(t, row.sent, s.sent, row)
			if row.status == 0 {
				require.True(t, errors.Is(err, context.DeadlineExceeded), err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.status, resp.StatusCode)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "why", string(text))
		})
	}
}

// What else a client with a policy does.
func TestAWholeClientObeysRetryAfterAndSaysThatItGaveUp(t *testing.T) {
	try := func(t *testing.T, client func() *http.Client) (time.Duration, *http.Response) {
		s := &service{answers: []int{503}, after: "60"}
		began := time.Now()
		resp, err := s.over(t, client, request(t, "GET"))
		require.NoError(t, err)
		require.Equal(t, 3, s.sent)
		return time.Since(began), resp
	}
	all(t, map[string]func() *http.Client{"go-retryablehttp": retryableWhole}, func(t *testing.T, client func() *http.Client) {
		took, _ := try(t, client)
		require.Equal(t, 3*time.Second, took)
	})
	all(t, map[string]func() *http.Client{"with plug": retryableKept, ours: hereRetryableWhole}, func(t *testing.T, client func() *http.Client) {
		took, resp := try(t, client)
		require.GreaterOrEqual(t, took, 2*time.Minute)
		gave, ok := errors.AsType[*backoff.Error](backoffhttp.Check(resp))
		require.True(t, ok)
		require.Equal(t, 3, gave.Attempts)
	})
}

func TestAPOSTThatIsSafeIsSentAgain(t *testing.T) {
	all(t, map[string]func() *http.Client{ours: hereRetryableSafe}, func(t *testing.T, client func() *http.Client) {
		s := &service{answers: []int{503, 503, 200}}
		resp, err := s.over(t, client, request(t, "POST"))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

// A Timeout of net/http around a Transport is the whole call's.
func TestATimeoutLimitsTheCallOrTheAttempt(t *testing.T) {
	for _, c := range []struct {
		client  func() *http.Client
		answers bool
	}{
		{func() *http.Client {
			c := failsafeClient()
			c.Timeout = 10 * time.Second
			return c
		}, false},
		{func() *http.Client {
			c := hereRetryableClient()
			c.Timeout = 10 * time.Second
			return c
		}, false},
		{retryableWhole, true},
		{hereRetryableWhole, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{answers: []int{0, 200}}
			_, err := s.over(t, c.client, request(t, "PUT"))
			require.Equal(t, c.answers, err == nil, err)
		})
	}
}
