package backoffhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff/limit"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest/fault"
)

// A real server behind a proxy that fails: what is sent, and how often it has
// its effect.
func TestEveryFaultOfAConnection(t *testing.T) {
	const page = 8 << 10
	for name, c := range map[string]struct {
		fault     fault.Fault
		put, post int64 // effects
		postFails bool
	}{
		"pass":           {fault: fault.OK(), put: 1, post: 1},
		"reset":          {fault: fault.Reset(), put: 1, post: 0, postFails: true},
		"answer dropped": {fault: fault.Lost(), put: 2, post: 1, postFails: true},
		"header cut":     {fault: fault.Cut(20), put: 2, post: 1, postFails: true},
		"body reset":     {fault: fault.Cut(4000), put: 2, post: 1, postFails: true},
		"answer hangs":   {fault: fault.Hang(), put: 2, post: 1, postFails: true},
		"answer is slow": {fault: fault.Slow(time.Millisecond), put: 1, post: 1},
	} {
		for method, want := range map[string]int64{"PUT": c.put, "POST": c.post} {
			t.Run(name+"/"+method, func(t *testing.T) {
				var effects atomic.Int64
				s := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if body, err := io.ReadAll(r.Body); err != nil || string(body) != "content" {
						return
					}
					effects.Add(1)
					io.WriteString(w, strings.Repeat("x", page))
				})
				tr := faulty(t, s, c.fault)
				resp, err := tr.RoundTrip(newRequest(t, method, "http://"+tr.addr+"/", strings.NewReader("content")))
				if method == "POST" && c.postFails {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					require.Len(t, text(t, resp), page)
				}
				require.Equal(t, want, effects.Load())
			})
		}
	}
}

type faultyTransport struct {
	*backoffhttp.Unguarded
	addr string
}

// faulty reaches s through a proxy that does f to the first exchange.
// Answers are read ahead, and may take 300 ms.
func faulty(t *testing.T, s *testServer, f fault.Fault) faultyTransport {
	proxy, err := (&fault.Injector{Plan: fault.Script(f)}).Proxy(s.Listener.Addr().String())
	require.NoError(t, err)
	base := &http.Transport{}
	t.Cleanup(func() {
		base.CloseIdleConnections()
		proxy.Close()
	})
	tr := &backoffhttp.Unguarded{Base: base, ReadAhead: -1, Policy: backoff.Policy{
		Schedule:       backoff.Constant(30 * time.Millisecond),
		Jitter:         backoff.NoJitter,
		AttemptTimeout: 300 * time.Millisecond,
	}}
	return faultyTransport{tr, proxy.Addr()}
}

func TestAPanicGivesThePlaceBackAndClosesTheBody(t *testing.T) {
	panics := func(*http.Request) (*http.Response, error) { panic("boom") }
	for name, set := range map[string]func(*backoffhttp.Unguarded, *http.Request){
		"Base":               func(tr *backoffhttp.Unguarded, _ *http.Request) { tr.Base = newWire(panics) },
		"Base, in the retry": func(tr *backoffhttp.Unguarded, _ *http.Request) { tr.Base = newWire(answer(503), panics) },
		"Inspect": func(tr *backoffhttp.Unguarded, _ *http.Request) {
			tr.Inspect = func(*http.Response) error { panic("boom") }
		},
		"Classify": func(tr *backoffhttp.Unguarded, _ *http.Request) {
			tr.Policy.Classify = func(error) backoff.Class { panic("boom") }
		},
		"GetBody": func(_ *backoffhttp.Unguarded, req *http.Request) {
			req.GetBody = func() (io.ReadCloser, error) { panic("boom") }
		},
		"AttemptTimeoutSchedule": func(tr *backoffhttp.Unguarded, _ *http.Request) {
			tr.Policy.AttemptTimeoutSchedule = backoff.ScheduleFunc(func(int) time.Duration { panic("boom") })
		},
	} {
		places := &limit.Concurrency{Max: 1}
		tr := over(newWire(answer(503)))
		tr.Policy.Schedule, tr.Policy.Budget = backoff.Constant(0), places
		req := newRequest(t, "PUT", "http://a.test/", strings.NewReader("content"))
		set(tr, req)
		require.PanicsWithValue(t, "boom", func() { tr.RoundTrip(req) }, name)
		_, _, ok := places.Reserve(backoff.Attempt{})
		require.True(t, ok, name)
		require.Zero(t, tr.Base.(*wire).open(), name)
	}
}

// A caller may go on with the context, or the request, of an answer.
func TestACallInTheContextOfAnAnswerHasItsAttempts(t *testing.T) {
	failed := roundTrip(t, &backoffhttp.Unguarded{Base: newWire(answer(503)), Policy: atOnce()},
		newRequest(t, "GET", "http://a.test/", nil)).Request
	for _, req := range []*http.Request{failed, failed.Clone(failed.Context()), newRequest(t, "GET", "http://b.test/", nil).WithContext(failed.Context())} {
		w := newWire(answer(503), answer(404))
		resp := roundTrip(t, &backoffhttp.Unguarded{Base: w, Policy: atOnce()}, req)
		require.Equal(t, 2, w.requests())
		require.EqualError(t, backoffhttp.Check(resp), "status 404 Not Found")
	}
	inner := &backoffhttp.Unguarded{Base: newWire(answer(500)), Policy: atOnce()}
	resp := roundTrip(t, &backoffhttp.Unguarded{Base: inner, Policy: atOnce()}, failed)
	require.EqualError(t, backoffhttp.Check(resp), "backoff: gave up after 4 attempts: status 500 Internal Server Error")
	require.Equal(t, 4, inner.Base.(*wire).requests(), "what a Transport inside gave up on is still known")
}

// What opened the circuit happened to another call.
func TestARefusedCallIsNoTimeout(t *testing.T) {
	client := &http.Client{Transport: &backoffhttp.Transport{
		Base: newWire(failure(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded})), Policy: backoff.Policy{MaxAttempts: 1},
	}}
	synctest.Test(t, func(t *testing.T) {
		var failed *url.Error
		for ; ; time.Sleep(100 * time.Millisecond) {
			_, err := client.Get("http://a.test/")
			require.ErrorAs(t, err, &failed)
			if errors.Is(err, backoff.ErrOpen) {
				break
			}
			require.True(t, failed.Timeout())
		}
		require.False(t, failed.Timeout())
	})
}

// An Inspect may fail by the call of another service, whose circuit is open.
func TestAnAnswerDoesNotTellOfTheCallsOfOthers(t *testing.T) {
	opened := &backoff.OpenError{Name: "tokens", Last: &backoff.Error{Attempts: 9, Reason: backoff.ReasonAttempts, Last: errors.New("down")}}
	tr := over(newWire(answer(500)))
	tr.Inspect = func(*http.Response) error { return backoff.Permanent(fmt.Errorf("no token: %w", opened)) }
	resp := getRoot(t, tr)
	require.EqualError(t, backoffhttp.Check(resp), "status 500 Internal Server Error")
}
