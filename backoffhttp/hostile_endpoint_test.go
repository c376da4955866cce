package backoffhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

// A reverse proxy passes on what a stranger sends.
func TestMethodsThatAStrangerInventsShareAnEndpoint(t *testing.T) {
	var seen sightings
	tr := &backoffhttp.Transport{Base: newWire(answer(200)), Policy: backoff.Policy{Observer: seen.observe}}
	for _, method := range []string{"BREW", "get", "PATCH", "A" + strings.Repeat("A", 1<<20)} {
		roundTrip(t, tr, newRequest(t, method, "http://a.test/", nil))
	}
	require.Equal(t, []string{": OTHER a.test: success", ": OTHER a.test: success", ": PATCH a.test: success", ": OTHER a.test: success"}, seen.lines)
	require.Same(t, seen.endpoints[0], seen.endpoints[3])
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
			Base:     roundTripper(answer(200)),
			Policy:   backoff.Policy{Observer: func(context.Context, backoff.Event) {}},
			Endpoint: func(r *http.Request) string { return r.Header.Get("Name") },
			Key:      func(r *http.Request) string { return r.Header.Get("Tenant") },
		}
		before := heap()
		for i := range 400 {
			req := newRequest(t, "GET", "http://a.test/", nil)
			lengthen(req, fmt.Sprintf("h%08d", i)+strings.Repeat("x", 1<<17))
			_, err := tr.RoundTrip(req) // roundTrip would keep the response
			require.NoError(t, err)
		}
		require.Less(t, heap()-before, 8<<20, i)
		runtime.KeepAlive(tr)
	}
}

func TestAnEndpointThatReturnsNoNameLeavesTheNameToTheTransport(t *testing.T) {
	var seen sightings
	tr := &backoffhttp.Transport{
		Base:     newWire(answer(200)),
		Policy:   backoff.Policy{Observer: seen.observe},
		Endpoint: func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") },
	}
	for _, path := range []string{"users", "", "users", "", "GET", ""} {
		roundTrip(t, tr, newRequest(t, "GET", "http://a.test/"+path, nil))
	}
	require.Equal(t, []string{": users: success", ": GET a.test: success", ": users: success", ": GET a.test: success",
		": GET: success", ": GET a.test: success"}, seen.lines)
	require.Same(t, seen.endpoints[1], seen.endpoints[3])
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
		Base: roundTripper(func(req *http.Request) (*http.Response, error) {
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
		{t.Context(), guarded, backoff.Policy{Budget: refusesAll{}}, backoff.ReasonBudget},
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
