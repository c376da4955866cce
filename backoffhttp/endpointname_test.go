package backoffhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

// sightings is an observer that keeps what it hears, and of which endpoint.
type sightings struct {
	lines     []string
	endpoints []*endpoint.Endpoint
}

func (s *sightings) observe(ctx context.Context, e backoff.Event) {
	to := endpoint.Of(ctx)
	s.lines = append(s.lines, strings.TrimSpace(fmt.Sprintf("%s: %s: %s", e.Name, to.Name, e.Kind)))
	s.endpoints = append(s.endpoints, to)
}

func TestAnObserverLearnsTheMethodAndTheHostOfACall(t *testing.T) {
	var seen sightings
	p := backoff.Policy{Name: "search", Schedule: backoff.Constant(0), Observer: seen.observe}
	tr := &backoffhttp.Transport{Base: newWire(answer(503), answer(200)), Policy: p}
	client := &http.Client{Transport: tr}
	for _, url := range []string{"http://a.test/1?secret=x", "http://a.test/2", "https://b.test:8080/", "http://A.TEST/3"} {
		fetch(t, client, url)
	}
	_, err := client.Head("http://a.test/")
	require.NoError(t, err)
	req := newRequest(t, "GET", "http://a.test/", nil)
	req.Method = ""
	_, err = tr.RoundTrip(req)
	require.NoError(t, err)

	require.Equal(t, []string{
		"search: GET a.test: retry",
		"search: GET a.test: success",
		"search: GET a.test: success",
		"search: GET b.test:8080: success",
		"search: GET a.test: success",
		"search: HEAD a.test: success",
		"search: GET a.test: success",
	}, seen.lines)
	for i, want := range []int{0, 0, 0, 3, 0, 5, 0} {
		require.Same(t, seen.endpoints[want], seen.endpoints[i], "the same endpoint again, whatever was called between")
	}
	require.Equal(t, "http://a.test", seen.endpoints[0].Service)
	require.Equal(t, "https://b.test:8080", seen.endpoints[3].Service)
}

// One that returns no name leaves the name to the Transport. A reverse proxy passes on what a
// stranger sends, whose methods share an endpoint.
func TestATransportsEndpointNamesWhatARequestIsSentTo(t *testing.T) {
	second := func(r *http.Request) string { return "users " + strings.Split(r.URL.Path, "/")[1] }
	path := func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }
	for _, c := range []struct {
		name     func(*http.Request) string
		requests []string
		want     []string
		same     [2]int // the requests that have the same endpoint
	}{
		{second, []string{"GET list", "GET get/1", "GET get/2", "GET list"}, []string{"users list", "users get", "users get", "users list"}, [2]int{0, 3}},
		{path, []string{"GET users", "GET ", "GET users", "GET ", "GET GET", "GET "},
			[]string{"users", "GET a.test", "users", "GET a.test", "GET", "GET a.test"}, [2]int{1, 3}},
		{nil, []string{"BREW ", "get ", "PATCH ", "A" + strings.Repeat("A", 1<<20) + " "},
			[]string{"OTHER a.test", "OTHER a.test", "PATCH a.test", "OTHER a.test"}, [2]int{0, 3}},
	} {
		var seen sightings
		tr := &backoffhttp.Transport{Base: newWire(answer(200)), Policy: backoff.Policy{Observer: seen.observe}, Endpoint: c.name}
		for _, request := range c.requests {
			method, path, _ := strings.Cut(request, " ")
			roundTrip(t, tr, newRequest(t, method, "http://a.test/"+path, nil))
		}
		var want []string
		for _, name := range c.want {
			want = append(want, ": "+name+": success")
		}
		require.Equal(t, want, seen.lines)
		require.Same(t, seen.endpoints[c.same[0]], seen.endpoints[c.same[1]])
	}
}

func TestEndpointsThatAreNotUsedGiveWayToOthers(t *testing.T) {
	var to *endpoint.Endpoint
	name := "first"
	tr := &backoffhttp.Transport{
		Base: newWire(answer(200)),
		Policy: backoff.Policy{Observer: func(ctx context.Context, _ backoff.Event) {
			to = endpoint.Of(ctx)
		}},
		Endpoint: func(*http.Request) string { return name },
	}
	call := func() *endpoint.Endpoint {
		resp, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
		require.NoError(t, err)
		resp.Body.Close()
		return to
	}
	first := call()
	for i := range 3000 {
		name = fmt.Sprint(i) // as a stranger might choose it
		require.Equal(t, name, call().Name)
	}
	name = "first"
	require.NotSame(t, first, call(), "it was forgotten")
}

func TestTheAttemptsAtAnEndpointAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to *endpoint.Endpoint
		underWay := 0
		tr := &backoffhttp.Transport{
			Base: step(func(req *http.Request) (*http.Response, error) {
				time.Sleep(20 * time.Millisecond)
				if to != nil { // from the second attempt on
					underWay = to.Attempts().InFlight
				}
				if req.URL.Path == "/panic" {
					panic("broken")
				}
				code := http.StatusOK
				if to == nil {
					code = http.StatusServiceUnavailable
				}
				return &http.Response{StatusCode: code, Body: http.NoBody, Request: req}, nil
			}),
			Policy: backoff.Policy{
				Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter,
				Observer: func(ctx context.Context, _ backoff.Event) { to = endpoint.Of(ctx) },
			},
		}
		fetch(t, &http.Client{Transport: tr}, "http://a.test/")
		require.Equal(t, 1, underWay)
		a := to.Attempts()
		require.EqualValues(t, 1, a.Succeeded.Count())
		require.EqualValues(t, 1, a.Failed.Count())
		require.InDelta(t, 0.02, a.Failed.Sum, 1e-9, "without the wait")

		require.Panics(t, func() { _, _ = tr.RoundTrip(newRequest(t, "GET", "http://a.test/panic", nil)) })
		require.Zero(t, to.Attempts().InFlight, "a panic ends the attempt")
	})
}

func TestTheObserverHearsOfTheBreakerOfTheHostAndOfEachCallThatItRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen sightings
		tr := &backoffhttp.Transport{
			Base:     newWire(answer(500)),
			Policy:   backoff.Policy{Name: "search", MaxAttempts: 1, Observer: seen.observe},
			FailFast: true,
		}
		for i := range 7 {
			time.Sleep(time.Duration(5-min(i, 5)) * time.Second)
			_ = try(tr, newRequest(t, "GET", "http://a.test/", nil))
		}
		require.Equal(t, []string{
			"search: GET a.test: give up",
			"search: GET a.test: give up",
			"search: GET a.test: give up",
			"search: GET a.test: give up",
			"search: GET a.test: give up",
			"http://a.test: GET a.test: transition",
			"search: GET a.test: give up",
			"search: GET a.test: give up",
		}, seen.lines)

		to := seen.endpoints[0]
		states := make(map[string]backoff.BreakerState)
		for key, s := range to.Services.All() {
			states[key] = s.State().Breaker.State
		}
		require.Equal(t, map[string]backoff.BreakerState{to.Service: backoff.BreakerOpen}, states)
	})
}

func TestTheObserverHearsOfACallWhoseRequestCannotBeSent(t *testing.T) {
	broken := errors.New("the disk is broken")
	for name, c := range map[string]struct {
		policy backoff.Policy
		body   io.Reader
		want   backoff.Reason
	}{
		"a body that cannot be read": {body: iotest.ErrReader(broken), want: backoff.ReasonPermanent},
		"an impossible timeout": {
			policy: backoff.Policy{AttemptTimeout: 1, AttemptTimeoutSchedule: backoff.Constant(1)}, want: backoff.ReasonInvalid,
		},
	} {
		var heard []backoff.Event
		c.policy.Observer = func(ctx context.Context, e backoff.Event) {
			require.Equal(t, "POST a.test", endpoint.Of(ctx).Name)
			heard = append(heard, e)
		}
		w := newWire(answer(200))
		tr := &backoffhttp.Transport{Base: w, Policy: c.policy, MaxBuffer: -1}
		_, err := tr.RoundTrip(newRequest(t, "POST", "http://a.test/", c.body))
		require.Error(t, err)
		require.Zero(t, w.requests())
		require.Len(t, heard, 1, name)
		require.Equal(t, backoff.EventGiveUp, heard[0].Kind)
		require.Equal(t, c.want, heard[0].Reason)
		require.Zero(t, heard[0].Attempt)
		require.ErrorIs(t, err, heard[0].Err)
	}
}

func TestAnEndpointHasOnlyTheGuardsThatItsCallsHave(t *testing.T) {
	var to *endpoint.Endpoint
	policy := backoff.Policy{
		Budget:   new(backoff.RetryBudget),
		Observer: func(ctx context.Context, _ backoff.Event) { to = endpoint.Of(ctx) },
	}
	getRoot(t, &backoffhttp.Transport{Base: newWire(answer(200)), Policy: policy})
	budget, breaker := to.Services.For("http://a.test").Parts()
	require.Nil(t, budget, "that of the policy takes its place")
	require.NotNil(t, breaker)
	getRoot(t, &backoffhttp.Unguarded{Base: newWire(answer(200)), Policy: policy})
	require.Nil(t, to.Services)
}

func TestACallAllocatesForItsEndpointOnlyIfItIsObserved(t *testing.T) {
	allocations := func(observe backoff.Observer, name func(*http.Request) string) float64 {
		tr := &backoffhttp.Transport{
			Base: step(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
			}),
			Policy:   backoff.Policy{Observer: observe},
			Endpoint: name,
		}
		req := newRequest(t, "GET", "http://a.test/", nil)
		return testing.AllocsPerRun(1000, func() { _, _ = tr.RoundTrip(req) })
	}
	observe := func(context.Context, backoff.Event) {}
	require.EqualValues(t, 1, allocations(nil, nil), "the response")
	require.EqualValues(t, 4, allocations(observe, nil), "and the context, and what tells of the end once")
	require.EqualValues(t, 4, allocations(observe, func(*http.Request) string { return "users" }))
	require.EqualValues(t, 4, allocations(observe, func(*http.Request) string { return "" }))
}

func TestHostsAndNamesOfAnyLengthTakeLittleMemory(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var seen []*endpoint.Endpoint
	tr := &backoffhttp.Transport{
		Base:     newWire(answer(200)),
		Policy:   backoff.Policy{Observer: func(ctx context.Context, _ backoff.Event) { seen = append(seen, endpoint.Of(ctx)) }},
		Endpoint: func(r *http.Request) string { return r.Header.Get("Name") },
	}
	for _, name := range []string{"", long} {
		req := newRequest(t, "GET", "http://a.test/", nil)
		req.URL.Host = long + ".test"
		req.Header.Set("Name", name)
		roundTrip(t, tr, req)
	}
	for _, e := range seen {
		require.LessOrEqual(t, len(e.Name), 1024)
		require.Len(t, e.Service, 1024)
		for key, s := range e.Services.All() {
			require.Len(t, key, 1024)
			require.Len(t, s.Name, 1024)
		}
	}
}

// A Transport remembers 256 guards. Parts of a text keep the whole text alive.
func TestNoPartOfALongRequestIsKept(t *testing.T) {
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for i, lengthen := range []func(req *http.Request, long string){
		func(req *http.Request, long string) { req.URL.Host = long },
		func(req *http.Request, long string) { req.URL, _ = url.Parse("http://" + long[:9] + "/" + long) },
		func(req *http.Request, long string) { req.URL.Host, req.Method = long[:9], long },
		func(req *http.Request, long string) { req.URL.Host, req.Header["Name"] = long[:9], []string{long[:9]} },
		func(req *http.Request, long string) { req.Header.Set("Tenant", long[:9]) },
	} {
		tr := &backoffhttp.Transport{
			Base:     step(answer(200)),
			Policy:   backoff.Policy{Observer: func(context.Context, backoff.Event) {}},
			Endpoint: func(r *http.Request) string { return r.Header.Get("Name") },
			Key:      func(r *http.Request) string { return r.Header.Get("Tenant") },
		}
		before := heap()
		for i := range 150 {
			req := newRequest(t, "GET", "http://a.test/", nil)
			lengthen(req, fmt.Sprintf("h%08d", i)+strings.Repeat("x", 1<<17))
			_, err := tr.RoundTrip(req) // roundTrip would keep the response
			require.NoError(t, err)
		}
		require.Less(t, heap()-before, 8<<20, i)
		runtime.KeepAlive(tr)
	}
}

func TestAZoneWithASpaceIsPartOfTheHost(t *testing.T) {
	var seen sightings
	tr := &backoffhttp.Transport{Base: newWire(answer(200)), Policy: backoff.Policy{Observer: seen.observe}}
	u, err := url.Parse("http://[fe80::1%25en%200]/")
	require.NoError(t, err)
	fetch(t, &http.Client{Transport: tr}, u.String())
	require.Equal(t, "http://[fe80::1%en 0]", seen.endpoints[0].Service)
	require.Equal(t, "GET [fe80::1%en 0]", seen.endpoints[0].Name)
}

func TestTheRequestForTheRestOfABodyHasTheEndpointOfTheCall(t *testing.T) {
	var seen sightings
	content := strings.Repeat("x", 100)
	tr := &backoffhttp.Transport{
		Base: step(func(req *http.Request) (*http.Response, error) {
			require.Nil(t, endpoint.Of(req.Context()), "what the attempt itself calls is something else")
			resp := &http.Response{StatusCode: 200, ContentLength: 100, Header: http.Header{"Etag": {`"1"`}}, Request: req}
			if req.Header.Get("Range") == "" {
				resp.Body = io.NopCloser(strings.NewReader(content[:40]))
				return resp, nil
			}
			resp.StatusCode, resp.ContentLength = 206, 60
			resp.Header.Set("Content-Range", "bytes 40-99/100")
			resp.Body = io.NopCloser(strings.NewReader(content[40:]))
			return resp, nil
		}),
		Resume: true,
		Policy: backoff.Policy{Name: "load", Schedule: backoff.Constant(0), Observer: func(ctx context.Context, e backoff.Event) {
			if endpoint.Of(ctx) == nil {
				seen.lines = append(seen.lines, "nowhere: "+e.Kind.String())
				return
			}
			seen.observe(ctx, e)
		}},
	}
	resp := fetch(t, &http.Client{Transport: tr}, "http://a.test/")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, content, string(body))
	require.Equal(t, []string{"load: GET a.test: success", "load: GET a.test: retry", "load: GET a.test: success"}, seen.lines)
}

func TestACallThatEndsBeforeItsFirstAttemptIsToldOnce(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	w := newWire(answer(200))
	broken := &guard.Services{New: func(string) *guard.Service { return &guard.Service{Breaker: &backoff.Breaker{FailureRate: 2}} }}
	guarded := func(p backoff.Policy) http.RoundTripper { return &backoffhttp.Transport{Base: w, Policy: p} }
	for _, c := range []struct {
		ctx    context.Context
		client func(backoff.Policy) http.RoundTripper
		policy backoff.Policy
		want   backoff.Reason
	}{
		{ended, func(p backoff.Policy) http.RoundTripper { return &backoffhttp.Unguarded{Base: w, Policy: p} }, backoff.Policy{}, backoff.ReasonCanceled},
		{ended, guarded, backoff.Policy{}, backoff.ReasonCanceled},
		{late, guarded, backoff.Policy{}, backoff.ReasonDeadline},
		{t.Context(), func(p backoff.Policy) http.RoundTripper {
			return &backoffhttp.Transport{Base: w, Policy: p, Services: broken}
		}, backoff.Policy{}, backoff.ReasonInvalid},
		{t.Context(), guarded, backoff.Policy{Jitter: backoff.UniformJitter(1, 0)}, backoff.ReasonInvalid},
		{guard.WithFailFast(t.Context()), guarded, backoff.Policy{Budget: refusesAll{}}, backoff.ReasonBudget},
	} {
		var seen []string
		c.policy.Observer = func(_ context.Context, e backoff.Event) { seen = append(seen, e.Kind.String()+": "+e.Reason.String()) }
		_, err := c.client(c.policy).RoundTrip(newRequest(t, "GET", "http://a.test/", nil).WithContext(c.ctx))
		require.Error(t, err)
		require.Equal(t, []string{"give up: " + c.want.String()}, seen)
	}
	require.Zero(t, w.requests())
}

// refusesAll is a budget that refuses first attempts, too.
type refusesAll struct{ backoff.BudgetDefaults }

func (refusesAll) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, false
}
