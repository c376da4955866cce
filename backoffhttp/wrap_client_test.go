package backoffhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"reflect"
	"strconv"
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

// wrapped is WrapClient without guards, and the Transport that it made.
func wrapped(c *http.Client, p backoff.Policy) (*http.Client, *backoffhttp.Transport) {
	client := backoffhttp.WrapClient(c, p)
	tr := client.Transport.(*backoffhttp.Transport)
	tr.Services = without()
	return client, tr
}

// fetch gets a URL. The body of the answer is closed with the test.
func fetch(t testing.TB, c *http.Client, url string) *http.Response {
	t.Helper()
	return roundTrip(t, step(c.Do), newRequest(t, "GET", url, nil))
}

func TestAWrappedClientKeepsAllButTheTimeout(t *testing.T) {
	jar, _ := cookiejar.New(nil)
	refused := errors.New("no redirects")
	c := &http.Client{
		Transport:     newWire(answer(200)),
		CheckRedirect: func(*http.Request, []*http.Request) error { return refused },
		Jar:           jar,
		Timeout:       time.Second,
	}
	before := *c
	client, tr := wrapped(c, steady())
	require.Same(t, before.Transport, c.Transport, "the client itself is untouched")
	require.Equal(t, time.Second, c.Timeout)
	require.Same(t, jar, client.Jar)
	require.Equal(t, refused, client.CheckRedirect(nil, nil))
	require.Zero(t, client.Timeout)
	require.Same(t, before.Transport, tr.Base)

	require.Equal(t, 4, reflect.TypeFor[http.Client]().NumField(), "a new field of http.Client: is it kept?")
}

func TestNoClientMeansTheDefaultClient(t *testing.T) {
	jar, _ := cookiejar.New(nil)
	http.DefaultClient.Jar = jar
	defer func() { http.DefaultClient.Jar = nil }()
	require.Same(t, jar, backoffhttp.WrapClient(nil, backoff.Policy{}).Jar)

	client := backoffhttp.Client(backoff.Policy{MaxAttempts: 7})
	require.Nil(t, client.Jar, "Client makes a new one")
	require.Equal(t, 7, client.Transport.(*backoffhttp.Transport).Policy.MaxAttempts)
	require.Zero(t, client.Timeout)
}

func TestTheTimeoutOfAWrappedClientIsThatOfAnAttempt(t *testing.T) {
	for _, ahead := range []int64{0, 1000} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(hang, hang, answer(200))
			client, tr := wrapped(&http.Client{Transport: w, Timeout: time.Second}, steady())
			tr.ReadAhead = ahead
			began := time.Now()
			resp := fetch(t, client, "http://a.test/")
			require.Equal(t, "body of 200", text(t, resp))
			require.Equal(t, 2300*time.Millisecond, time.Since(began))
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWire(hang)
		client, tr := wrapped(&http.Client{Transport: w, Timeout: time.Second}, steady())
		tr.FailFast = true
		_, err := client.Get("http://a.test/")
		require.EqualError(t, err, `Get "http://a.test/": backoff: gave up after 4 attempts: the answer took longer than Client.Timeout`)
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, err.(*url.Error).Timeout())
		require.Equal(t, 4, w.requests())
	})
}

// Nobody has to close http.NoBody, which would leave its timer behind.
func TestAnAnswerWithoutABodyIsNotHeldByItsTimeout(t *testing.T) {
	var held context.Context
	base := step(func(req *http.Request) (*http.Response, error) {
		held = req.Context()
		return &http.Response{StatusCode: 204, Body: http.NoBody, Request: req}, nil
	})
	p := steady()
	p.AttemptTimeout = time.Second
	for _, timeout := range []time.Duration{0, time.Hour} {
		client := backoffhttp.WrapClient(&http.Client{Transport: base, Timeout: timeout}, p)
		resp := fetch(t, client, "http://a.test/")
		require.Equal(t, http.NoBody, resp.Body)
		require.Error(t, held.Err())
	}
}

func TestAClientWithoutATimeoutGetsNone(t *testing.T) {
	for _, timeout := range []time.Duration{0, -time.Second} {
		synctest.Test(t, func(t *testing.T) {
			slow := step(func(req *http.Request) (*http.Response, error) {
				_, limited := req.Context().Deadline()
				require.False(t, limited)
				time.Sleep(time.Hour)
				return answer(200)(req)
			})
			client, _ := wrapped(&http.Client{Transport: slow, Timeout: timeout}, steady())
			fetch(t, client, "http://a.test/")
		})
	}
}

// A server that stalls in the middle of a body cannot hold the caller.
func TestTheTimeoutOfAWrappedClientCoversTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		base, _ := serveInMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		client, _ := wrapped(&http.Client{Transport: base, Timeout: time.Second}, steady())
		began := time.Now()
		resp := fetch(t, client, "http://a.test/")
		require.Zero(t, time.Since(began), "the header is there")
		body, err := io.ReadAll(resp.Body)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, "half", string(body))
		require.EqualError(t, err, "no end of the body within Client.Timeout")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, requests, "reading a body is not retried")
	})
}

func TestAResumedBodyGoesOnAfterTheTimeoutOfAWrappedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fileServer{etag: `"v1"`}
		s.faults = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(file)))
			w.Write(file[:3000])
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}}
		base, _ := serveInMemory(t, s)
		client, tr := wrapped(&http.Client{Transport: base, Timeout: time.Second}, steady())
		tr.Resume = true
		resp := fetch(t, client, "http://a.test/")
		require.Equal(t, string(file), text(t, resp))
		require.Equal(t, "bytes=3000-65535", s.requests[1].Header.Get("Range"))
	})
}

func TestOfTwoTimeoutsOfAnAttemptTheShorterEndsIt(t *testing.T) {
	for _, c := range []struct {
		client, policy time.Duration
		want           string
	}{
		{time.Second, time.Minute, "the answer took longer than Client.Timeout"},
		{time.Minute, time.Second, "the answer took longer than AttemptTimeout"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, _ := wrapped(&http.Client{Transport: newWire(hang), Timeout: c.client},
				backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0), AttemptTimeout: c.policy})
			began := time.Now()
			_, err := client.Get("http://a.test/")
			require.ErrorContains(t, err, c.want)
			require.Equal(t, 2*time.Second, time.Since(began))
		})
	}
}

func TestEachRedirectHasAttemptsAndTimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := map[string]int{}
		base := step(func(req *http.Request) (*http.Response, error) {
			sent[req.URL.Path]++
			time.Sleep(900 * time.Millisecond)
			switch {
			case sent[req.URL.Path] < 3:
				return answer(503)(req)
			case req.URL.Path == "/a":
				return answer(302, "Location", "/b")(req)
			}
			return answer(200)(req)
		})
		client, _ := wrapped(&http.Client{Transport: base, Timeout: time.Second}, atOnce())
		resp := fetch(t, client, "http://a.test/a")
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, map[string]int{"/a": 3, "/b": 3}, sent)
	})
}

func TestAClientThatIsWrappedTwiceHasTheLastPolicyOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503))
		first, _ := wrapped(&http.Client{Transport: w, Timeout: time.Minute}, steady())
		first.Timeout = time.Second
		p := atOnce()
		p.MaxAttempts = 6
		second, tr := wrapped(first, p)
		require.Equal(t, w, tr.Base)
		resp := fetch(t, second, "http://a.test/")
		require.ErrorContains(t, backoffhttp.Check(resp), "gave up after 6 attempts")
		require.Equal(t, 6, w.requests())

		tr.Base = newWire(hang)
		began := time.Now()
		_, err := second.Get("http://a.test/")
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, 6*time.Second, time.Since(began), "the shorter one")

		second.Timeout = time.Hour
		third, tr := wrapped(second, p)
		tr.Base = newWire(hang)
		began = time.Now()
		_, err = third.Get("http://a.test/")
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, 6*time.Second, time.Since(began), "it stays")
	})
}

func TestAClientThatIsWrappedTwiceKeepsTheFieldsOfItsTransport(t *testing.T) {
	full := &backoffhttp.Transport{
		Base: newWire(), MaxBuffer: 7, KeyHeader: "X-Key", RateLimits: backoffhttp.XLimits,
		Propagate: everywhere, Services: new(guard.Services), Control: new(control.Panel).Policy(backoff.Policy{}),
	}
	bare := backoffhttp.WrapClient(&http.Client{Transport: (*backoffhttp.Unguarded)(full)}, atOnce()).Transport
	require.Equal(t, "X-Key", bare.(*backoffhttp.Unguarded).KeyHeader)
	again := backoffhttp.WrapClient(&http.Client{Transport: full}, atOnce()).Transport.(*backoffhttp.Transport)
	require.NotNil(t, again.Propagate)
	require.Nil(t, again.Control, "the new client has the policy that it was given")
	full.Control, full.Policy = nil, atOnce()
	full.Propagate, again.Propagate = nil, nil // functions cannot be compared
	require.Equal(t, full, again)
}

// One attempt and no Timeout: then a wrapped client is the client. Each byte is
// what becomes of one request.
func FuzzWrapClientWithOneAttempt(f *testing.F) {
	f.Add([]byte{0}, uint8(0))
	f.Add([]byte{3, 11, 4, 10, 5, 9, 0}, uint8(1))
	f.Add([]byte{6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6}, uint8(2))
	f.Add([]byte{7, 1}, uint8(7))
	f.Add([]byte{4, 8}, uint8(12))
	f.Add([]byte{12}, uint8(17))
	f.Add([]byte{6, 12}, uint8(33))
	f.Fuzz(func(t *testing.T, fates []byte, options uint8) {
		synctest.Test(t, func(t *testing.T) {
			plain := clientCall(t, fates, options, func(c *http.Client) *http.Client { return c })
			ours := clientCall(t, fates, options, func(c *http.Client) *http.Client {
				again, _ := wrapped(c, backoff.Policy{MaxAttempts: 1})
				return again
			})
			require.Equal(t, plain, ours)
		})
	})
}

// An outcome is all that the user of a client and its server see of a call.
type outcome struct {
	sent        []sent
	cookies     []*http.Cookie
	status      int
	body        string
	url         string // of the request that was answered
	failed      bool
	op, failure string // of a url.Error
	timeout     bool
	is          [5]bool
	answered    bool // besides an error
	left        int  // bodies that are open when the caller has closed his
}

var (
	errReset   = errors.New("reset by the network")
	errStopped = errors.New("no more redirects")
)

func clientCall(t *testing.T, fates []byte, options uint8, wrap func(*http.Client) *http.Client) (o outcome) {
	steps := make([]step, len(fates)+1)
	for i, fate := range fates {
		steps[i] = fateOf(fate)
	}
	steps[len(fates)] = answer(200)
	w := newWire(steps...)
	c := &http.Client{Transport: w}
	jar, _ := cookiejar.New(nil)
	if options&1 != 0 {
		c.Jar = jar
	}
	switch options >> 1 & 3 {
	case 1:
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	case 2:
		c.CheckRedirect = func(_ *http.Request, via []*http.Request) error {
			if len(via) == 2 {
				return errStopped
			}
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if options&16 != 0 {
		cancel()
	}
	method, body := "GET", io.Reader(nil)
	switch {
	case options&8 != 0 && options&32 != 0:
		method, body = "POST", stream("content")
	case options&8 != 0:
		method, body = "POST", strings.NewReader("content")
	}
	req := newRequest(t, method, "http://a.test/start", body).WithContext(ctx)
	resp, err := wrap(c).Do(req)
	if resp != nil {
		o.answered, o.status, o.url = true, resp.StatusCode, resp.Request.URL.String()
		text, _ := io.ReadAll(resp.Body)
		o.body = string(text)
		resp.Body.Close()
	}
	if err != nil {
		failed := err.(*url.Error)
		o.failed, o.op, o.failure, o.timeout = true, failed.Op, failed.URL, failed.Timeout()
		for i, target := range []error{errReset, errStopped, context.Canceled, context.DeadlineExceeded, http.ErrNoLocation} {
			o.is[i] = errors.Is(err, target)
		}
	}
	u, _ := url.Parse("http://a.test/")
	o.cookies, o.left = jar.Cookies(u), w.open()
	if options&16 == 0 { // a context that has ended already is the wire's own affair
		o.sent = w.sent
	}
	for i := range o.sent {
		o.sent[i].at = time.Time{}
	}
	return o
}

// fateOf returns what becomes of a request.
func fateOf(fate byte) step {
	next := "/" + string('a'+fate%26)
	switch fate % 13 {
	case 1:
		return answer(204)
	case 2:
		return answer(503, "Retry-After", "1", "Set-Cookie", "busy=1")
	case 3, 4, 5, 6, 7:
		code := []int{301, 302, 303, 307, 308}[fate%13-3]
		return answer(code, "Location", next, "Set-Cookie", "hop="+next)
	case 8:
		return failure(errReset)
	case 9:
		return answer(302, "Location", "http://b.test"+next)
	case 10:
		return answer(302) // without a Location
	case 11:
		return answer(429)
	case 12:
		return hang
	}
	return answer(200, "Set-Cookie", "done=1")
}
