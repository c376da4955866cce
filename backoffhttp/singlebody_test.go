package backoffhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// refused is an attempt whose connection is refused.
var refused = unread(failure(refusedDial))

// unread is an attempt that closes the body unread before it ends so, as net/http does.
func unread(end step) step {
	return func(req *http.Request) (*http.Response, error) {
		req.Body.Close()
		return end(req)
	}
}

// closedAgain is an attempt that closes the body once more after it has ended so.
func closedAgain(end step) step {
	return func(req *http.Request) (*http.Response, error) {
		defer req.Body.Close()
		return end(req)
	}
}

// echoed is an attempt whose answer is what was sent.
func echoed(req *http.Request) (*http.Response, error) {
	content, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return nil, err
	}
	return answerBody(200, string(content))(req)
}

// measured answers how long a body is that holds nothing else than "content".
func measured(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if rest := strings.ReplaceAll(string(content), "content", ""); err != nil || rest != "" {
		w.WriteHeader(500)
	}
	io.WriteString(w, strconv.Itoa(len(content)))
}

// script is a Base that follows a script, whose last step stands for all that follow. It
// leaves the body to the steps.
type script struct {
	steps    []step
	attempts int
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.attempts++
	return s.steps[min(s.attempts, len(s.steps))-1](req)
}

// senders are the ways in which a Transport makes its first attempt.
var senders = map[string]sender{
	"plain": func(b http.RoundTripper, p backoff.Policy) http.RoundTripper {
		return &backoffhttp.Unguarded{Base: b, Policy: p}
	},
	"guarded": func(b http.RoundTripper, p backoff.Policy) http.RoundTripper {
		return &backoffhttp.Transport{Base: b, Policy: p}
	},
	"fail-fast": func(b http.RoundTripper, p backoff.Policy) http.RoundTripper {
		return &backoffhttp.Transport{Base: b, Policy: p, FailFast: true}
	},
	"prepared": func(b http.RoundTripper, p backoff.Policy) http.RoundTripper {
		p.AttemptTimeout = time.Minute
		return &backoffhttp.Unguarded{Base: b, Policy: p}
	},
	"observed": func(b http.RoundTripper, p backoff.Policy) http.RoundTripper {
		p.Observer = backoff.Observer(func(context.Context, backoff.Event) {})
		return &backoffhttp.Transport{Base: b, Policy: p}
	},
	"too long for the buffer": func(b http.RoundTripper, p backoff.Policy) http.RoundTripper {
		return &backoffhttp.Unguarded{Base: b, Policy: p, MaxBuffer: 3}
	},
}

// A sender makes a Transport.
type sender func(base http.RoundTripper, p backoff.Policy) http.RoundTripper

// eachSender runs a test with each sender, for a request that is idempotent, and one that
// is not.
func eachSender(t *testing.T, test func(t *testing.T, send sender, method string)) {
	for name, send := range senders {
		for _, method := range []string{"POST", "PUT"} {
			bubble(t, name+" "+method, func(t *testing.T) { test(t, send, method) })
		}
	}
}

func TestAnUnreadBodySurvivesRefusedConnections(t *testing.T) {
	eachSender(t, func(t *testing.T, send sender, method string) {
		for n := range 4 {
			base := &script{steps: []step{refused, failure(refusedDial), refused}[:n]} // the second one does not close
			base.steps = append(base.steps, echoed)
			body := &closings{Reader: strings.NewReader("content")}
			resp := roundTrip(t, send(base, steady()), newRequest(t, method, "http://a.test/", body))
			require.Equal(t, "content", text(t, resp))
			require.Equal(t, n+1, base.attempts)
			require.Equal(t, 1, body.n)
		}
	})
}

func TestABodyThatWasReadIsNotSentAgain(t *testing.T) {
	reads := map[string]func(io.Reader){
		"in part":         func(r io.Reader) { r.Read(make([]byte, 3)) },
		"no bytes":        func(r io.Reader) { r.Read(nil) },
		"up to its error": func(r io.Reader) { io.ReadAll(r) },
	}
	eachSender(t, func(t *testing.T, send sender, method string) {
		for name, read := range reads {
			for n := range 3 {
				last := func(req *http.Request) (*http.Response, error) {
					read(req.Body)
					return refused(req)
				}
				base := &script{steps: []step{refused, refused}[:n]}
				base.steps = append(base.steps, last, echoed)
				body := &closings{Reader: io.MultiReader(strings.NewReader("content"), iotest.ErrReader(io.ErrUnexpectedEOF))}
				_, err := send(base, steady()).RoundTrip(newRequest(t, method, "http://a.test/", body))
				require.ErrorContains(t, err, "the body of the request cannot be sent again (Request.GetBody, Transport.MaxBuffer)")
				require.Equal(t, n+1, base.attempts, name)
				require.Equal(t, 1, body.n)
				var gave *backoff.Error
				require.ErrorAs(t, err, &gave)
				require.Equal(t, backoff.ReasonAttempts, gave.Reason)
				require.Equal(t, n == 0, gave.RetryableError(), "a caller that can make the body again may retry")
			}
		}
	})
}

// What may have arrived is not sent again, nor is what the policy does not repeat.
func TestAnUnreadBodyIsSentAgainOnlyIfTheRequestWasNotSent(t *testing.T) {
	eachSender(t, func(t *testing.T, send sender, method string) {
		for name, c := range map[string]struct {
			step   step
			change func(*backoff.Policy)
		}{
			"reset":           {failure(syscall.ECONNRESET), func(*backoff.Policy) {}},
			"answered":        {answer(503), func(*backoff.Policy) {}},
			"repeats nothing": {refused, func(p *backoff.Policy) { p.Idempotency = never{} }},
			"one attempt":     {refused, func(p *backoff.Policy) { p.MaxAttempts = 1 }},
			"one attempt for the class": {refused, func(p *backoff.Policy) {
				p.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassNotSent: {MaxAttempts: 1}}
			}},
		} {
			base := &script{steps: []step{c.step, echoed}}
			policy := steady()
			c.change(&policy)
			try(send(base, policy), newRequest(t, method, "http://a.test/", stream("content")))
			require.Equal(t, 1, base.attempts, name)
		}
	})
}

// never is the Idempotency of what is never sent again.
type never struct{}

func (never) Repeatable(context.Context, backoff.Class) bool { return false }

func TestAnUnreadBodyHasTheAttemptsOfThePolicy(t *testing.T) {
	for want, change := range map[int]func(*backoff.Policy){
		4: func(*backoff.Policy) {},
		6: func(p *backoff.Policy) { p.MaxAttempts = 6 },
		3: func(p *backoff.Policy) {
			p.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassNotSent: {MaxAttempts: 3}}
		},
	} {
		for _, name := range []string{"plain", "prepared", "fail-fast"} {
			bubble(t, fmt.Sprint(name, want), func(t *testing.T) {
				base, policy := &script{steps: []step{refused}}, steady()
				change(&policy)
				body := &closings{Reader: strings.NewReader("content")}
				began := time.Now()
				_, err := senders[name](base, policy).RoundTrip(newRequest(t, "POST", "http://a.test/", body))
				require.EqualError(t, err, fmt.Sprintf("backoff: gave up after %d attempts: dial tcp: connection refused", want))
				require.Equal(t, want, base.attempts)
				require.Equal(t, 100*time.Millisecond*(1<<(want-1)-1), time.Since(began))
				require.Equal(t, 1, body.n)
			})
		}
	}
}

func TestAnUnreadBodyIsCarriedThroughAnOutage(t *testing.T) {
	for _, name := range []string{"guarded", "observed"} {
		bubble(t, name, func(t *testing.T) {
			back := time.Now().Add(20 * time.Second)
			base := &script{steps: []step{func(req *http.Request) (*http.Response, error) {
				if time.Now().Before(back) {
					return refused(req)
				}
				return echoed(req)
			}}}
			body := &closings{Reader: strings.NewReader("content")}
			resp, err := ask(t, senders[name](base, steady()), time.Minute, "POST", body)
			require.NoError(t, err)
			require.Equal(t, "content", text(t, resp))
			require.Equal(t, 1, body.n)
		})
	}
}

// net/http reads the body in a goroutine of its own, which may begin when the attempt has
// failed already.
func TestABaseThatHasFailedReadsNothingMore(t *testing.T) {
	for range 2000 {
		var all sync.WaitGroup
		late := func(req *http.Request) (*http.Response, error) {
			all.Go(func() {
				n, err := req.Body.Read(make([]byte, 100))
				if err != nil {
					require.Zero(t, n)
					require.Equal(t, http.ErrBodyReadAfterClose, err)
				}
				req.Body.Close()
			})
			return nil, refusedDial
		}
		base := &script{steps: []step{late, late, echoed}}
		body := &closings{Reader: strings.NewReader("content")}
		resp, err := (&backoffhttp.Unguarded{Base: base, Policy: atOnce()}).RoundTrip(newRequest(t, "POST", "http://a.test/", body))
		all.Wait()
		if err == nil {
			require.Equal(t, "content", text(t, resp), "all of it, or nothing")
			require.Equal(t, 3, base.attempts)
		} else {
			require.ErrorContains(t, err, "cannot be sent again")
		}
		require.Equal(t, 1, body.n)
	}
}

func TestASingleBodyIsClosedOnceHoweverTheCallEnds(t *testing.T) {
	boom := func(*http.Request) (*http.Response, error) { panic("boom") }
	unchanged := func(*backoff.Policy) {}
	for name, c := range map[string]struct {
		steps  []step
		change func(*backoff.Policy)
	}{
		"a panic":                  {[]step{boom}, unchanged},
		"a panic after closing":    {[]step{unread(boom)}, unchanged},
		"a panic after an attempt": {[]step{refused, boom}, unchanged},
		"a panic in the wait": {[]step{refused}, func(p *backoff.Policy) {
			p.Jitter = func(_, _ time.Duration, _ float64) time.Duration { panic("boom") }
		}},
		"an answer to an unread body":    {[]step{unread(answer(417))}, unchanged},
		"a failure after one":            {[]step{refused, unread(answer(503))}, unchanged},
		"closed twice":                   {[]step{closedAgain(echoed)}, unchanged},
		"neither an answer nor an error": {[]step{unread(func(*http.Request) (*http.Response, error) { return nil, nil })}, unchanged},
		"not closed by the Base":         {[]step{failure(refusedDial)}, unchanged},
		"the end of the context":         {[]step{refused}, func(p *backoff.Policy) { p.MaxAttempts = -1 }},
		"a budget that refuses":          {[]step{refused}, func(p *backoff.Policy) { p.Budget = refusing{} }},
		"an invalid policy":              {[]step{refused}, func(p *backoff.Policy) { p.Budget = &backoff.RetryBudget{Ratio: -1} }},
	} {
		t.Run(name, func(t *testing.T) {
			eachSender(t, func(t *testing.T, send sender, method string) {
				policy := steady()
				c.change(&policy)
				body := &closings{Reader: strings.NewReader("content")}
				func() {
					defer func() { _ = recover() }()
					req := newRequest(t, method, "http://a.test/", body).WithContext(within(t, time.Second))
					_ = try(send(&script{steps: c.steps}, policy), req)
				}()
				require.Equal(t, 1, body.n)
			})
		})
	}
}

// So is any other body if no attempt is made.
func TestABodyIsClosedIfNothingIsSent(t *testing.T) {
	body := &closings{Reader: strings.NewReader("content")}
	req := newRequest(t, "POST", "http://a.test/", body)
	req.GetBody = func() (io.ReadCloser, error) { return body, nil }
	tr := over(step(echoed))
	tr.Policy.Budget = &backoff.RetryBudget{Ratio: -1}
	require.Error(t, try(tr, req))
	require.Equal(t, 1, body.n)
}

// A Base that has answered may still read the body, and closes it.
func TestABodyBelongsToABaseThatHasAnswered(t *testing.T) {
	var kept io.ReadCloser
	base := step(func(req *http.Request) (*http.Response, error) {
		kept = req.Body
		return answer(200)(req)
	})
	body := &closings{Reader: strings.NewReader("content")}
	roundTrip(t, over(base), newRequest(t, "POST", "http://a.test/", body))
	require.Zero(t, body.n)
	content, err := io.ReadAll(kept)
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
	require.NoError(t, kept.Close())
	require.NoError(t, kept.Close())
	require.Equal(t, 1, body.n)
}

// One of two replicas refuses connections. A proxy passes on bodies that cannot be read
// twice.
func TestAProxyCarriesPostsPastAReplicaThatRefuses(t *testing.T) {
	for name, setup := range protocols {
		t.Run(name, func(t *testing.T) {
			up := serve(t, measured, setup)
			down, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			down.Close()
			base := up.Client().Transport.(*http.Transport).Clone()
			base.ExpectContinueTimeout = time.Minute
			var dials atomic.Int64
			base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				to := up.Listener.Addr()
				if dials.Add(1)%2 == 1 {
					to = down.Addr()
				}
				return new(net.Dialer).DialContext(ctx, network, to.String())
			}
			target, err := url.Parse(up.URL)
			require.NoError(t, err)
			proxy := httptest.NewServer(&httputil.ReverseProxy{
				Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
				Transport:    &backoffhttp.Unguarded{Base: base, Policy: atOnce()},
				ErrorHandler: backoffhttp.WriteError,
			})
			defer proxy.Close()
			for i := range 20 {
				for _, expect := range []string{"", "100-continue"} {
					req := newRequest(t, "POST", proxy.URL, stream(strings.Repeat("content", i*1000)))
					if expect != "" {
						req.Header.Set("Expect", expect)
					}
					resp, err := http.DefaultClient.Do(req)
					require.NoError(t, err)
					require.Equal(t, strconv.Itoa(7000*i), text(t, resp))
					base.CloseIdleConnections()
				}
			}
			require.Greater(t, dials.Load(), int64(4))
		})
	}
}

// A file is sent by the system (sendfile) as without a Transport.
func TestAFileIsSentByTheSystemAndSurvivesARefusedConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "upload")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("content", 10_000)), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	s := serve(t, measured)
	var read atomic.Int64
	base := &script{steps: []step{refused, func(req *http.Request) (*http.Response, error) {
		req = req.WithContext(req.Context())
		req.Body = countedFile{req.Body.(fileBody), &read}
		return s.Client().Transport.RoundTrip(req)
	}}}
	req := newRequest(t, "POST", s.URL, file)
	req.ContentLength = 70_000
	require.Equal(t, "70000", text(t, roundTrip(t, &backoffhttp.Unguarded{Base: base, Policy: atOnce()}, req)))
	require.ErrorIs(t, file.Close(), os.ErrClosed)
	if runtime.GOOS == "linux" {
		require.Zero(t, read.Load())
	}
}

// fileBody is a file to package net.
type fileBody interface {
	io.ReadCloser
	syscall.Conn
}

// countedFile counts the bytes that are not sent by the system.
type countedFile struct {
	fileBody
	n *atomic.Int64
}

func (f countedFile) Read(p []byte) (int, error) {
	n, err := f.fileBody.Read(p)
	f.n.Add(int64(n))
	return n, err
}

// A file that was taken back is not sent by the system either.
func TestAFileOfAnAttemptThatFailedIsNotRead(t *testing.T) {
	file, err := os.Open("singlebody_test.go")
	require.NoError(t, err)
	var bodies []io.ReadCloser
	base := step(func(req *http.Request) (*http.Response, error) {
		bodies = append(bodies, req.Body)
		return refused(req)
	})
	_, err = (&backoffhttp.Unguarded{Base: base, Policy: atOnce()}).RoundTrip(newRequest(t, "POST", "http://a.test/", file))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Len(t, bodies, 4)
	for _, body := range bodies {
		_, err := body.(syscall.Conn).SyscallConn()
		require.Error(t, err)
		require.False(t, errors.Is(err, os.ErrClosed), "nothing asks the file")
	}
}
