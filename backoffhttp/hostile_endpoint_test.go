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
	"github.com/gobackoff/backoff/endpoint"
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
		for key, b := range e.Breakers.All() {
			require.Len(t, key, 1024)
			require.Len(t, b.Name, 1024)
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
			Guards:   func(r *http.Request) string { return r.Header.Get("Tenant") },
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
	told := func(ctx context.Context, tr *backoffhttp.Transport) []string {
		var seen []string
		tr.Base = newWire(answer(200))
		tr.Policy.Observer = func(_ context.Context, e backoff.Event) {
			seen = append(seen, e.Kind.String()+": "+e.Reason.String())
		}
		_, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
		require.Error(t, err)
		return seen
	}
	require.Equal(t, []string{"give up: canceled"}, told(ended, &backoffhttp.Transport{Unguarded: true}))
	require.Equal(t, []string{"give up: canceled"}, told(ended, new(backoffhttp.Transport)))
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	require.Equal(t, []string{"give up: deadline"}, told(late, new(backoffhttp.Transport)))
	require.Equal(t, []string{"give up: invalid"}, told(t.Context(), &backoffhttp.Transport{
		Breakers: &backoff.Breakers{New: func(string) *backoff.Breaker { return &backoff.Breaker{FailureRate: 2} }},
	}))
	require.Equal(t, []string{"give up: invalid"}, told(t.Context(), &backoffhttp.Transport{Policy: backoff.Policy{Jitter: backoff.AddedJitter(-1)}}))
	require.Equal(t, []string{"give up: budget"}, told(t.Context(), &backoffhttp.Transport{Policy: backoff.Policy{Budget: refusesAll{}}}))
}

// refusesAll is a budget that refuses first attempts, too.
type refusesAll struct{ backoff.BudgetDefaults }

func (refusesAll) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, false
}
