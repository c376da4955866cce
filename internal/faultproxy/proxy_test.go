package faultproxy_test

import (
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

	"github.com/gobackoff/backoff/internal/faultproxy"
	"github.com/stretchr/testify/require"
)

const text = "0123456789"

// rig is a server behind a proxy, and a client that asks through it.
type rig struct {
	*faultproxy.Proxy
	client  *http.Client
	effects atomic.Int64 // requests that were carried out
}

func start(t *testing.T, c faultproxy.Config) *rig {
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
	c.Target = server.Listener.Addr().String()
	proxy, err := c.Start()
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	r.Proxy = proxy
	r.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

func scripted(t *testing.T, faults ...faultproxy.Fault) *rig {
	t.Helper()
	return start(t, faultproxy.Config{Plan: faultproxy.Script(faults...)})
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

func TestPassesWhatNoFaultIsPlannedFor(t *testing.T) {
	r := start(t, faultproxy.Config{})
	for range 5 {
		r.passes(t)
	}
	require.Equal(t, faultproxy.Stats{Connections: 1, Exchanges: 5}, r.Stats())
	require.True(t, strings.HasPrefix(r.URL(), "http://127.0.0.1:"))
}

func TestAFaultComesBeforeOrAfterTheEffect(t *testing.T) {
	for _, c := range []struct {
		fault   faultproxy.Fault
		body    string
		effects int64
	}{
		{faultproxy.Reset(), "x", 0},
		{faultproxy.DropAnswer(), "x", 1},
		{faultproxy.CutRequest(1000), strings.Repeat("x", 5000), 0},
	} {
		r := scripted(t, c.fault)
		_, err := r.post(c.body)
		require.Error(t, err, c.fault)
		require.Equal(t, c.effects, r.effects.Load(), c.fault)
		r.passes(t)
		require.Equal(t, 1, r.Stats().Faults)
	}
}

func TestResetAfterCutsTheAnswer(t *testing.T) {
	r := scripted(t, faultproxy.ResetAfter(head(t)+4))
	got, err := r.post("x")
	require.Equal(t, text[:4], got)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestTruncateEndsTheAnswerInGoodOrder(t *testing.T) {
	r := scripted(t, faultproxy.Truncate(head(t)+4))
	got, err := r.post("x")
	require.Equal(t, text[:4], got)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, syscall.ECONNRESET)
}

// head is the length of the header of the server's answer.
func head(t *testing.T) int64 {
	r := start(t, faultproxy.Config{})
	conn, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	return int64(strings.Index(string(all), "\r\n\r\n") + 4 - len("Connection: close\r\n"))
}

func TestStallHoldsTheRestBack(t *testing.T) {
	const d = 50 * time.Millisecond
	r := scripted(t, faultproxy.Stall(0, d), faultproxy.Stall(20, d))
	for range 2 {
		begun := time.Now()
		r.passes(t)
		require.GreaterOrEqual(t, time.Since(begun), d)
	}
}

func TestStallForEverEndsWithTheConnection(t *testing.T) {
	r := scripted(t, faultproxy.Stall(0, 0))
	r.client.Timeout = 30 * time.Millisecond
	_, err := r.post("x")
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.EqualValues(t, 1, r.effects.Load())
}

func TestTrickleTakesItsTime(t *testing.T) {
	r := scripted(t, faultproxy.Trickle(50, 10*time.Millisecond), faultproxy.Trickle(0, time.Nanosecond))
	begun := time.Now()
	r.passes(t)
	require.GreaterOrEqual(t, time.Since(begun), 20*time.Millisecond)
	r.passes(t)
}

func TestRefuseAndRestoreKeepThePort(t *testing.T) {
	r := start(t, faultproxy.Config{})
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
	r := start(t, faultproxy.Config{Plan: faultproxy.Always(faultproxy.Stall(0, 0))})
	errs := make(chan error)
	for range 3 {
		go func() { _, err := r.post("x"); errs <- err }()
	}
	require.Eventually(t, func() bool { return r.effects.Load() == 3 }, 5*time.Second, time.Millisecond)
	r.Cut()
	for range 3 {
		require.Error(t, <-errs)
	}
	r.SetPlan(nil)
	r.passes(t)
}

func TestConnectionsCanBePlannedInsteadOfExchanges(t *testing.T) {
	r := start(t, faultproxy.Config{
		PerConnection: true,
		Plan:          faultproxy.Script(faultproxy.Reset(), faultproxy.Pass(), faultproxy.DropAnswer()),
	})
	_, err := r.post("x")
	require.ErrorIs(t, err, syscall.ECONNRESET)
	r.passes(t)
	r.passes(t)
	r.client.CloseIdleConnections()
	_, err = r.post("x")
	require.Error(t, err)
	require.Equal(t, faultproxy.Stats{Connections: 3, Exchanges: 3, Faults: 2}, r.Stats())
}

func TestRandomlyIsTheSameForASeed(t *testing.T) {
	draw := func(seed uint64) (counts map[faultproxy.Fault]int, order []faultproxy.Fault) {
		plan := faultproxy.Randomly(seed,
			faultproxy.Share{Fault: faultproxy.DropAnswer(), Probability: 0.2},
			faultproxy.Share{Fault: faultproxy.Reset(), Probability: 0.1})
		counts = make(map[faultproxy.Fault]int)
		for n := range 10000 {
			f := plan(n + 1)
			counts[f]++
			order = append(order, f)
		}
		return counts, order
	}
	counts, first := draw(1)
	require.InDelta(t, 2000, counts[faultproxy.DropAnswer()], 150)
	require.InDelta(t, 1000, counts[faultproxy.Reset()], 120)
	_, again := draw(1)
	_, other := draw(2)
	require.Equal(t, first, again)
	require.NotEqual(t, first, other)
}

func TestNoGoroutineIsLeftAfterClose(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		r := start(t, faultproxy.Config{Plan: faultproxy.Randomly(7,
			faultproxy.Share{Fault: faultproxy.DropAnswer(), Probability: 0.1},
			faultproxy.Share{Fault: faultproxy.Reset(), Probability: 0.1},
			faultproxy.Share{Fault: faultproxy.CutRequest(10), Probability: 0.1},
			faultproxy.Share{Fault: faultproxy.ResetAfter(10), Probability: 0.1},
			faultproxy.Share{Fault: faultproxy.Truncate(10), Probability: 0.1},
			faultproxy.Share{Fault: faultproxy.Stall(10, 0), Probability: 0.1},
			faultproxy.Share{Fault: faultproxy.Trickle(1, time.Millisecond), Probability: 0.1})})
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
				r.Stats()
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
	r := start(t, faultproxy.Config{})
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
	require.Equal(t, 2, r.Stats().Connections)
}
