package backoffhttp_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/pace"
)

// perSecond answers so many requests a second, and the others with 429.
func perSecond(rate int, header ...string) step {
	free, last, mu := float64(rate), time.Time{}, new(sync.Mutex)
	return func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if last.IsZero() {
			last = time.Now()
		}
		free = min(float64(rate), free+time.Since(last).Seconds()*float64(rate))
		if last = time.Now(); free < 1 {
			return answer(429, header...)(req)
		}
		free--
		return answer(200)(req)
	}
}

// A 429 is a rate, and not an outage. What other clients make of it is in
// internal/lab/guards.
func TestA429SlowsTheCallsToAHostInsteadOfFailingThem(t *testing.T) {
	for _, header := range [][]string{nil, {"Retry-After", "1"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(perSecond(100, header...))
			tr := &backoffhttp.Transport{Base: w}
			began := time.Now()
			var failed atomic.Int64
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					for range 20 {
						if getRoot(t, tr).StatusCode != 200 {
							failed.Add(1)
						}
					}
				})
			}
			all.Wait()
			require.LessOrEqual(t, failed.Load(), int64(5))
			require.Less(t, time.Since(began), 10350*time.Millisecond)
			require.Less(t, w.requests(), 1200)
		})
	}
}

// A quota that is used up is no rate.
func TestAQuotaThatIsExhaustedForHoursEndsTheCallAndSlowsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(429, "Retry-After", "3600"), answer(200))
		tr := &backoffhttp.Transport{Base: w}
		began := time.Now()
		resp := getRoot(t, tr)
		require.Equal(t, 429, resp.StatusCode)
		require.ErrorContains(t, backoffhttp.Check(resp), "the server asks for a longer wait (MaxRetryAfter)")
		require.Equal(t, time.Hour, gaveUp(t, resp).RetryAfter())
		for range 20 {
			require.Equal(t, 200, getRoot(t, tr).StatusCode)
		}
		require.Zero(t, time.Since(began))
	})
}

// The gate holds all requests back until the time that the server said. Then
// they come at the pace, and not all at once.
func TestASharedRetryAfterIsFollowedAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := perSecond(10)
		begin := time.Now()
		w := newWire(func(req *http.Request) (*http.Response, error) {
			if since := time.Since(begin); since < 3*time.Second {
				return answer(429, "Retry-After", strconv.Itoa(3-int(since.Seconds())))(req)
			}
			return limited(req)
		})
		tr := slowed(t, &backoffhttp.Transport{Base: w, Services: sharing()})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { require.Equal(t, 200, getRoot(t, tr).StatusCode) })
		}
		all.Wait()
		require.GreaterOrEqual(t, w.request(1).at.Sub(begin), 3*time.Second)
		require.Less(t, w.requests(), 60)
	})
}

// slowed makes a call that is throttled, so that the others to http://a.test wait
// for their turn.
func slowed(t *testing.T, tr *backoffhttp.Transport) *backoffhttp.Transport {
	require.Equal(t, 429, roundTrip(t, tr, newRequest(t, "POST", "http://a.test/", nil)).StatusCode)
	return tr
}

// A call that cannot have its turn within its own time ends at once.
func TestACallThatIsPacedEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(429), answer(200))
		tr := slowed(t, &backoffhttp.Transport{Base: w})
		ctx := within(t, 100*time.Millisecond)
		began := time.Now()
		_, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the Budget makes it wait until after the deadline")
		require.Zero(t, time.Since(began))
		require.Equal(t, 1, w.requests())
	})
}

// No more than 1,000 calls wait for their turn, and none longer than
// MaxRetryAfter. The error says so.
func TestTheErrorSaysThatTooManyCallsWaitForTheirTurn(t *testing.T) {
	const remark = "backoff: not started: budget refused (Budget); too many calls to the host wait for their turn (Policy.MaxRetryAfter, Transport.Services)"
	for name, longest := range map[string]time.Duration{"too many": -1, "too long": 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			tr := slowed(t, &backoffhttp.Transport{Base: newWire(answer(429), answer(200)), FailFast: true, Policy: backoff.Policy{MaxRetryAfter: longest}})
			var all sync.WaitGroup
			var refused atomic.Value
			for range 1100 {
				all.Go(func() {
					if _, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil)); err != nil {
						refused.Store(err)
					}
				})
			}
			all.Wait()
			err, _ := refused.Load().(error)
			require.EqualError(t, err, remark, name)
			require.ErrorIs(t, err, backoff.ErrBudget)
			require.False(t, (&backoff.Policy{}).Retryable(err))
		})
	}
}

// The RetryBudget of the same host, which pays for retries after other failures,
// is named as before, also where there is no answer.
func TestTheErrorNamesTheBudgetOfTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(failure(syscall.ECONNRESET))
		tr := &backoffhttp.Transport{Base: w, FailFast: true, Policy: backoff.Policy{MaxAttempts: 3}}
		var last error
		for range 3 {
			_, last = tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
		}
		require.ErrorIs(t, last, backoff.ErrBudget)
		require.ErrorIs(t, last, syscall.ECONNRESET)
		require.ErrorContains(t, last, "; it is the budget of the host (Transport.Services)")
	})
}

// What a request got that was sent before the pace began is its answer, also
// where its host has a long line by then.
func TestARequestUnderWayKeepsItsAnswerWhenThePaceBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := new(pace.Pacer)
		transport := &backoffhttp.Unguarded{Policy: backoff.Policy{Budget: host}}
		transport.Base = step(func(req *http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return answer(404)(req)
		})
		var group sync.WaitGroup
		group.Go(func() {
			resp, err := transport.RoundTrip(newRequest(t, "GET", "http://api.test/", nil))
			require.NoError(t, err)
			require.NotErrorIs(t, backoffhttp.Check(resp), backoff.ErrBudget)
		})
		time.Sleep(2 * time.Second)
		host.Done(backoff.Ticket{}, backoff.Result{Failed: true, Class: backoff.ClassThrottled})
		for ok := true; ok; {
			_, _, ok = host.Reserve(backoff.Attempt{Number: 1})
		}
		group.Wait()
	})
}

func TestAHoldOffOfAPolicyHearsOfRetryAfter(t *testing.T) {
	for _, once := range []int{1, 0} { // with and without an attempt that was asked for before
		synctest.Test(t, func(t *testing.T) {
			h := new(pace.HoldOff)
			w := newWire(answer(503, "Retry-After", "60"), answer(200))
			tr := &backoffhttp.Transport{Base: w, Policy: backoff.Policy{MaxAttempts: 1, Budget: h}, MaxBuffer: int64(once)}
			getRoot(t, tr)
			roundTrip(t, tr, newRequest(t, "GET", "http://b.test/", nil))
			require.GreaterOrEqual(t, w.waits()[0], time.Minute, "also at another host that shares it")
		})
	}
}
