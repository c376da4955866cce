package backoffhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/guard"
)

// controlled returns a Transport over w under the handle of a policy.
func controlled(w http.RoundTripper, panel *control.Panel) *backoffhttp.Unguarded {
	handle := panel.Policy(backoff.Policy{Name: "search", Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter})
	return &backoffhttp.Unguarded{Base: w, Control: handle}
}

func override(t *testing.T, panel *control.Panel, what, to string) {
	t.Helper()
	require.NoError(t, panel.Set(t.Context(), control.Override{
		Target: control.Target{What: what, Name: "search"}, To: to, Who: "ada", Why: "drill", For: time.Minute,
	}))
}

func TestATransportFollowsItsControlAtTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panel control.Panel
		w := newWire(answer(503))
		tr := controlled(w, &panel)
		before := 0
		for _, c := range []struct {
			change func()
			want   int
		}{
			{func() {}, 4},
			{func() { override(t, &panel, control.Spec, `{"maxAttempts": 2}`) }, 2},
			{func() { override(t, &panel, control.Retries, control.Off) }, 1},
			{func() { time.Sleep(time.Minute); synctest.Wait() }, 4},
		} {
			c.change()
			for _, url := range []string{"http://a.test/", "http://b.test/", "http://a.test/"} {
				roundTrip(t, tr, newRequest(t, "GET", url, nil))
				require.Equal(t, c.want, w.requests()-before, url)
				before = w.requests()
			}
		}
	})
}

func TestAnAnswerTellsThatRetriesAreSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panel control.Panel
		w := newWire(answer(503))
		tr := controlled(w, &panel)
		override(t, &panel, control.Retries, control.Off)
		around := backoff.Policy{AttemptTimeout: time.Hour}
		err := around.Do(t.Context(), func(ctx context.Context) error {
			resp := roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
			return backoffhttp.Check(resp)
		})
		require.Equal(t, 1, w.requests(), "a policy around the Transport does not retry instead")
		require.ErrorContains(t, err, "search: gave up after 1 attempt; retries are switched off: status 503")
	})
}

func TestARequestDoesNotRetryAgainstAnOverride(t *testing.T) {
	for _, attempts := range []int{4, 1} { // of the policy of the program
		synctest.Test(t, func(t *testing.T) {
			var panel control.Panel
			w := newWire(answer(503))
			handle := panel.Policy(backoff.Policy{Name: "search", MaxAttempts: attempts})
			tr := &backoffhttp.Unguarded{Base: w, Control: handle}
			ctx := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) { p.MaxAttempts = 6 })
			req := newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx)
			roundTrip(t, tr, req)
			require.Equal(t, 6, w.requests())
			override(t, &panel, control.Retries, control.Off)
			resp := roundTrip(t, tr, req)
			require.Equal(t, 6+1, w.requests())
			require.False(t, new(backoff.Policy).Retryable(backoffhttp.Check(resp)), "nor does a policy around it")
		})
	}
}

// A Range request for the rest is a retry, too.
func TestABodyThatBreaksOffIsNotResumedWhileRetriesAreOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panel control.Panel
		requests := 0
		tr := controlled(step(func(req *http.Request) (*http.Response, error) {
			requests++
			return &http.Response{
				StatusCode: 200, ContentLength: 100, Header: http.Header{"Etag": {`"1"`}}, Request: req,
				Body: io.NopCloser(strings.NewReader("the beginning")),
			}, nil
		}), &panel)
		tr.Resume = true
		override(t, &panel, control.Retries, control.Off)
		_, err := io.ReadAll(getRoot(t, tr).Body)
		require.ErrorContains(t, err, "search: gave up after 1 attempt; retries are switched off: ")
		require.False(t, new(backoff.Policy).Retryable(err))
		require.Equal(t, 1, requests)
	})
}

func TestATransportUnderAControlKeepsTheGuardsOfItsHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panel control.Panel
		var seen []backoff.EventKind
		w := newWire(answer(503))
		tr := &backoffhttp.Transport{Base: w, FailFast: true, Services: new(guard.Services), Control: panel.Policy(backoff.Policy{
			Name: "search", MaxRetryAfter: time.Minute, AttemptTimeout: time.Second,
			Observer: func(_ context.Context, e backoff.Event) { seen = append(seen, e.Kind) },
		})}
		override(t, &panel, control.Retries, control.Off)
		getRoot(t, tr)
		_, breaker := tr.Services.For("http://a.test").Parts()
		require.EqualValues(t, 1, breaker.Stats().Failures)
		require.NoError(t, panel.Clear(t.Context(), control.Target{What: control.Retries, Name: "search"}, "ada", "over"))
		getRoot(t, tr)
		require.EqualValues(t, 2, breaker.Stats().Failures)
		require.NotEmpty(t, seen)
	})
}

func TestACallUnderAControlAllocatesNothingMore(t *testing.T) {
	resp := &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}
	base := step(func(req *http.Request) (*http.Response, error) { return resp, nil })
	req := newRequest(t, "GET", "http://a.test/", nil)
	measure := func(tr *backoffhttp.Transport) float64 {
		return testing.AllocsPerRun(100, func() { _, _ = tr.RoundTrip(req) })
	}
	var panel control.Panel
	handle := panel.Policy(backoff.Policy{Name: "search"})
	require.Equal(t, measure(&backoffhttp.Transport{Base: base}), measure(&backoffhttp.Transport{Base: base, Control: handle}))
}

// A client's default, a part's, a call's; each overrides what it wants
// to.
func TestOverridesInherit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(503))
		tr.Policy.MaxAttempts = 2
		part := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) {
			require.Equal(t, 2, p.MaxAttempts)
			p.MaxAttempts = 5
			p.Schedule = backoff.Constant(time.Second)
		})
		one := backoffhttp.WithRetry(part, func(p *backoff.Policy) {
			require.Equal(t, 5, p.MaxAttempts, "the outer one comes first")
			p.MaxAttempts = 3
		})
		roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(one))
		require.Equal(t, []time.Duration{time.Second, time.Second}, w.waits())
		roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(part))
		require.Equal(t, 3+5, w.requests())
		getRoot(t, tr)
		require.Equal(t, 3+5+2, w.requests(), "the transport's policy is as it was")
		require.Equal(t, 2, tr.Policy.MaxAttempts)
	})
}

func TestAnOverrideMayChangeClassifierAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(404), hang, answer(200))
		ctx := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) {
			p.AttemptTimeout = time.Second
			p.Classify = func(err error) backoff.Class {
				var e *backoffhttp.StatusError
				if errors.As(err, &e) && e.Code == 404 {
					return backoff.ClassRetryable
				}
				return backoff.ClassUnknown
			}
		})
		require.Equal(t, 200, roundTrip(t, over(w), newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx)).StatusCode)
	})
	ctx := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) { p.AttemptTimeoutSchedule = backoff.Constant(-1) })
	_, err := over(newWire(answer(200))).RoundTrip(newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
	require.ErrorContains(t, err, "AttemptTimeout")
}

func TestNoChangeOfAPolicyTakesTheBudgetAway(t *testing.T) {
	ctx := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) { *p = backoff.Policy{} })
	tr := &backoffhttp.Transport{Base: newWire(answer(503)), FailFast: true, Policy: backoff.Policy{Budget: refusing{}}}
	resp := roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
	require.Equal(t, backoff.ReasonBudget, gaveUp(t, resp).Reason)
}
