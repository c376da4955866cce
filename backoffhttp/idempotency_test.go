package backoffhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// RFC 9110, 9.2.2.
func TestIdempotencyByMethodKeyAndPrecondition(t *testing.T) {
	for _, c := range []struct {
		method, query string
		header        []string
		want          backoff.Idempotency
	}{
		{"GET", "", nil, backoff.Idempotent},
		{"", "", nil, backoff.Idempotent},
		{"HEAD", "", nil, backoff.Idempotent},
		{"OPTIONS", "", nil, backoff.Idempotent},
		{"TRACE", "", nil, backoff.Idempotent},
		{"PUT", "", nil, backoff.Idempotent},
		{"DELETE", "", nil, backoff.Idempotent},
		{"POST", "", nil, backoff.NonIdempotent},
		{"PATCH", "", nil, backoff.NonIdempotent},
		{"CONNECT", "", nil, backoff.NonIdempotent},
		{"get", "", nil, backoff.NonIdempotent},
		{"POST", "", []string{"Idempotency-Key", "k"}, backoff.Idempotent},
		{"POST", "", []string{"X-Idempotency-Key", "k"}, backoff.Idempotent},
		{"POST", "", []string{"Idempotency-Key", ""}, backoff.NonIdempotent},
		{"PATCH", "", []string{"If-Match", `"v1"`}, backoff.Idempotent},
		{"PATCH", "", []string{"If-Match", "*"}, backoff.NonIdempotent},
		{"POST", "", []string{"If-None-Match", "*"}, backoff.Idempotent},
		{"POST", "", []string{"If-None-Match", `"v1"`}, backoff.NonIdempotent},
		{"PATCH", "", []string{"If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT"}, backoff.NonIdempotent},
		{"POST", "?ifGenerationMatch=0", nil, backoff.Idempotent},
		{"POST", "?a=b&ifMetagenerationMatch=7", nil, backoff.Idempotent},
		{"POST", "?ifGenerationMatch=", nil, backoff.NonIdempotent},
		{"POST", "?ifGenerationNotMatch=1", nil, backoff.NonIdempotent},
		{"POST", "?ifMetagenerationNotMatch=1", nil, backoff.NonIdempotent},
		{"POST", "?x=ifGenerationMatch", nil, backoff.NonIdempotent},
		{"POST", "?notifGenerationMatch=1", nil, backoff.NonIdempotent},
	} {
		req := newRequest(t, "GET", "http://a.test/"+c.query, nil)
		req.Method = c.method
		for i := 0; i < len(c.header); i += 2 {
			req.Header.Set(c.header[i], c.header[i+1])
		}
		require.Equal(t, c.want, backoffhttp.Idempotency(req), "%s %s %v", c.method, c.query, c.header)
	}
}

func TestARequestThatIsNotIdempotentIsSentTwiceOnlyIfItNeverArrived(t *testing.T) {
	for _, c := range []struct {
		step step
		want int
	}{
		{answer(503), 1},
		{answer(429, "Retry-After", "0"), 1},
		{failure(syscall.ECONNRESET), 1},
		{failure(io.EOF), 1},
		{failure(syscall.ECONNREFUSED), 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(c.step, answer(200))
			if resp, err := over(w).RoundTrip(newRequest(t, "POST", "http://a.test/", nil)); err == nil {
				resp.Body.Close()
			}
			require.Equal(t, c.want, w.requests())
		})
	}
}

// onlyIf is an Idempotency of the program's own.
type onlyIf func(context.Context) bool

func (f onlyIf) Repeatable(ctx context.Context, c backoff.Class) bool {
	return f(ctx) || backoff.NonIdempotent.Repeatable(ctx, c)
}

// RetryIdempotent, RetryAlways, RetryNever, and one's own: of the policy, or of a single request
// beside others.
func TestThreeWaysAndOnesOwn(t *testing.T) {
	own := onlyIf(func(ctx context.Context) bool { return ctx.Value(permit{}) != nil })
	for _, c := range []struct {
		policy    backoff.Idempotency
		permit    any
		get, post int
	}{
		{nil, nil, 2, 1},
		{backoff.Idempotent, nil, 2, 2},
		{backoff.Keyed, nil, 2, 2},
		{backoff.NonIdempotent, nil, 1, 1},
		{own, nil, 1, 1},
		{own, true, 2, 2},
	} {
		for method, want := range map[string]int{"GET": c.get, "POST": c.post} {
			for _, others := range []backoff.Idempotency{nil, backoff.Idempotent, backoff.NonIdempotent} {
				synctest.Test(t, func(t *testing.T) {
					tr, w := scripted(answer(503), answer(200))
					set := func(p *backoff.Policy) { p.Idempotency = c.policy }
					ctx := context.WithValue(t.Context(), permit{}, c.permit)
					if tr.Policy.Idempotency = others; others == nil {
						set(&tr.Policy)
					} else {
						ctx = backoffhttp.WithRetry(ctx, set)
					}
					roundTrip(t, tr, newRequest(t, method, "http://a.test/", nil).WithContext(ctx))
					require.Equal(t, want, w.requests(), "%v %s, beside %v", c.policy, method, others)
					require.Equal(t, c.policy == backoff.Keyed && method == "POST", key(w.request(0)) != "")
				})
			}
		}
	}
}

type permit struct{}

// Whether the policy, the table or the context of the call says so.
func TestAPostIsRepeatedAfter429WhereItsAPISaysSo(t *testing.T) {
	too, calm := answer(429), failure(errors.New("stream error: stream ID 1; ENHANCE_YOUR_CALM; received from peer"))
	table, err := backoffhttp.NewOperations(map[string]string{"POST /": "after429"})
	require.NoError(t, err)
	set := func(p *backoff.Policy) { p.Idempotency = backoffhttp.RepeatAfter429 }
	for name, c := range map[string]struct {
		method string
		steps  []step
		want   int
	}{
		"twice":            {"POST", []step{too, too, answer(200)}, 3},
		"then a 503":       {"POST", []step{too, answer(503)}, 2},
		"then a reset":     {"POST", []step{too, failure(syscall.ECONNRESET)}, 2},
		"then a refusal":   {"POST", []step{too, failure(refusedDial), answer(200)}, 3},
		"another throttle": {"POST", []step{too, calm}, 2},
		"one in a 200":     {"POST", []step{answer(201), answer(200)}, 2},
		"do not retry":     {"POST", []step{answer(429, "X-Should-Retry", "false")}, 1},
		"GET":              {"GET", []step{answer(503), answer(200)}, 2},
		"to another host":  {"POST", []step{answer(307, "Location", "http://b.test/"), too}, 2},
	} {
		for _, way := range []string{"policy", "table", "context"} {
			bubble(t, name+", "+way, func(t *testing.T) {
				tr, w := scripted(c.steps...)
				req := newRequest(t, c.method, "http://a.test/", strings.NewReader("x"))
				switch way {
				case "policy":
					set(&tr.Policy)
				case "table":
					tr.Idempotency = table.Idempotency
				case "context":
					req = req.WithContext(backoffhttp.WithRetry(t.Context(), set))
				}
				tr.Inspect = func(resp *http.Response) error {
					if resp.StatusCode == 201 {
						return &backoffhttp.StatusError{Code: 429}
					}
					return backoffhttp.Check(resp)
				}
				if resp, err := followed(t, tr).Do(req); err == nil {
					resp.Body.Close()
				}
				require.Equal(t, c.want, w.requests())
			})
		}
	}
}

func keyedTransport(w http.RoundTripper) *backoffhttp.Unguarded {
	tr := over(w)
	tr.Policy.Idempotency = backoff.Keyed
	return tr
}

func key(s sent) string { return s.header.Get("Idempotency-Key") }

func TestAKeyIsMadeOncePerCall(t *testing.T) {
	for header, name := range map[string]string{"": "Idempotency-Key", "PayPal-Request-Id": "PayPal-Request-Id"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(answer(503), failure(syscall.ECONNRESET), answer(200))
			tr := keyedTransport(w)
			tr.KeyHeader = header
			key := func(i int) string { return w.request(i).header.Get(name) }
			roundTrip(t, tr, newRequest(t, "POST", "http://a.test/", strings.NewReader("x")))
			require.Equal(t, 3, w.requests(), "under a key a POST is repeated")
			require.GreaterOrEqual(t, len(key(0)), 26)
			require.Equal(t, key(0), key(1))
			require.Equal(t, key(0), key(2))
			require.Equal(t, header == "", w.request(0).header.Get("Idempotency-Key") != "")
			roundTrip(t, tr, newRequest(t, "POST", "http://a.test/", strings.NewReader("x")))
			require.NotEqual(t, key(0), key(3), "another call, another key")
			getRoot(t, tr)
			require.Empty(t, key(4), "what is idempotent needs none")
		})
	}
}

func TestKeysAreBareOrQuoted(t *testing.T) {
	for form, want := range map[backoffhttp.KeyForm]string{backoffhttp.KeyBare: `a"b\c`, backoffhttp.KeyQuoted: `"a\"b\\c"`} {
		w := newWire(answer(200))
		tr := keyedTransport(w)
		tr.KeyForm = form
		ctx := backoff.WithIdempotencyKey(t.Context(), `a"b\c`)
		roundTrip(t, tr, newRequest(t, "POST", "http://a.test/", nil).WithContext(ctx))
		require.Equal(t, want, key(w.request(0)))
	}
}

func TestTheCallersKeyIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503), answer(200))
		tr := keyedTransport(w)
		tr.KeyForm = backoffhttp.KeyQuoted
		req := newRequest(t, "POST", "http://a.test/", nil)
		req.Header.Set("Idempotency-Key", "mine")
		roundTrip(t, tr, req)
		require.Equal(t, "mine", key(w.request(0)), "unchanged")
		require.Equal(t, "mine", key(w.request(1)))
	})
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "X-Own-Key"} {
		tr, w := scripted(answer(200))
		tr.KeyHeader = "X-Own-Key"
		tr.Idempotency = func(*http.Request) backoff.Idempotency { return backoff.Keyed }
		req := newRequest(t, "POST", "http://a.test/", nil)
		req.Header.Set(name, "mine")
		roundTrip(t, tr, req)
		require.Equal(t, req.Header, w.request(0).header)
	}
}

func TestAKeyInTheContextIsSentOnlyWhereThatIsSaid(t *testing.T) {
	table, err := backoffhttp.NewOperations(map[string]string{"POST /charge": "key", "POST /refund": "never"})
	require.NoError(t, err)
	asKeyed := func(p *backoff.Policy) { p.Idempotency = backoff.Keyed }
	for path, say := range map[string]func(*backoffhttp.Unguarded, *http.Request){
		"mail":             func(*backoffhttp.Unguarded, *http.Request) {},
		"refund":           func(tr *backoffhttp.Unguarded, _ *http.Request) { tr.Idempotency = table.Idempotency },
		"charge":           func(tr *backoffhttp.Unguarded, _ *http.Request) { tr.Idempotency = table.Idempotency },
		"charge/by/policy": func(tr *backoffhttp.Unguarded, _ *http.Request) { asKeyed(&tr.Policy) },
		"charge/by/header": func(_ *backoffhttp.Unguarded, r *http.Request) { carry(r) },
		"charge/by/retry": func(_ *backoffhttp.Unguarded, r *http.Request) {
			*r = *r.WithContext(backoffhttp.WithRetry(r.Context(), asKeyed))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, w := scripted(answer(503), answer(200))
			req := newRequest(t, "POST", "http://a.test/"+path, nil)
			req = req.WithContext(backoff.WithIdempotencyKey(t.Context(), "outer"))
			say(tr, req)
			roundTrip(t, tr, req)
			keys := []string{"outer", "outer"}
			if !strings.HasPrefix(path, "charge") {
				keys = []string{""}
			}
			require.Equal(t, len(keys), w.requests(), path)
			for i, want := range keys {
				require.Equal(t, want, key(w.request(i)), path)
			}
		})
	}
}

// carry sends the key of its context with a request.
func carry(req *http.Request) {
	req.Header.Set("Idempotency-Key", backoff.IdempotencyKey(req.Context()))
}

// Whoever gives a charge a key and forgets to send it is not charged twice. Nor is
// a mail sent twice that goes out beside the charge.
func TestNoPolicyRepeatsARequestWithoutTheKeyOfItsContext(t *testing.T) {
	single := func(i backoff.Idempotency) backoff.Policy { return backoff.Policy{MaxAttempts: 1, Idempotency: i} }
	hasKey := onlyIf(func(ctx context.Context) bool { return backoff.IdempotencyKey(ctx) != "" })
	always := onlyIf(func(context.Context) bool { return true })
	lost := failure(io.EOF)
	for name, c := range map[string]struct {
		inside  backoff.Policy
		body    io.Reader
		first   step
		carried bool
		want    int
	}{
		"an inner policy that retries":   {backoff.Policy{}, nil, lost, false, 1},
		"one that leaves it to others":   {single(nil), nil, lost, false, 1},
		"a response":                     {single(nil), nil, answer(503), false, 1},
		"a condition that wants a key":   {backoff.Policy{Idempotency: hasKey}, nil, lost, false, 1},
		"another condition":              {single(always), nil, lost, false, 2},
		"it yields to the caller":        {backoff.Policy{Idempotency: backoffhttp.YieldToCaller(backoff.Keyed)}, nil, lost, false, 1},
		"a body that can be read once":   {backoff.Policy{}, stream("10 EUR"), lost, false, 1},
		"its own body failed":            {single(nil), failingReader{syscall.ECONNREFUSED}, lost, false, 0},
		"it never arrived":               {single(nil), nil, failure(syscall.ECONNREFUSED), false, 2},
		"it carries the key":             {single(nil), nil, lost, true, 2},
		"a Transport that may repeat it": {single(backoff.Idempotent), nil, lost, false, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, w := scripted(c.first, answer(200))
			tr.Policy = c.inside
			ctx := backoff.WithIdempotencyKey(t.Context(), "mine")
			err := backoff.Policy{}.Do(ctx, func(ctx context.Context) error {
				req := newRequest(t, "POST", "http://a.test/", c.body).WithContext(ctx)
				if c.carried {
					carry(req)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					return err
				}
				resp.Body.Close()
				return backoffhttp.Check(resp)
			})
			require.Equal(t, c.want, w.requests(), name)
			if c.want < 2 {
				require.ErrorContains(t, err, "; the request does not carry the idempotency key of its context", name)
			}
		})
	}
}

// The draft's 409 (in flight) is retried, its 422 (another payload) never.
// Its server would answer another request under the key as it answered the first one.
func TestAKeyIsOfTheRequestThatSucceededUnderIt(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		status        int // of the first
		ok            bool
	}{
		"another request":       {"one", "two", 201, false},
		"the same one again":    {"one", "one", 201, true},
		"the first was refused": {"one", "two", 503, true},
	} {
		w := newWire(answer(c.status), answer(201))
		tr := keyedTransport(w)
		tr.Policy.MaxAttempts = 1
		err := backoff.Policy{Idempotency: backoff.Keyed}.Do(t.Context(), func(ctx context.Context) error {
			_, err := tr.RoundTrip(newRequest(t, "POST", "http://x", strings.NewReader(c.first)).WithContext(ctx))
			require.NoError(t, err, name)
			_, err = tr.RoundTrip(newRequest(t, "POST", "http://x", strings.NewReader(c.second)).WithContext(ctx))
			return err
		})
		require.Equal(t, c.ok, err == nil, "%s: %v", name, err)
		require.Equal(t, c.ok, w.requests() == 2, name)
	}
}

func TestInFlightIsRetriedAndAReusedKeyNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(failure(io.EOF), answer(409), answer(200))
		require.Equal(t, 200, roundTrip(t, keyedTransport(w), newRequest(t, "POST", "http://a.test/", nil)).StatusCode)
		require.Equal(t, 3, w.requests())
	})
	w := newWire(answer(422))
	require.Equal(t, 422, roundTrip(t, keyedTransport(w), newRequest(t, "POST", "http://a.test/", nil)).StatusCode)
	require.Equal(t, 1, w.requests())
	for name, tr := range map[string]*backoffhttp.Unguarded{
		"not opted in": over(w), "no key": keyedTransport(w),
	} {
		w = newWire(answer(409))
		tr.Base = w
		req := newRequest(t, "PUT", "http://a.test/", nil)
		if name == "not opted in" {
			req.Header.Set("Idempotency-Key", "mine")
		}
		require.Equal(t, 409, roundTrip(t, tr, req).StatusCode, name)
		require.Equal(t, 1, w.requests(), "%s: a conflict of versions", name)
	}
}

// followed makes a client that follows redirects in memory.
func followed(t *testing.T, tr *backoffhttp.Unguarded) *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Transport: tr, Jar: jar}
}

// Without its key, a request that the other host has done already would be done
// twice. A GET that comes of it, such as of a page of thanks, is another request.
func TestARequestKeepsItsKeyOnRedirects(t *testing.T) {
	for location, same := range map[string]bool{
		"http://a.test/moved":     true,
		"http://A.test:80/moved":  true,
		"http://b.test/moved":     false,
		"https://a.test/moved":    false,
		"http://a.test:81/moved":  false,
		"http://a.test.b.test/mv": false,
		"https://a.test:80/moved": false,
	} {
		for _, status := range []int{307, 303} {
			w := newWire(answer(status, "Location", location), answer(200))
			req := newRequest(t, "POST", "http://a.test/", strings.NewReader("x"))
			req.Header.Set("Idempotency-Key", "mine")
			resp, err := followed(t, keyedTransport(w)).Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, same || status == 307, key(w.request(1)) == "mine", location)
		}
	}
}

// That host has not said that it knows keys. A policy around repeats the whole
// call, under the same key.
func TestARedirectToAnotherHostIsNotRepeatedUnderItsKey(t *testing.T) {
	for attempts, want := range map[int]int{4: 2, 1: 4} {
		synctest.Test(t, func(t *testing.T) {
			moved := answer(307, "Location", "http://b.test/")
			w := newWire(moved, failure(io.EOF), moved, answer(200))
			tr := over(w)
			tr.Policy.MaxAttempts = attempts
			_ = backoff.Policy{Idempotency: backoff.Keyed}.Do(t.Context(), func(ctx context.Context) error {
				req := newRequest(t, "POST", "http://a.test/", strings.NewReader("x")).WithContext(ctx)
				carry(req)
				resp, err := followed(t, tr).Do(req)
				if err == nil {
					resp.Body.Close()
				}
				return err
			})
			require.Equal(t, want, w.requests())
			require.NotEmpty(t, key(w.request(1)))
			require.Equal(t, key(w.request(1)), key(w.request(want-1)))
		})
	}
}

func TestAKeySurvivesAChainOfRedirects(t *testing.T) {
	w := newWire(answer(307, "Location", "/2"), answer(308, "Location", "http://b.test/"), answer(307, "Location", "http://a.test/4"), answer(303, "Location", "/5"), answer(200))
	resp, err := followed(t, keyedTransport(w)).Do(newRequest(t, "POST", "http://a.test/1", strings.NewReader("x")))
	require.NoError(t, err)
	resp.Body.Close()
	first := key(w.request(0))
	got := []string{key(w.request(1)), key(w.request(2)), key(w.request(3)), key(w.request(4))}
	require.Equal(t, []string{first, first, first, ""}, got, "a GET needs none")
}

// The server has each request, and hangs.
func TestAPolicyWhoseAttemptTimedOutRepeatsOnlyWhatTheClientMay(t *testing.T) {
	for name, c := range map[string]struct {
		tr     func(http.RoundTripper) *backoffhttp.Unguarded
		method string
		key    string
		want   int
	}{
		"a GET":                     {over, "GET", "", 4},
		"a POST":                    {over, "POST", "", 1},
		"a POST with a key":         {over, "POST", "7", 4},
		"a POST whose key was made": {keyedTransport, "POST", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				tr := c.tr(step(func(req *http.Request) (*http.Response, error) {
					sent++
					<-req.Context().Done()
					return nil, req.Context().Err()
				}))
				timeout := backoff.Policy{AttemptTimeout: time.Second}
				require.Error(t, timeout.Do(t.Context(), func(ctx context.Context) error {
					req := newRequest(t, c.method, "http://a.test/", nil).WithContext(ctx)
					if c.key != "" {
						req.Header.Set("Idempotency-Key", c.key)
					}
					_, err := tr.RoundTrip(req)
					return err
				}))
				require.Equal(t, c.want, sent)
			})
		})
	}
}

func TestNoTextHasCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503, "Set-Cookie", "secret=1", "Www-Authenticate", "secret"), failure(syscall.ECONNRESET))
		tr := keyedTransport(w)
		var texts []string
		tr.Policy.Observer = func(_ context.Context, e backoff.Event) {
			if e.Err != nil {
				texts = append(texts, e.Err.Error())
			}
		}
		req := newRequest(t, "POST", "http://secret:secret@a.test/?token=secret", strings.NewReader("secret"))
		req.Header.Set("Authorization", "Bearer secret")
		req.Header.Set("Idempotency-Key", "secret")
		_, err := tr.RoundTrip(req)
		texts = append(texts, err.Error())
		var e *backoffhttp.StatusError
		if errors.As(err, &e) {
			texts = append(texts, e.Error())
		}
		for _, text := range texts {
			require.NotContains(t, text, "secret")
		}
	})
}
