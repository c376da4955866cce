package backoffhttp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/hedge"
)

// hang waits for the request's end.
func hang(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err() // as HTTP/2 does; HTTP/1 gives the cause
}

// aSecond gives each attempt of a call a second: by the policy, or by the Timeout
// of the client.
var aSecond = map[string]func(*http.Client, *backoff.Policy){
	"AttemptTimeout": func(_ *http.Client, p *backoff.Policy) { p.AttemptTimeout = time.Second },
	"Client.Timeout": func(c *http.Client, _ *backoff.Policy) { c.Timeout = time.Second },
}

// limited is a client whose attempts have a second each.
func limited(base http.RoundTripper, set func(*http.Client, *backoff.Policy)) *http.Client {
	c, p := &http.Client{Transport: base}, steady()
	p.Classify = func(error) backoff.Class { return backoff.ClassPermanent } // is not asked about a timeout
	set(c, &p)
	client, _ := wrapped(c, p)
	return client
}

func TestAnAttemptThatTakesTooLongIsRetriedWhateverTheClassifierSays(t *testing.T) {
	for name, set := range aSecond {
		bubble(t, name, func(t *testing.T) {
			w := newWire(hang, answer(200))
			require.Equal(t, 200, fetch(t, limited(w, set), "http://a.test/").StatusCode)
			require.Equal(t, []time.Duration{1100 * time.Millisecond}, w.waits())
		})
	}
}

func TestTheCallersDeadlineIsNoTimeoutOfAnAttempt(t *testing.T) {
	for name, set := range aSecond {
		bubble(t, name, func(t *testing.T) {
			ctx := within(t, time.Second/2)
			w := newWire(hang)
			_, err := limited(w, set).Do(newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, backoff.ErrAttemptTimeout)
			require.Equal(t, 1, w.requests())
		})
	}
}

func TestAnAnswerAtTheLastInstantIsLate(t *testing.T) {
	for name, set := range aSecond {
		bubble(t, name, func(t *testing.T) {
			w := newWire(func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return answer(200)(req) // all the same
			}, answer(204))
			resp := fetch(t, limited(w, set), "http://a.test/")
			require.Equal(t, 204, resp.StatusCode, "the body of the first one was dead")
			resp.Body.Close()
			require.Zero(t, w.open())
		})
	}
}

func TestAttemptTimeoutsMayGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(hang)
		tr.Policy = backoff.Policy{
			Schedule:               backoff.Constant(0),
			AttemptTimeoutSchedule: backoff.Exponential{Initial: time.Second, Max: 4 * time.Second},
		}
		_, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, w.waits())
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, context.Canceled)
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
	})
}

func TestAnAttemptsTimeIsCutToMaxElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := over(newWire(hang))
		tr.Policy.AttemptTimeout = time.Second
		tr.Policy.MaxElapsed = 1500 * time.Millisecond
		began := time.Now()
		_, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Equal(t, 1500*time.Millisecond, time.Since(began))
	})
}

// late is a budget that confirms a retry a second late, as a wait may end late.
type late struct{ backoff.BudgetDefaults }

func (late) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{Word: uint64(a.Number)}, 0, true
}

func (late) Confirm(ticket backoff.Ticket) bool {
	if ticket.Word > 1 {
		time.Sleep(time.Second)
	}
	return true
}

func TestAnAttemptWhoseTimeIsOverIsNotSent(t *testing.T) {
	for _, wait := range []time.Duration{time.Second, 1500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			tr, w := scripted(answer(503))
			tr.Policy.AttemptTimeout = time.Second
			tr.Policy.MaxElapsed = 1500 * time.Millisecond
			tr.Policy.Schedule = backoff.Constant(wait)
			tr.Policy.Budget = late{}
			resp, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
			require.Equal(t, 1, w.requests())
			if err == nil { // the wait was not begun
				require.Equal(t, 503, resp.StatusCode)
				return
			}
			require.ErrorIs(t, err, backoff.ErrExhausted)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "503")
		})
	}
}

// A body that comes slowly is not cut by the time that the attempt had.
func TestAnAttemptsTimeDoesNotCutTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, _ := serveInMemory(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 10 {
				io.WriteString(w, "a second's worth\n")
				http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
		}))
		tr := over(base)
		tr.Policy.AttemptTimeout = 500 * time.Millisecond
		resp := getRoot(t, tr)
		lines := 0
		for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); lines++ {
		}
		require.Equal(t, 10, lines)
	})
}

func TestTheAttemptsContextEndsWithItsBody(t *testing.T) {
	for name, end := range map[string]func(*http.Response){
		"at its end": func(resp *http.Response) { io.ReadAll(resp.Body) },
		"when closed": func(resp *http.Response) {
			resp.Body.Close()
			resp.Body.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ctx context.Context
			tr := over(newWire(func(req *http.Request) (*http.Response, error) {
				ctx = req.Context()
				return answer(200)(req)
			}))
			tr.Policy.AttemptTimeout = time.Minute
			resp := getRoot(t, tr)
			require.NoError(t, ctx.Err())
			end(resp)
			require.Error(t, ctx.Err())
			require.NoError(t, t.Context().Err())
		})
	}
}

// 101 Switching Protocols has a body that can be written to.
func TestAnUpgradedConnectionStaysWritable(t *testing.T) {
	tr := over(changed(answer(101), func(resp *http.Response) { resp.Body = &upgraded{ReadCloser: resp.Body} }))
	tr.Policy.AttemptTimeout = time.Minute
	resp := getRoot(t, tr)
	w, ok := resp.Body.(io.Writer)
	require.True(t, ok)
	_, err := w.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.(interface{ CloseWrite() error }).CloseWrite(), "half of a connection can be closed")
}

type upgraded struct {
	io.ReadCloser
	written []byte
}

func (u *upgraded) CloseWrite() error { return nil }

func (u *upgraded) Write(p []byte) (int, error) {
	u.written = append(u.written, p...)
	return len(p), nil
}

func TestTheServerIsToldTheAttemptAndTheTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := within(t, 10*time.Second)
		tr, w := scripted(answer(503), answer(503), answer(200))
		tr.Propagate = func(u *url.URL) bool { return u.Host == "own.test" }
		roundTrip(t, tr, newRequest(t, "GET", "http://own.test/", nil).WithContext(ctx))
		for i, want := range [][2]string{{"1", "10000"}, {"2", "9900"}, {"3", "9700"}} {
			require.Equal(t, want[0], w.request(i).header.Get(backoffhttp.HeaderAttempt))
			require.Equal(t, want[1], w.request(i).header.Get(backoffhttp.HeaderDeadline))
		}
	})
}

func TestTheServerIsToldTheShortestOfAllTimes(t *testing.T) {
	for _, c := range []struct {
		attempt, client, deadline time.Duration
		want                      string
	}{
		{3 * time.Second, 0, 0, "3000"},
		{3 * time.Second, time.Second, 0, "1000"},
		{3 * time.Second, 10 * time.Second, 0, "3000"},
		{3 * time.Second, 0, 2 * time.Second, "2000"},
		{1999 * time.Microsecond, 0, 0, "2"}, // rounded up
		{0, 0, math.MaxInt64, strconv.FormatInt(math.MaxInt64/1_000_000, 10)},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, ctx := newWire(answer(200)), t.Context()
			client, tr := wrapped(&http.Client{Transport: w, Timeout: c.client}, backoff.Policy{AttemptTimeout: c.attempt})
			tr.Propagate = everywhere
			if c.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, time.Now().Add(c.deadline))
				defer cancel()
			}
			require.NoError(t, try(client.Transport, newRequest(t, "GET", "http://own.test/", nil).WithContext(ctx)))
			require.Equal(t, c.want, w.request(0).header.Get(backoffhttp.HeaderDeadline), "%+v", c)
		})
	}
}

func TestTheServerIsToldNothingUnlessPropagateAllowsIt(t *testing.T) {
	w := newWire(answer(200))
	for _, tr := range []*backoffhttp.Unguarded{over(w), {Base: w, Propagate: func(*url.URL) bool { return false }}} {
		roundTrip(t, tr, newRequest(t, "GET", "http://other.test/", nil))
	}
	tr := over(w)
	tr.Propagate = everywhere
	roundTrip(t, tr, newRequest(t, "GET", "http://own.test/", nil))
	for i := range 2 {
		require.NotContains(t, w.request(i).header, backoffhttp.HeaderAttempt)
		require.NotContains(t, w.request(i).header, backoffhttp.HeaderDeadline)
	}
	require.NotContains(t, w.request(2).header, backoffhttp.HeaderDeadline, "there is none")
}

// brokenBody gives some bytes and then an error.
func brokenBody(good string, err error) step {
	return broken(answer(200), good, err)
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestReadAheadReadsNoMoreThanItsLimit(t *testing.T) {
	const size = 1 << 20
	for limit, most := range map[int64]int64{10: 11, -1: size, math.MaxInt64: size} {
		tr, w := scripted(answerBody(200, strings.Repeat("x", size)))
		tr.ReadAhead = limit
		resp := getRoot(t, tr)
		require.LessOrEqual(t, w.bodies[0].read.Load(), most)
		require.Equal(t, limit == 10, w.open() > 0, "what was read to its end is closed")
		require.Len(t, text(t, resp), size)
		require.Zero(t, w.open())
	}
}

func TestReadAheadReportsWhatItCannotRepeat(t *testing.T) {
	broken := errors.New("broken for good")
	tr, w := scripted(brokenBody("half", broken))
	tr.ReadAhead = -1
	_, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
	require.ErrorIs(t, err, broken)
	require.Zero(t, w.open())
}

// If a request is cancelled just when its response has come, net/http closes the connection, and
// the next request on it gets the cause of the other's context (persistConn.cancelRequest).
func TestTheEndOfAnotherRequestsContextDoesNotEndThisOne(t *testing.T) {
	for _, end := range []error{context.Canceled, lostHedge(t)} {
		for method, attempts := range map[string]int{"GET": 2, "POST": 1} {
			w := newWire(failure(end), answer(200))
			resp, err := (&backoffhttp.Transport{Base: w}).RoundTrip(newRequest(t, method, "http://a.test/", nil))
			require.Equal(t, attempts, w.requests(), "%s after %v", method, end)
			require.Equal(t, attempts == 2, err == nil)
			if err == nil {
				resp.Body.Close()
			}
		}
	}
}

// The Timeout of an http.Client closes Request.Cancel, perhaps before the context has ended, and
// net/http then says neither that the context ended nor that time is over.
func TestTheTimeoutOfAnHTTPClientIsTheDeadline(t *testing.T) {
	for _, text := range []string{"net/http: request canceled", "net/http: request canceled while waiting for connection"} {
		for ctx, over := range map[context.Context]bool{overdue{t.Context()}: true, t.Context(): false} {
			w := newWire(failure(errors.New(text)))
			_, err := (&backoffhttp.Transport{Base: w, FailFast: true}).RoundTrip(newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
			require.Equal(t, 1, w.requests())
			require.Equal(t, over, errors.Is(err, context.DeadlineExceeded), "%v", err)
			require.Equal(t, over, strings.Contains(err.Error(), "the next wait would pass the deadline"), "%v", err)
		}
	}
}

// overdue is a context whose deadline has passed, and which does not know it yet.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now(), true }

func TestEveryTimeoutOfAnHTTPClientIsADeadline(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	reasons := map[backoff.Reason]int{}
	client := &http.Client{Timeout: 10 * time.Millisecond, Transport: &backoffhttp.Unguarded{
		Policy: backoff.Policy{Observer: func(_ context.Context, e backoff.Event) { reasons[e.Reason]++ }},
	}}
	for range 100 {
		_, err := client.Get(server.URL)
		require.Error(t, err)
	}
	require.Equal(t, map[backoff.Reason]int{backoff.ReasonDeadline: 100}, reasons)
}

// lostHedge returns the cause of the context of an attempt that lost.
func lostHedge(t *testing.T) error {
	started, causes := make(chan bool), make(chan error, 1)
	_, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: -1}, func(ctx context.Context) (int, error) {
		if hedge.Number(ctx) == 0 {
			<-started
			return 0, nil
		}
		close(started)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return 0, ctx.Err()
	}, nil)
	require.NoError(t, err)
	return <-causes
}
