package fault_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/stretchr/testify/require"
)

const text = "0123456789"

// rig is a server behind a proxy, and a client that asks through it.
type rig struct {
	*fault.Proxy
	client  *http.Client
	effects atomic.Int64 // requests that were carried out
}

func start(t *testing.T, c *fault.Injector) *rig {
	t.Helper()
	r := new(rig)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		r.effects.Add(1)
		io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	proxy, err := c.Proxy(server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	r.Proxy = proxy
	r.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

func scripted(t *testing.T, faults ...fault.Fault) *rig {
	t.Helper()
	return start(t, &fault.Injector{Plan: fault.Script(faults...)})
}

// post sends a request that net/http does not repeat by itself.
func (r *rig) post(body string) (string, error) {
	resp, err := r.client.Post(r.URL(), "text/plain", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return string(got), err
}

func (r *rig) passes(t *testing.T) {
	t.Helper()
	got, err := r.post("x")
	require.NoError(t, err)
	require.Equal(t, text, got)
}

// always is a plan with one fault.
func always(f fault.Fault) fault.Plan { return func(fault.Attempt) fault.Fault { return f } }

func TestPassesWhatNoFaultIsPlannedFor(t *testing.T) {
	r := start(t, &fault.Injector{})
	for range 5 {
		r.passes(t)
	}
	require.Equal(t, 1, r.Connections())
	r.Check(t, 5)
	require.True(t, strings.HasPrefix(r.URL(), "http://127.0.0.1:"))
}

func TestAFaultComesBeforeOrAfterTheEffect(t *testing.T) {
	for _, c := range []struct {
		fault   fault.Fault
		effects int64
	}{
		{fault.Reset(), 0},
		{fault.Lost(), 1},
	} {
		r := scripted(t, c.fault)
		_, err := r.post("x")
		require.ErrorIs(t, err, syscall.ECONNRESET, c.fault)
		require.Equal(t, c.effects, r.effects.Load(), c.fault)
		r.passes(t)
		r.Check(t, 2)
	}
}

func TestResetAfterCutsTheAnswer(t *testing.T) {
	r := scripted(t, fault.Cut(head(t)+4))
	got, err := r.post("x")
	require.Equal(t, text[:4], got)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// head is the length of the header of the server's answer.
func head(t *testing.T) int64 {
	r := start(t, &fault.Injector{})
	conn, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	return int64(strings.Index(string(all), "\r\n\r\n") + 4 - len("Connection: close\r\n"))
}

func TestSlowHoldsTheResponseBack(t *testing.T) {
	const d = 50 * time.Millisecond
	r := scripted(t, fault.Slow(d))
	begun := time.Now()
	r.passes(t)
	require.GreaterOrEqual(t, time.Since(begun), d)
}

func TestHangEndsWithTheConnection(t *testing.T) {
	r := scripted(t, fault.Hang())
	r.client.Timeout = 30 * time.Millisecond
	_, err := r.post("x")
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.Eventually(t, func() bool { return r.effects.Load() == 1 }, 5*time.Second, time.Millisecond)
}

// The service is in front of a large request, and answers all the same.
func TestAStatusOfTheProxyReachesTheClient(t *testing.T) {
	r := scripted(t, fault.Status(200).Body("<html>"))
	got, err := r.post(strings.Repeat("x", 1<<20))
	require.NoError(t, err)
	require.Equal(t, "<html>", got)
	require.Zero(t, r.effects.Load())
	r.passes(t)
	require.Equal(t, 2, r.Connections())
}

func TestCloseResetsConnections(t *testing.T) {
	r := start(t, new(fault.Injector))
	r.passes(t)
	c, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
	require.NoError(t, err)
	_, err = http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	r.Close()
	_, err = io.ReadAll(c)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestAConnectionToNothingEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	p, err := new(fault.Injector).Proxy(l.Addr().String())
	require.NoError(t, err)
	defer p.Close()
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, 1, p.Connections())
}

func TestRefuseAndRestoreKeepThePort(t *testing.T) {
	r := start(t, &fault.Injector{})
	addr := r.Addr()
	for range 3 {
		r.passes(t)
		r.Refuse()
		r.Refuse()
		r.passes(t) // on the connection that exists
		r.client.CloseIdleConnections()
		_, err := r.post("x")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.NoError(t, r.Restore())
		require.NoError(t, r.Restore())
	}
	r.passes(t)
	require.Equal(t, addr, r.Addr())
}

func TestCutResetsAllConnections(t *testing.T) {
	r := start(t, &fault.Injector{Plan: always(fault.Hang())})
	errs := make(chan error)
	for range 3 {
		go func() { _, err := r.post("x"); errs <- err }()
	}
	require.Eventually(t, func() bool { return r.effects.Load() == 3 }, 5*time.Second, time.Millisecond)
	r.Cut()
	for range 3 {
		require.ErrorIs(t, <-errs, syscall.ECONNRESET)
	}
	r.SetPlan(nil)
	r.passes(t)
}

func TestNoGoroutineIsLeftAfterClose(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		r := start(t, &fault.Injector{Plan: fault.Randomly(t, 0.6,
			fault.Lost(), fault.Reset(), fault.Cut(10), fault.Status(503), fault.Slow(time.Millisecond), fault.Hang())})
		r.client.Timeout = 100 * time.Millisecond
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 25 {
					r.post("x")
				}
			})
		}
		all.Go(func() {
			for range 20 {
				r.Cut()
				r.Attempts()
				time.Sleep(time.Millisecond)
			}
		})
		all.Wait()
		r.Close()
		r.Close()
		require.ErrorIs(t, r.Restore(), net.ErrClosed)
	})
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "%d goroutines before, %d after", before, runtime.NumGoroutine())
	}
}

// What is silent stays open: no error tells of it.
func TestSilenceSwallowsWhatComesOnTheConnectionsOfTheMoment(t *testing.T) {
	r := start(t, &fault.Injector{})
	_, err := r.post(text)
	require.NoError(t, err)
	r.Silence()
	r.client.Timeout = 200 * time.Millisecond
	_, err = r.post(text)
	require.ErrorContains(t, err, "Client.Timeout")
	require.EqualValues(t, 1, r.effects.Load())
	r.client.Timeout = 0
	_, err = r.post(text)
	require.NoError(t, err)
	require.Equal(t, 2, r.Connections())
}
