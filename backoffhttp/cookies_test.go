package backoffhttp_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backoffhttp"
)

// countingJar counts the cookies that are put into it.
type countingJar struct {
	*cookiejar.Jar
	set map[string]int
}

func (j *countingJar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	for _, c := range cookies {
		j.set[c.Name+"="+c.Value+" of "+u.Host]++
	}
	j.Jar.SetCookies(u, cookies)
}

// newJar returns a jar with cookies for a.test.
func newJar(cookies ...*http.Cookie) *countingJar {
	jar, _ := cookiejar.New(nil)
	jar.SetCookies(&url.URL{Scheme: "http", Host: "a.test", Path: "/"}, cookies)
	return &countingJar{jar, make(map[string]int)}
}

func TestCookiesOfAnAnswerThatIsRetriedComeBackWithTheRetry(t *testing.T) {
	for name, c := range map[string]struct {
		jar   []*http.Cookie
		hand  string
		set   []string // by the answer that is retried
		first []string
		retry []string
	}{
		"a new one":           {set: []string{"node=1"}, retry: []string{"node=1"}},
		"beside another":      {jar: []*http.Cookie{{Name: "user", Value: "x"}}, set: []string{"node=1"}, first: []string{"user=x"}, retry: []string{"user=x; node=1"}},
		"in place of another": {jar: []*http.Cookie{{Name: "user", Value: "x"}}, set: []string{"user=y"}, first: []string{"user=x"}, retry: []string{"user=y"}},
		"deleted":             {jar: []*http.Cookie{{Name: "user", Value: "x"}}, set: []string{"user=; Max-Age=0"}, first: []string{"user=x"}},
		"by hand":             {hand: "id=1; odd", set: []string{"node=1"}, first: []string{"id=1; odd"}, retry: []string{"id=1; odd; node=1"}},
		"by hand, also in the jar": {
			hand: "user=h", jar: []*http.Cookie{{Name: "user", Value: "x"}}, set: []string{"user=y"},
			first: []string{"user=h; user=x"}, retry: []string{"user=h; user=y"},
		},
		"by hand, and deleted in the jar": {
			hand: "user=h", jar: []*http.Cookie{{Name: "user", Value: "x"}}, set: []string{"user=; Max-Age=0"},
			first: []string{"user=h; user=x"}, retry: []string{"user=h"},
		},
		"of another host":   {set: []string{"node=1; Domain=b.test"}},
		"of another path":   {set: []string{"node=1; Path=/admin"}},
		"for HTTPS alone":   {set: []string{"node=1; Secure"}},
		"that is malformed": {set: []string{"=;", "\x00=1"}},
	} {
		bubble(t, name, func(t *testing.T) {
			var header []string
			for _, set := range c.set {
				header = append(header, "Set-Cookie", set)
			}
			w := newWire(answer(503, header...), failure(syscall.ECONNRESET), answer(200))
			client, _ := wrapped(&http.Client{Transport: w, Jar: newJar(c.jar...)}, steady())
			req := newRequest(t, "GET", "http://a.test/", nil)
			if c.hand != "" {
				req.Header.Set("Cookie", c.hand)
			}
			roundTrip(t, step(client.Do), req)
			require.Equal(t, c.first, w.request(0).header["Cookie"])
			require.Equal(t, c.retry, w.request(1).header["Cookie"])
			require.Equal(t, c.retry, w.request(2).header["Cookie"])
		})
	}
}

// The client puts the cookies of the last answer into the jar itself.
func TestTheJarGetsTheCookiesOfEachAnswerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(
			answer(503, "Set-Cookie", "n=1"), answer(302, "Set-Cookie", "n=2", "Location", "http://b.test/"),
			answer(503, "Set-Cookie", "n=3"), answer(200, "Set-Cookie", "n=4"),
		)
		jar := newJar()
		client, _ := wrapped(&http.Client{Transport: w, Jar: jar}, steady())
		fetch(t, client, "http://a.test/")
		require.Equal(t, map[string]int{"n=1 of a.test": 1, "n=2 of a.test": 1, "n=3 of b.test": 1, "n=4 of b.test": 1}, jar.set)
		require.Equal(t, []string{"n=1"}, w.request(1).header["Cookie"])
		require.Nil(t, w.request(2).header["Cookie"], "another host")
		require.Equal(t, []string{"n=3"}, w.request(3).header["Cookie"])
	})
}

func TestCookiesOfAnAnswerThatBreaksOffAreKept(t *testing.T) {
	for name, set := range map[string]func(*backoffhttp.Transport){
		"ReadAhead": func(tr *backoffhttp.Transport) { tr.ReadAhead = -1 },
		"Inspect": func(tr *backoffhttp.Transport) {
			tr.Inspect = func(*http.Response) error { time.Sleep(2 * time.Second); return nil }
		},
	} {
		bubble(t, name, func(t *testing.T) {
			broken := func(req *http.Request) (*http.Response, error) {
				resp, err := answer(200, "Set-Cookie", "n=1")(req)
				resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("beginning"), iotest.ErrReader(io.ErrUnexpectedEOF)))
				return resp, err
			}
			w := newWire(broken, answer(200))
			client, tr := wrapped(&http.Client{Transport: w, Jar: newJar()}, steady())
			tr.Policy.AttemptTimeout, tr.Policy.MaxAttempts = time.Second, 2
			set(tr)
			if resp, err := client.Get("http://a.test/"); err == nil {
				resp.Body.Close()
			}
			require.Equal(t, 2, w.requests())
			require.Equal(t, []string{"n=1"}, w.request(1).header["Cookie"])
		})
	}
}

// Nobody else has a right to the header of the caller's request.
func TestTheCallersRequestKeepsItsCookies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503, "Set-Cookie", "n=1"), answer(200))
		_, tr := wrapped(&http.Client{Transport: w, Jar: newJar()}, steady())
		req := newRequest(t, "GET", "http://a.test/", nil)
		req.Header.Set("Cookie", "id=1")
		roundTrip(t, tr, req)
		require.Equal(t, []string{"id=1; n=1"}, w.request(1).header["Cookie"])
		require.Equal(t, []string{"id=1"}, req.Header["Cookie"])
	})
}
