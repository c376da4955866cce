package backoffhttp_test

import (
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

// What a request got that was sent before the pace began is its answer, also
// where its host has a long line by then.
func TestARequestUnderWayKeepsItsAnswerWhenThePaceBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := new(pace.Pacer)
		transport := &backoffhttp.Unguarded{Policy: backoff.Policy{Budget: host}}
		transport.Base = newBase(func(req *http.Request) (*http.Response, error) {
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
