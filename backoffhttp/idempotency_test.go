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

// RetryIdempotent, RetryAlways, RetryNever. Row 106: and one's own.
func TestThreeWaysAndOnesOwn(t *testing.T) {
	own := backoff.Conditional(func(ctx context.Context) bool { return ctx.Value(permit{}) != nil })
	for _, c := range []struct {
		policy    backoff.Idempotency
		get, post int
	}{
		{nil, 2, 1},
		{backoff.Idempotent, 2, 2},
		{backoff.NonIdempotent, 1, 1},
		{own, 1, 1},
	} {
		for method, want := range map[string]int{"GET": c.get, "POST": c.post} {
			synctest.Test(t, func(t *testing.T) {
				tr, w := scripted(answer(503), answer(200))
				tr.Policy.Idempotency = c.policy
				roundTrip(t, tr, newRequest(t, method, "http://a.test/", nil))
				require.Equal(t, want, w.requests(), "%v %s", c.policy, method)
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(503), answer(200))
		tr.Policy.Idempotency = own
		ctx := context.WithValue(t.Context(), permit{}, true)
		roundTrip(t, tr, newRequest(t, "POST", "http://a.test/", nil).WithContext(ctx))
		require.Equal(t, 2, w.requests())
	})
}

type permit struct{}

func TestTheTransportsFunctionStandsInForTheMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(503), answer(200))
		tr.Idempotency = func(req *http.Request) backoff.Idempotency {
			if req.URL.Path == "/search" {
				return backoff.Idempotent // a query by POST
			}
			return backoff.NonIdempotent
		}
		roundTrip(t, tr, newRequest(t, "POST", "http://a.test/search", nil))
		require.Equal(t, 2, w.requests())
	})
	tr, w := scripted(answer(503))
	tr.Idempotency = func(*http.Request) backoff.Idempotency { return backoff.NonIdempotent }
	getRoot(t, tr)
	require.Equal(t, 1, w.requests())
}

func keyedTransport(w http.RoundTripper) *backoffhttp.Transport {
	tr := over(w)
	tr.Policy.Idempotency = backoff.Keyed
	return tr
}

func key(s sent) string { return s.header.Get("Idempotency-Key") }

func TestAKeyIsMadeOncePerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503), failure(syscall.ECONNRESET), answer(200))
		tr := keyedTransport(w)
		roundTrip(t, tr, newRequest(t, "POST", "http://a.test/", strings.NewReader("x")))
		require.Equal(t, 3, w.requests(), "under a key a POST is repeated")
		first := key(w.request(0))
		require.GreaterOrEqual(t, len(first), 26)
		require.Equal(t, first, key(w.request(1)))
		require.Equal(t, first, key(w.request(2)))
		roundTrip(t, tr, newRequest(t, "POST", "http://a.test/", strings.NewReader("x")))
		require.NotEqual(t, first, key(w.request(3)), "another call, another key")
		getRoot(t, tr)
		require.Empty(t, key(w.request(4)), "what is idempotent needs none")
	})
}

func TestNoKeyIsSentUnlessWanted(t *testing.T) {
	w := newWire(answer(200))
	roundTrip(t, over(w), newRequest(t, "POST", "http://a.test/", nil))
	require.Empty(t, key(w.request(0)), "a server that does not know keys would act twice")
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

// A key in the context, such as one of an outer policy, is sent.
func TestAKeyInTheContextIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503), answer(200))
		ctx := backoff.WithIdempotencyKey(t.Context(), "outer")
		roundTrip(t, over(w), newRequest(t, "POST", "http://a.test/", nil).WithContext(ctx))
		require.Equal(t, 2, w.requests())
		require.Equal(t, "outer", key(w.request(0)))
		for _, said := range []backoff.Idempotency{nil, backoff.Idempotent} {
			tr := over(w)
			tr.Policy.Idempotency = said
			roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
			require.Empty(t, key(w.request(w.requests()-1)), "what is safe needs none")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503), answer(200))
		outer := backoff.Policy{Idempotency: backoff.Keyed, Schedule: backoff.Constant(0)}
		tr := over(w)
		tr.Policy.MaxAttempts = 1
		require.NoError(t, outer.Do(t.Context(), func(ctx context.Context) error {
			resp, err := tr.RoundTrip(newRequest(t, "POST", "http://a.test/", nil).WithContext(ctx))
			require.NoError(t, err)
			resp.Body.Close()
			return backoffhttp.Check(resp)
		}))
		require.Equal(t, 2, w.requests())
		require.NotEmpty(t, key(w.request(0)))
		require.Equal(t, key(w.request(0)), key(w.request(1)))
	})
}

// Other headers, and keys that belong into a body.
func TestKeysUnderOtherNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503), answer(200))
		tr := keyedTransport(w)
		tr.KeyHeader = "PayPal-Request-Id"
		roundTrip(t, tr, newRequest(t, "POST", "http://a.test/", nil))
		require.Equal(t, 2, w.requests())
		require.NotEmpty(t, w.request(0).header.Get("PayPal-Request-Id"))
		require.Equal(t, w.request(0).header.Get("PayPal-Request-Id"), w.request(1).header.Get("PayPal-Request-Id"))
		require.Empty(t, key(w.request(0)))
	})
}

// The draft's 409 (in flight) is retried, its 422 (another payload) never.
func TestInFlightIsRetriedAndAReusedKeyNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(failure(io.EOF), answer(409), answer(200))
		require.Equal(t, 200, roundTrip(t, keyedTransport(w), newRequest(t, "POST", "http://a.test/", nil)).StatusCode)
		require.Equal(t, 3, w.requests())
	})
	w := newWire(answer(422))
	require.Equal(t, 422, roundTrip(t, keyedTransport(w), newRequest(t, "POST", "http://a.test/", nil)).StatusCode)
	require.Equal(t, 1, w.requests())
	for name, tr := range map[string]*backoffhttp.Transport{
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
func followed(t *testing.T, tr *backoffhttp.Transport) *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Transport: tr, Jar: jar}
}

func TestAKeyStaysWithItsOriginOnRedirects(t *testing.T) {
	for location, same := range map[string]bool{
		"http://a.test/moved":     true,
		"http://A.test:80/moved":  true,
		"http://b.test/moved":     false,
		"https://a.test/moved":    false,
		"http://a.test:81/moved":  false,
		"http://a.test.b.test/mv": false,
		"https://a.test:80/moved": false,
	} {
		for _, mine := range []bool{true, false} {
			w := newWire(answer(307, "Location", location), answer(200))
			req := newRequest(t, "POST", "http://a.test/", strings.NewReader("x"))
			if mine {
				req.Header.Set("Idempotency-Key", "mine")
			}
			resp, err := followed(t, keyedTransport(w)).Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			require.NotEmpty(t, key(w.request(0)))
			if same {
				require.Equal(t, key(w.request(0)), key(w.request(1)), location)
			} else {
				require.Empty(t, key(w.request(1)), location)
			}
			require.Equal(t, "x", w.request(1).body)
		}
	}
}

func TestARedirectToAnotherHostIsNotRepeatedUnderItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(307, "Location", "http://b.test/"), answer(503))
		ctx := backoff.WithIdempotencyKey(t.Context(), "of the first host")
		req := newRequest(t, "POST", "http://a.test/", strings.NewReader("x")).WithContext(ctx)
		resp, err := followed(t, over(w)).Do(req)
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		resp.Body.Close()
		require.Equal(t, 2, w.requests())
		require.Empty(t, key(w.request(1)))
	})
}

func TestAKeySurvivesAChainOfRedirects(t *testing.T) {
	w := newWire(answer(307, "Location", "/2"), answer(308, "Location", "/3"), answer(307, "Location", "http://b.test/"), answer(307, "Location", "http://a.test/5"), answer(200))
	resp, err := followed(t, keyedTransport(w)).Do(newRequest(t, "POST", "http://a.test/1", strings.NewReader("x")))
	require.NoError(t, err)
	resp.Body.Close()
	first := key(w.request(0))
	require.Equal(t, first, key(w.request(1)))
	require.Equal(t, first, key(w.request(2)))
	require.Empty(t, key(w.request(3)))
	require.Equal(t, first, key(w.request(4)), "back where it began")
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
