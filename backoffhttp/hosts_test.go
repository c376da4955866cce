package backoffhttp_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

// call makes n calls, half a second apart, and returns how many requests they
// made.
func calls(t *testing.T, tr http.RoundTripper, w *wire, url string, n int) int {
	before := w.requests()
	for range n {
		time.Sleep(500 * time.Millisecond)
		_ = try(tr, newRequest(t, "GET", url, nil))
	}
	return w.requests() - before
}

// A service that is down is not hit four times as
// hard, but left alone.
func TestAServiceThatIsDownIsSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503))
		guarded := &backoffhttp.Transport{Base: w}
		require.Less(t, calls(t, guarded, w, "http://a.test/", 1000), 500)
		budget := &backoffhttp.Unguarded{Base: w, Policy: backoff.Policy{Budget: new(backoff.RetryBudget)}}
		require.Less(t, calls(t, budget, w, "http://a.test/", 1000), 1100, "by the budget alone")
		none := &guard.Services{New: func(string) *guard.Service { return nil }}
		require.Equal(t, 80, calls(t, &backoffhttp.Transport{Base: w, Services: none}, w, "http://a.test/", 20), "without a service")
		naked := &backoffhttp.Unguarded{
			Base:     w,
			Services: &guard.Services{New: func(string) *guard.Service { t.Error("a service is made"); return nil }},
			Key:      func(*http.Request) string { t.Error("the key is asked for"); return "" },
		}
		require.Equal(t, 80, calls(t, naked, w, "http://a.test/", 20))
	})
}

// A program that makes one call, as a command or a cron job does, gets the
// attempts that it asked for: neither the budget nor the breaker of the host is
// in the way of its first call.
func TestTheFirstCallOfAClientMakesAllOfItsAttempts(t *testing.T) {
	for limit := 1; limit <= 6; limit++ {
		for failures := range 7 {
			var requests atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if int(requests.Add(1)) <= failures {
					w.WriteHeader(503)
				}
			}))
			client := backoffhttp.Client(backoff.Policy{MaxAttempts: limit, Schedule: backoff.Constant(time.Millisecond)})
			resp, err := client.Get(s.URL)
			require.NoError(t, err)
			require.EqualValues(t, min(failures+1, limit), requests.Load(), "%d failures, %d attempts", failures, limit)
			err = backoffhttp.Check(resp)
			require.Equal(t, failures < limit, err == nil)
			if err != nil {
				require.Equal(t, backoff.ReasonAttempts, gaveUp(t, resp).Reason)
			}
			resp.Body.Close()
			s.Close()
		}
	}
}

// The breaker counts calls, not attempts, also where their attempts take long.
func TestTheBreakerDoesNotEndACallForItsOwnFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503))
		tr := &backoffhttp.Transport{Base: w, Policy: steady()}
		tr.Policy.MaxAttempts, tr.Policy.Schedule = 20, backoff.Constant(time.Second)
		require.Equal(t, 503, getRoot(t, tr).StatusCode)
		require.Equal(t, 20, w.requests())
	})
}

func TestEachHostHasAFirstCallOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503))
		tr := &backoffhttp.Transport{Base: w, FailFast: true, Policy: backoff.Policy{MaxAttempts: 6}}
		for host := range 100 {
			url := "http://" + strconv.Itoa(host) + ".test/"
			require.Equal(t, 6, calls(t, tr, w, url, 1))
			require.Equal(t, 1, calls(t, tr, w, url, 1))
		}
	})
}

// door is a budget that grants first attempts canSendPlain while it is open.
type door struct {
	backoff.RetryBudget
	shut  bool
	asked int
}

func (d *door) GrantsFirst() bool { return !d.shut }

func (d *door) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if d.asked++; d.shut {
		return backoff.Ticket{}, time.Second, true
	}
	return d.RetryBudget.Reserve(a)
}

// A budget may want to be asked only at times, and is at once.
func TestABudgetIsAskedForFirstRequestsOnlyWhileItWantsToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(door)
		tr := &backoffhttp.Transport{Base: newWire(answer(200)), Policy: backoff.Policy{Budget: d}}
		for i, shut := range []bool{false, true, false, true} {
			d.shut = shut
			began := time.Now()
			getRoot(t, tr)
			require.Equal(t, shut, time.Since(began) == time.Second)
			require.Equal(t, (i+1)/2, d.asked)
			require.EqualValues(t, i+1, d.Stats().Successes)
		}
		d.shut, d.asked = false, 0
		tr.Base = newWire(func(req *http.Request) (*http.Response, error) { d.shut = true; return answer(503)(req) }, answer(200))
		getRoot(t, tr)
		require.Equal(t, 1, d.asked, "for the retry, and not for the first attempt, which it had granted")
	})
}

func TestTheBreakerRefusesAtOnceIfCallsFailFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503))
		tr := &backoffhttp.Transport{Base: w, FailFast: true}
		calls(t, tr, w, "http://a.test/", 10)
		before := w.requests()
		began := time.Now()
		body := &watched{ReadCloser: http.NoBody}
		_, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", body))
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.ErrorContains(t, err, "http://a.test: circuit open")
		require.ErrorContains(t, err, "503")
		require.Zero(t, time.Since(began))
		require.Equal(t, before, w.requests())
		require.True(t, body.closed.Load())
	})
}

func TestTheBreakerHearsOneVerdictPerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var services guard.Services
		w := newWire(answer(503), answer(503), answer(200))
		getRoot(t, &backoffhttp.Transport{Base: w, Policy: steady(), Services: &services})
		stats := services.For("http://a.test").State().Breaker
		require.EqualValues(t, 1, stats.Successes)
		require.Zero(t, stats.Failures)
	})
}

func TestPermanentResponsesDoNotOpenTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(404))
		tr := &backoffhttp.Transport{Base: w}
		require.Equal(t, 100, calls(t, tr, w, "http://a.test/", 100))
	})
}

// One that is down does not affect the others.
func TestGuardsAreOfOneHostAndScheme(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "down.test" {
				return answer(503)(req)
			}
			return answer(200)(req)
		})
		tr := &backoffhttp.Transport{Base: w, FailFast: true, Services: new(guard.Services)}
		calls(t, tr, w, "http://down.test/", 20)
		for _, url := range []string{"http://DOWN.test/", "https://down.test/", "http://down.test:8080/", "http://up.test/"} {
			_, err := tr.RoundTrip(newRequest(t, "GET", url, nil))
			if url == "http://DOWN.test/" {
				require.ErrorIs(t, err, backoff.ErrOpen, "a name has no case")
			} else {
				require.NoError(t, err, url)
			}
		}
		keys := slices.Sorted(maps.Keys(maps.Collect(tr.Services.All())))
		require.Equal(t, []string{"http://down.test", "http://down.test:8080", "http://up.test", "https://down.test"}, keys)
	})
}

// A host whose requests find its guards without a look at its key is in use all
// the same.
func TestAHostInUseOutlivesAFloodOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := make(map[string]int)
		tr := &backoffhttp.Transport{
			Base:     newWire(answer(200)),
			Services: &guard.Services{MaxKeys: 10, New: func(key string) *guard.Service { made[key]++; return new(guard.Service) }},
		}
		get := func(host string) { roundTrip(t, tr, newRequest(t, "GET", "http://"+host+".test/", nil)) }
		get("once")
		for range 3 {
			get("mine")
		}
		for i := range 1000 {
			get("host" + strconv.Itoa(i))
		}
		get("once")
		get("mine")
		require.Equal(t, 1, made["http://mine.test"])
		require.Equal(t, 2, made["http://once.test"])
	})
}

func TestARetryOnBehalfOfARetryIsPropagated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(503), answer(200))
		tr.Propagate = everywhere
		arriving("3", func(r *http.Request) {
			ctx := backoffhttp.WithRetry(r.Context(), func(p *backoff.Policy) {
				p.MaxAttempts, p.Idempotency = 2, backoff.Idempotent
			})
			roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
		})
		require.Equal(t, "3", w.request(0).header.Get(backoffhttp.HeaderAttempt))
		require.Equal(t, "4", w.request(1).header.Get(backoffhttp.HeaderAttempt))
	})
}

// arriving runs f as the handler of a request that was sent for the nth time.
func arriving(attempt string, f func(*http.Request)) {
	req, _ := http.NewRequest("GET", "http://own.test/", nil)
	if attempt != "" {
		req.Header.Set(backoffhttp.HeaderAttempt, attempt)
	}
	backoffhttp.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { f(r) })).ServeHTTP(nil, req)
}

// Budgets are paid by success, however it was found out.
func TestSuccessPaysTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var services guard.Services
		w := newWire(answer(200), answer(404), answer(503), answer(200))
		for _, tr := range []*backoffhttp.Transport{
			{Base: w, Services: &services}, {Base: w, Services: &services, MaxBuffer: 1},
		} {
			for range 3 {
				getRoot(t, tr)
			}
		}
		time.Sleep(time.Second)
		stats := services.For("http://a.test").State().Budget
		require.EqualValues(t, 6, stats.Successes, "the permanent response included, and the retried call once")
	})
}

func TestAWaitOfCenturiesLetsNobodyThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := holding(answer(200, "Retry-After", "99999999999"))
		tr.Policy.MaxRetryAfter = -1
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			_, _ = tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
			cancel()
		}
		require.Equal(t, 1, w.requests())
	})
}

// A Transport hands its policy on whole, and refuses an invalid one before it
// sends anything.
func TestATransportObeysTheLimitsOfAClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(429), answer(429), answer(429), answer(429), answer(503))
		tr.Policy = backoff.Policy{
			MaxAttempts: 2, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter,
			ByClass: map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: 6, Schedule: backoff.Constant(time.Minute)}},
		}
		began := time.Now()
		resp := getRoot(t, tr)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, 5, w.requests())
		require.Equal(t, 4*time.Minute, time.Since(began))
	})
	tr, w := scripted(answer(200))
	tr.Policy.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassOverloaded: {}}
	_, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
	require.ErrorContains(t, err, "Policy.ByClass[overloaded]")
	require.Zero(t, w.requests())
}
