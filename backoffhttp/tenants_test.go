package backoffhttp_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/nightly"
)

// as returns a GET of a tenant.
func as(t testing.TB, credential, url string) *http.Request {
	req := newRequest(t, "GET", url, nil)
	req.Header.Set("Authorization", credential)
	return req
}

// by makes GETs of http://a.test/ by a tenant.
func by(t testing.TB, name string) func() *http.Request {
	return func() *http.Request { return as(t, "Bearer "+name, "http://a.test/") }
}

// tryBriefly sends a request that does not wait for its turn.
func tryBriefly(t testing.TB, rt http.RoundTripper, req *http.Request) {
	ctx := within(t, time.Millisecond)
	_ = try(rt, req.WithContext(ctx))
}

// refusingSome answers 5 ms after a request, and refuses those that it should.
func refusingSome(refused func(*http.Request) bool, header ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		time.Sleep(5 * time.Millisecond)
		if refused(req) {
			return answer(429, header...)(req)
		}
		return answer(200)(req)
	}
}

// refusingAlice refuses the requests of one tenant.
func refusingAlice(header ...string) step {
	return refusingSome(func(req *http.Request) bool { return req.Header.Get("Authorization") == "Bearer alice" }, header...)
}

// traffic makes calls as a tenant for a time, so many a second, each with 3 s,
// and returns how long those took that succeeded, in order, and how many calls
// there were.
func traffic(t *testing.T, rt http.RoundTripper, perSecond int, during time.Duration, make func() *http.Request) (took []time.Duration, calls int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for ; calls < int(during.Seconds()*float64(perSecond)); calls++ {
		all.Go(func() {
			ctx := within(t, 3*time.Second)
			began := time.Now()
			resp, err := rt.RoundTrip(make().WithContext(ctx))
			if err != nil {
				return
			}
			resp.Body.Close()
			if resp.StatusCode == 200 {
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	all.Wait()
	slices.Sort(took)
	return took, calls
}

// requireSpared requires that Bob's calls succeed as if he were alone.
func requireSpared(t *testing.T, rt http.RoundTripper, perSecond int, bob func() *http.Request) {
	t.Helper()
	took, calls := traffic(t, rt, perSecond, 20*time.Second, bob)
	require.GreaterOrEqual(t, len(took)*100, calls*99, "%d of %d", len(took), calls)
	require.LessOrEqual(t, took[len(took)/2], 10*time.Millisecond)
}

func TestATenantThatIsThrottledDoesNotStopAnother(t *testing.T) {
	nightly.Long(t)
	for name, header := range map[string][]string{"bare": nil, "Retry-After": {"Retry-After", "1"}, "quota": {"Retry-After", "3600"}, "do not retry": {"X-Should-Retry", "false"}} {
		for _, services := range []*guard.Services{nil, sharing()} {
			for _, rate := range []int{1, 4, 20} {
				bubble(t, fmt.Sprintf("%s, %d a second, shared %v", name, rate, services != nil), func(t *testing.T) {
					tr := &backoffhttp.Transport{Base: newWire(refusingAlice(header...)), Services: services}
					var all sync.WaitGroup
					all.Go(func() { traffic(t, tr, rate, 60*time.Second, by(t, "alice")) })
					time.Sleep(10*time.Second - time.Millisecond)
					requireSpared(t, tr, 20, by(t, "bob"))
					all.Wait()
				})
			}
		}
	}
}

// A call that waits for its turn must not hold the probe of a circuit meanwhile.
func TestAThrottledTenantDoesNotKeepTheCircuitFromClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, answers := false, 0
		var mu sync.Mutex
		tr := &backoffhttp.Transport{Base: newWire(func(req *http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if down {
				return nil, syscall.ECONNREFUSED
			}
			if req.Header.Get("Authorization") == "Bearer alice" {
				if answers++; answers%4 != 0 {
					return answer(429)(req)
				}
			}
			return answer(200)(req)
		})}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		told := map[string]bool{}
		all.Go(func() { // 50 calls a second, each with a minute
			for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(guard.WithFailFast(ctx), time.Minute)
					defer cancel()
					resp, err := tr.RoundTrip(by(t, "alice")().WithContext(ctx))
					if err == nil {
						resp.Body.Close()
						return
					}
					mu.Lock()
					defer mu.Unlock()
					told[err.Error()] = true
				})
			}
		})
		bob := by(t, "bob")
		traffic(t, tr, 10, 30*time.Second, bob)
		set := func(is bool) {
			mu.Lock()
			defer mu.Unlock()
			down = is
		}
		set(true)
		traffic(t, tr, 10, 20*time.Second, bob)
		set(false)
		traffic(t, tr, 10, 20*time.Second, bob)
		requireSpared(t, tr, 10, bob)
		stop()
		all.Wait()
		require.Contains(t, told, "backoff: http://a.test: circuit half-open: calls of this tenant wait for their turn, and leave the probe to others")
	})
}

// A limit on the whole host paces all of its tenants. They may all probe it.
func TestTenantsThatWereAllThrottledProbeTheirHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		respond := answer(200)
		set := func(s step) {
			mu.Lock()
			defer mu.Unlock()
			respond = s
		}
		tr := &backoffhttp.Transport{Base: newWire(func(req *http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			return respond(req)
		})}
		both := func(during time.Duration) (served int) {
			var all sync.WaitGroup
			for _, who := range []string{"Bearer alice", "Bearer bob"} {
				all.Go(func() {
					took, _ := traffic(t, tr, 10, during, func() *http.Request { return as(t, who, "http://a.test/") })
					mu.Lock()
					defer mu.Unlock()
					served += len(took)
				})
			}
			all.Wait()
			return served
		}
		both(20 * time.Second)
		set(answer(429, "Retry-After", "120"))
		both(2 * time.Second)
		set(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED })
		both(5 * time.Second)
		set(answer(200))
		require.Positive(t, both(10*time.Second))
	})
}

// What is known of the credentials of a host is kept as long as the host is called.
func TestCredentialsAreToldApartAfterAnHourWithManyHosts(t *testing.T) {
	for range nightly.Size(4, 30) { // places are drawn
		synctest.Test(t, func(t *testing.T) {
			tr := &backoffhttp.Transport{Base: newWire(refusingAlice())}
			bob := by(t, "bob")
			for i := range 2000 {
				require.Equal(t, 200, roundTrip(t, tr, bob()).StatusCode)
				if i%6 == 0 {
					roundTrip(t, tr, newRequest(t, "GET", fmt.Sprintf("http://host%d.test/", i), nil))
				}
				time.Sleep(time.Second)
			}
			var all sync.WaitGroup
			all.Go(func() { traffic(t, tr, 20, 20*time.Second, by(t, "alice")) })
			requireSpared(t, tr, 20, bob)
			all.Wait()
		})
	}
}

// A quota that is used up opens no circuit, also where the tenant makes its
// calls alone, and another comes later.
func TestAQuotaThatIsUsedUpOpensNoCircuit(t *testing.T) {
	for longest, wait := range map[time.Duration]string{0: "400", time.Minute: "100"} {
		synctest.Test(t, func(t *testing.T) {
			tr := &backoffhttp.Transport{Base: newWire(refusingAlice("Retry-After", wait)), Policy: backoff.Policy{MaxRetryAfter: longest}}
			traffic(t, tr, 20, time.Minute, by(t, "alice"))
			requireSpared(t, tr, 5, by(t, "bob"))
		})
	}
}

// Another tenant calls so seldom that nothing succeeds for a whole window of the
// breaker.
func TestATenantThatIsThrottledOpensNoCircuitForOneThatSeldomCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &backoffhttp.Transport{Base: newWire(refusingAlice())}
		bob := func() int { return roundTrip(t, tr, by(t, "bob")()).StatusCode }
		require.Equal(t, 200, bob())
		roundTrip(t, tr, by(t, "alice")())
		for range 5 {
			traffic(t, tr, 20, time.Minute, by(t, "alice"))
			began := time.Now()
			require.Equal(t, 200, bob())
			require.Equal(t, 5*time.Millisecond, time.Since(began))
		}
	})
}

// What is not about one tenant is about the service: its failures open the
// circuit for all.
func TestTenantsShareTheCircuitOfTheirHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503))
		tr := &backoffhttp.Transport{Base: w, FailFast: true}
		for i := range 40 {
			time.Sleep(250 * time.Millisecond)
			_ = try(tr, as(t, "Bearer "+strconv.Itoa(i%3), "http://a.test/"))
		}
		_, err := tr.RoundTrip(as(t, "Bearer new", "http://a.test/"))
		require.ErrorIs(t, err, backoff.ErrOpen)
	})
}

// watching is a Transport that shows its budgets by the Endpoint of an event.
type watching struct {
	backoffhttp.Transport
	mu sync.Mutex
	to *endpoint.Endpoint
}

func watch(base http.RoundTripper) *watching {
	w := new(watching)
	w.Base = base
	w.Policy.Observer = func(ctx context.Context, _ backoff.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.to = endpoint.Of(ctx)
	}
	return w
}

// keys returns the keys of the budgets, and of those that slow calls down.
func (w *watching) keys() (all, slow []string) {
	for key, s := range w.to.Services.All() {
		all = append(all, key)
		if s.State().PerSecond > 0 {
			slow = append(slow, key)
		}
	}
	slices.Sort(all)
	slices.Sort(slow)
	return all, slow
}

// Budgets have the names of hosts and numbers, and neither those of credentials
// nor their hashes.
func TestBudgetsOfCredentialsAreNumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(newWire(answer(429)))
		send := func(set ...string) {
			req := newRequest(t, "POST", "http://a.test/", nil)
			for i := 0; i < len(set); i += 2 {
				req.Header.Set(set[i], set[i+1])
			}
			tryBriefly(t, w, req)
		}
		for _, c := range []struct {
			header []string
			want   string
		}{
			{[]string{"Authorization", "Bearer one"}, "http://a.test"}, // the first
			{nil, "http://a.test"},
			{[]string{"Cookie", "Bearer one"}, "http://a.test"},
			{[]string{"Authorization", "Bearer on"}, "http://a.test#2"},
			{[]string{"Authorization", "Bearer one!"}, "http://a.test#3"},
			{[]string{"X-Api-Key", "Bearer one"}, "http://a.test#4"},
			{[]string{"Api-Key", "Bearer one"}, "http://a.test#5"},
			{[]string{"Authorization", "Bearer one", "X-Api-Key", "7"}, "http://a.test#6"},
		} {
			for range 3 {
				send(c.header...)
			}
			_, slow := w.keys()
			require.Contains(t, slow, c.want, c.header)
			require.Equal(t, c.want == "http://a.test", len(slow) == 1, c.header)
		}
		all, _ := w.keys()
		require.Equal(t, []string{"http://a.test", "http://a.test#2", "http://a.test#3", "http://a.test#4", "http://a.test#5", "http://a.test#6", "http://a.test#other"}, all)
		require.Equal(t, "http://a.test", w.to.Service)
	})
}

// Credentials that change with each request, as signatures do, share a budget.
func TestCredentialsThatChangeWithEachRequestShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(newWire(answer(429)))
		for i := range 10_000 {
			tryBriefly(t, w, as(t, "AWS4-HMAC-SHA256 Signature="+strconv.Itoa(i), "http://a.test/"))
		}
		all, slow := w.keys()
		require.Equal(t, []string{"http://a.test", "http://a.test#other"}, all)
		require.Equal(t, all, slow)
	})
	synctest.Test(t, func(t *testing.T) { // and so does the circuit
		w := newWire(answer(429))
		tr := &backoffhttp.Transport{Base: w, Policy: backoff.Policy{Budget: new(outcomes)}}
		var err error
		for i := 0; i < 200 && err == nil; i++ {
			err = try(tr, as(t, strconv.Itoa(i), "http://a.test/"))
			time.Sleep(100 * time.Millisecond)
		}
		require.ErrorIs(t, err, backoff.ErrOpen)
	})
}

// So they do where it changes each second, so that it comes several times.
func TestCredentialsThatChangeEachSecondShareABudget(t *testing.T) {
	token := func() string { return "Bearer " + time.Now().Format(time.RFC3339) }
	synctest.Test(t, func(t *testing.T) {
		w := watch(newWire(perSecond(10)))
		took, _ := traffic(t, w, 20, 3*time.Minute, func() *http.Request { return as(t, token(), "http://a.test/") })
		require.Greater(t, len(took), 1600)
		all, _ := w.keys()
		require.LessOrEqual(t, len(all), 2+8)
		_, slow := w.keys()
		require.Contains(t, slow, "http://a.test#other")
	})
	synctest.Test(t, func(t *testing.T) {
		tr := &backoffhttp.Transport{Base: newWire(answer(429)), Policy: backoff.Policy{Budget: new(outcomes)}}
		var err error
		for i := 0; i < 400 && err == nil; i++ {
			err = try(tr, as(t, token(), "http://a.test/"))
			time.Sleep(100 * time.Millisecond)
		}
		require.ErrorIs(t, err, backoff.ErrOpen)
	})
}

// After the first few, a tenant has a budget of its own as soon as its credential
// has lasted for two seconds.
func TestManyTenantsHaveBudgetsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(newWire(answer(429)))
		for range 10 {
			for i := range 100 {
				tryBriefly(t, w, as(t, "Bearer "+strconv.Itoa(i), "http://a.test/"))
			}
			time.Sleep(time.Second)
		}
		all, _ := w.keys()
		require.Len(t, all, 100+1)
	})
}

// A stranger who sends many credentials, each several times, takes nothing from
// others: not their pace, and not their circuit. Only the number of budgets is
// bounded.
func TestCredentialsOfAStrangerTakeNothingFromOthers(t *testing.T) {
	nightly.Long(t)
	synctest.Test(t, func(t *testing.T) {
		stranger := func(req *http.Request) bool { return strings.HasPrefix(req.Header.Get("Authorization"), "stranger") }
		w := watch(newWire(refusingSome(stranger)))
		send := func(ctx context.Context, credential, url string) int {
			resp, err := w.RoundTrip(as(t, credential, url).WithContext(ctx))
			if err != nil {
				return 0
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		for range 3 {
			require.Equal(t, 200, send(t.Context(), "first", "http://a.test/"))
			require.Equal(t, 200, send(t.Context(), "second", "http://a.test/"))
			require.Equal(t, 200, send(t.Context(), "first", "http://b.test/"))
		}
		for block := 0; block < nightly.Size(10_000, 100_000); block += 1000 {
			for i := range 4 * 1000 {
				ctx, cancel := context.WithTimeout(t.Context(), 6*time.Millisecond)
				send(ctx, "stranger"+strconv.Itoa(block+i%1000), "http://a.test/")
				cancel()
			}
		}
		all, _ := w.keys()
		require.LessOrEqual(t, len(all), 516)
		require.Contains(t, all, "http://a.test#2")
		began := time.Now()
		require.Equal(t, 200, send(t.Context(), "second", "http://a.test/"))
		require.Equal(t, 200, send(t.Context(), "first", "http://b.test/"))
		require.Equal(t, 10*time.Millisecond, time.Since(began))
	})
}

// A redirect to another host does not carry the guards of the first one with it.
func TestAnotherHostHasItsOwnFirstCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(newWire(answer(429)))
		for _, url := range []string{"http://a.test/", "http://b.test/", "http://user:secret@c.test/"} {
			for range 3 {
				req := as(t, "Bearer one", url)
				req.Method = "CONNECT"
				resp, err := w.RoundTrip(req)
				require.NoError(t, err)
				resp.Body.Close()
			}
		}
		all, _ := w.keys()
		require.Equal(t, []string{"http://a.test", "http://b.test", "http://c.test"}, all)
	})
}

// The guards of a key are its own: budget and breaker.
func TestGuardsAreThoseOfTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Get("shard") == "1" {
				return answer(503)(req)
			}
			return answer(200)(req)
		}
		w := newWire(down)
		tr := &backoffhttp.Transport{Base: w, FailFast: true, Key: func(req *http.Request) string { return req.URL.Query().Get("shard") }, Services: new(guard.Services)}
		calls(t, tr, w, "http://a.test/?shard=1", 20)
		_, err := tr.RoundTrip(as(t, "Bearer x", "http://a.test/?shard=1"))
		require.ErrorContains(t, err, "1: circuit open")
		_, err = tr.RoundTrip(newRequest(t, "GET", "http://b.test/?shard=1", nil))
		require.ErrorIs(t, err, backoff.ErrOpen, "the host is no part of the key")
		for range 3 {
			require.Equal(t, 200, roundTrip(t, tr, as(t, "Bearer x", "http://a.test/?shard=2")).StatusCode)
		}
		requireKeys := func(want ...string) {
			t.Helper()
			require.ElementsMatch(t, want, slices.Collect(maps.Keys(maps.Collect(tr.Services.All()))))
		}
		requireKeys("1", "2")
		require.Equal(t, 200, roundTrip(t, tr, as(t, "Bearer y", "http://a.test/")).StatusCode)
		requireKeys("http://a.test", "1", "2")
	})
}

// Services of the caller's own may serve many Transports: the numbers of their
// credentials are those of the process.
func TestCredentialsOfTransportsThatShareServicesHaveNumbersOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		services := new(guard.Services)
		for range 2 {
			tr := &backoffhttp.Transport{Base: newWire(refusingAlice()), Services: services}
			for range 3 {
				roundTrip(t, tr, by(t, "bob")())
				tryBriefly(t, tr, by(t, "alice")())
			}
		}
		require.Len(t, slices.Collect(maps.Keys(maps.Collect(services.All()))), 4, "the host, two of alice, and all others")
	})
}

// Guards that are found without a look at their keys are in use all the same.
func TestHostsThatTakeTurnsKeepTheirGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := make(map[string]int)
		tr := &backoffhttp.Transport{
			Base:     newWire(answer(200)),
			Services: &guard.Services{Idle: time.Minute, New: func(key string) *guard.Service { made[key]++; return new(guard.Service) }},
		}
		for i := range 300 {
			getRoot(t, tr)
			roundTrip(t, tr, newRequest(t, "GET", "http://b.test/", nil))
			roundTrip(t, tr, newRequest(t, "GET", "http://"+strconv.Itoa(i)+".test/", nil))
			time.Sleep(10 * time.Second)
		}
		require.Equal(t, 1, made["http://a.test"])
		require.Equal(t, 1, made["http://b.test"])
	})
}

// Guards are not made anew for each call where hosts or tenants take turns.
func TestGuardsOfTenantsThatTakeTurnsAreKept(t *testing.T) {
	tr := &backoffhttp.Transport{Base: step(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
	})}
	var reqs []*http.Request
	for i := range 12 {
		reqs = append(reqs, as(t, "Bearer "+strconv.Itoa(i%4), "http://"+strconv.Itoa(i%3)+".test/"))
	}
	signed := make([]*http.Request, 1200)
	for i := range signed {
		signed[i] = as(t, "Signature "+strconv.Itoa(i), "http://a.test/")
	}
	bare := testing.AllocsPerRun(100, func() { send(t, tr.Base, reqs) })
	for range 3 {
		send(t, tr, reqs)
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { send(t, tr, reqs) }), bare, "tenants and hosts")
	n := 0
	next := func() { send(t, tr, signed[n:n+12]); n += 12 }
	next()
	require.LessOrEqual(t, testing.AllocsPerRun(90, next), bare, "credentials that change")
}

// send sends requests.
func send(t testing.TB, rt http.RoundTripper, reqs []*http.Request) {
	for _, req := range reqs {
		if _, err := rt.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
	}
}
