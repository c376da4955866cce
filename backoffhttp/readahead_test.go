package backoffhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backoffhttp"
)

// switchProtocols answers 101, and then says what it hears.
func switchProtocols(w http.ResponseWriter, r *http.Request) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	go func() {
		defer conn.Close()
		io.Copy(conn, buffer)
	}()
}

// A connection has no beginning that could be read ahead: its other side waits
// for the client.
func TestAConnectionIsNotReadAhead(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		request func() *http.Request
	}{
		"101 that was asked for": {switchProtocols, func() *http.Request {
			req := newRequest(t, "GET", "http://a.test/", nil)
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "echo")
			return req
		}},
		"101 that was not asked for": {switchProtocols, func() *http.Request { return newRequest(t, "GET", "http://a.test/", nil) }},
	} {
		for _, ahead := range []int64{1, 1000, -1} {
			bubble(t, fmt.Sprintf("%s, %d", name, ahead), func(t *testing.T) {
				base, _ := serveInMemory(t, c.handler)
				tr := over(base)
				tr.ReadAhead, tr.Resume, tr.Policy.AttemptTimeout = ahead, true, time.Second
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				resp, err := tr.RoundTrip(c.request().WithContext(ctx))
				require.NoError(t, err)
				require.Equal(t, 101, resp.StatusCode)
				require.Zero(t, time.Since(began))
				time.Sleep(2 * time.Second) // the attempt's time does not cut the connection
				conn := resp.Body.(io.ReadWriteCloser)
				_, err = conn.Write([]byte("hello"))
				require.NoError(t, err)
				got := make([]byte, 5)
				_, err = io.ReadFull(conn, got)
				require.NoError(t, err)
				require.Equal(t, "hello", string(got))
				require.NoError(t, conn.Close())
			})
		}
	}
}

// What CONNECT opens is a tunnel.
func TestATunnelIsNotReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, _ := io.Pipe()
		tr := over(newWire(func(req *http.Request) (*http.Response, error) {
			resp, err := answer(200)(req)
			resp.Body = silent
			return resp, err
		}))
		tr.ReadAhead, tr.Policy.AttemptTimeout = -1, time.Second
		began := time.Now()
		roundTrip(t, tr, newRequest(t, "CONNECT", "http://a.test/", nil))
		require.Zero(t, time.Since(began))
	})
}

// A body that stalls is an attempt that failed, in every protocol.
func TestReadingAheadEndsWithTheAttemptsTime(t *testing.T) {
	for name, setup := range protocols {
		t.Run(name, func(t *testing.T) {
			stall := func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
			s := serve(t, inTurn(stall, status(200)), setup)
			tr := &backoffhttp.Unguarded{Base: s.Client().Transport, Policy: atOnce(), ReadAhead: -1}
			tr.Policy.AttemptTimeout = 100 * time.Millisecond
			require.Equal(t, "body of 200", text(t, roundTrip(t, tr, newRequest(t, "GET", s.URL, nil))))
		})
	}
}
