//go:build go1.26

package backoffhttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// The HTTP/2 server of Go 1.25 takes channels from one bubble into another.

// inMemory2 is a server of HTTP/2 in memory, as virtual time needs it.
func inMemory2(t *testing.T, h http.HandlerFunc) (*http.Transport, *pipes) {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: h, Protocols: &protocols}
	go server.Serve(p)
	base := &http.Transport{DialContext: p.dial, Protocols: &protocols}
	t.Cleanup(func() {
		base.CloseIdleConnections()
		server.Close()
	})
	return base, p
}

func TestAStreamThatIsHeardKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, p := inMemory2(t, paths)
		policy := steady()
		policy.AttemptTimeout = 500 * time.Millisecond
		streams, others := &backoffhttp.Unguarded{Base: base, Policy: policy}, &backoffhttp.Unguarded{Base: base, Policy: policy}
		resp := roundTrip(t, streams, newRequest(t, "GET", "http://a.test/stream", nil))
		read := make(chan string)
		go func() { read <- text(t, resp) }()
		synctest.Wait() // until net/http has the connection for others, too
		for _, tr := range []http.RoundTripper{streams, others} {
			require.ErrorIs(t, get2(t, tr, t.Context(), "/slow"), backoff.ErrAttemptTimeout)
		}
		require.Len(t, <-read, 100)
		require.EqualValues(t, 1, p.dials.Load())
	})
}

// Other calls get answers while one waits in vain.
func TestASlowEndpointBesideOthersKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, p := inMemory2(t, paths)
		tr := over(base)
		tr.Policy.AttemptTimeout = 500 * time.Millisecond
		require.NoError(t, get2(t, tr, t.Context(), "/"))
		synctest.Wait() // until net/http has the connection for others, too
		end := make(chan struct{})
		go func() {
			defer close(end)
			for range 50 {
				require.NoError(t, get2(t, tr, t.Context(), "/"))
				time.Sleep(90 * time.Millisecond)
			}
		}()
		require.ErrorIs(t, get2(t, tr, t.Context(), "/slow"), backoff.ErrAttemptTimeout)
		<-end
		require.EqualValues(t, 1, p.dials.Load())
	})
}

// Nothing tells a slow server from a dead connection, unless Base asks by PING.
func TestASlowEndpointAloneKeepsItsConnectionIfBaseSendsPings(t *testing.T) {
	for _, c := range []struct {
		pings *http.HTTP2Config
		dials int32
	}{
		{nil, 5},
		{&http.HTTP2Config{SendPingTimeout: time.Second}, 5}, // no answer to it is missed within 15 s
		{&http.HTTP2Config{SendPingTimeout: 200 * time.Millisecond, PingTimeout: 200 * time.Millisecond}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			base, p := inMemory2(t, paths)
			base.HTTP2 = c.pings
			tr := over(base)
			tr.Policy.AttemptTimeout = 500 * time.Millisecond
			require.ErrorIs(t, get2(t, tr, t.Context(), "/slow"), backoff.ErrAttemptTimeout)
			synctest.Wait() // net/http learns that the connection is closed
			require.NoError(t, get2(t, tr, t.Context(), "/"))
			require.EqualValues(t, c.dials, p.dials.Load())
		})
	}
}

// Anybody can give a call 10 ms, or go away.
func TestACallerWithLittleTimeClosesNoConnectionOfOthers(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			base, p := inMemory2(t, paths)
			tr := over(base)
			tr.Policy.AttemptTimeout = timeout
			require.NoError(t, get2(t, tr, t.Context(), "/"))
			quiet := make(chan error)
			go func() { quiet <- get2(t, tr, t.Context(), "/quiet") }()
			for range 200 {
				require.ErrorIs(t, get2(t, tr, within(t, 10*time.Millisecond), "/slow"), context.DeadlineExceeded)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(20*time.Millisecond, cancel)
				require.ErrorIs(t, get2(t, tr, ctx, "/slow"), context.Canceled)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(2*time.Second, cancel)
			require.ErrorIs(t, get2(t, tr, ctx, "/slow"), context.Canceled)
			require.NoError(t, <-quiet)
			require.EqualValues(t, 1, p.dials.Load())
		})
	}
}

// The rest of MaxElapsed is no time in which an answer must come.
func TestTheRestOfMaxElapsedClosesNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, p := inMemory2(t, paths)
		tr := over(base)
		tr.Policy.AttemptTimeout, tr.Policy.MaxElapsed = 5*time.Second, 10*time.Millisecond
		require.ErrorIs(t, get2(t, tr, t.Context(), "/slow"), backoff.ErrAttemptTimeout)
		require.NoError(t, get2(t, tr, t.Context(), "/"))
		require.EqualValues(t, 1, p.dials.Load())
	})
}

// Without an AttemptTimeout the first call tells that there is something to watch, the
// second one that the connection is silent.
func TestADeadlineOfASecondGivesTheSilentConnectionUpAtTheSecondCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, p := inMemory2(t, paths)
		silence := silenced(base)
		tr := &backoffhttp.Transport{Base: base}
		require.NoError(t, get2(t, tr, t.Context(), "/"))
		silence()
		for range 2 {
			require.ErrorIs(t, get2(t, tr, within(t, time.Second), "/"), context.DeadlineExceeded)
			synctest.Wait()
		}
		require.NoError(t, get2(t, tr, within(t, time.Second), "/"))
		require.EqualValues(t, 2, p.dials.Load())
	})
}

// A body that stalls because its connection died is read on over another one.
func TestAResumedBodyLeavesTheSilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := strings.Repeat("0123456789", 1000)
		var base *http.Transport
		var silence func()
		base, p := inMemory2(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			if r.Header.Get("Range") == "" {
				w.Header().Set("Content-Length", "10000")
				io.WriteString(w, content[:5000])
				http.NewResponseController(w).Flush()
				silence()
				<-r.Context().Done()
				return
			}
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
		})
		silence = silenced(base)
		client := backoffhttp.WrapClient(&http.Client{Transport: base, Timeout: 2 * time.Second}, steady())
		client.Transport.(*backoffhttp.Transport).Resume = true
		resp, err := client.Get("http://a.test/")
		require.NoError(t, err)
		began := time.Now()
		require.Equal(t, content, text(t, resp))
		require.EqualValues(t, 2, p.dials.Load())
		require.Less(t, time.Since(began), 3*time.Second, "one timeout, that of the body")
	})
}

func TestABodyThatStallsWithinTheAttemptGivesTheSilentConnectionUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silence func()
		base, p := inMemory2(t, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "beginning")
			http.NewResponseController(w).Flush()
			if silence != nil {
				silence()
				silence = nil
				<-r.Context().Done()
			}
		})
		silence = silenced(base)
		n := 0
		tr := over(attempts(base, &n))
		tr.Policy.AttemptTimeout, tr.ReadAhead = 500*time.Millisecond, -1
		require.Equal(t, "beginning", text(t, getRoot(t, tr)))
		require.Equal(t, 2, n)
		require.EqualValues(t, 2, p.dials.Load())
	})
}
