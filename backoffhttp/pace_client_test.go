package backoffhttp_test

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/pace"
)

// answering is a RoundTripper that answers with a status.
type answering func(*http.Request) int

func (f answering) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f(req), Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// Fifty requests are under way when the first 429 comes. The others take up to
// two seconds to come, and were sent before.
func TestRequestsUnderWaySlowTheirHostDownOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := new(pace.Pacer)
		transport := &backoffhttp.Transport{Unguarded: true, Policy: backoff.Policy{Budget: host, MaxAttempts: 1}}
		transport.Base = answering(func(*http.Request) int {
			time.Sleep(time.Duration(rand.Float64() * 2e9))
			return http.StatusTooManyRequests
		})
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				resp, err := transport.RoundTrip(newRequest(t, "GET", "http://api.test/", nil))
				require.NoError(t, err)
				require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			})
		}
		group.Wait()
		perSecond, _ := host.Limit()
		require.GreaterOrEqual(t, perSecond, .75)
	})
}

// What a request got that was sent before the pace began is its answer, also
// where its host has a long line by then.
func TestARequestUnderWayKeepsItsAnswerWhenThePaceBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := new(pace.Pacer)
		transport := &backoffhttp.Transport{Unguarded: true, Policy: backoff.Policy{Budget: host}}
		transport.Base = answering(func(*http.Request) int {
			time.Sleep(3 * time.Second)
			return http.StatusNotFound
		})
		var group sync.WaitGroup
		group.Go(func() {
			resp, err := transport.RoundTrip(newRequest(t, "GET", "http://api.test/", nil))
			require.NoError(t, err)
			require.NotErrorIs(t, backoffhttp.Check(resp), backoff.ErrBudget)
		})
		time.Sleep(2 * time.Second)
		host.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
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
