package backoffhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// tunnel connects the client of a proxy with the server that it asks for.
func tunnel(w http.ResponseWriter, r *http.Request) {
	server, err := net.Dial("tcp", r.Host)
	if err != nil {
		w.WriteHeader(502)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		defer client.Close()
		io.Copy(client, server)
	}()
	go func() {
		defer server.Close()
		io.Copy(server, client)
	}()
}

// through returns a transport of net/http that trusts the server and reaches it
// through a proxy.
func through(t testing.TB, server *testServer, proxy string) *http.Transport {
	u, err := url.Parse(proxy)
	require.NoError(t, err)
	base := server.Client().Transport.(*http.Transport)
	base.Proxy = http.ProxyURL(u)
	return base
}

// What a proxy refuses to connect never reached the server.
func TestARequestThatAProxyDidNotConnectIsSentAgain(t *testing.T) {
	for _, c := range []struct {
		code     int
		method   string
		connects int64
		class    backoff.Class // of the error, if that is returned
	}{
		{500, "POST", 2, 0},
		{502, "GET", 2, 0},
		{502, "POST", 2, 0},
		{503, "POST", 2, 0},
		{504, "PATCH", 2, 0},
		{408, "POST", 2, 0},
		{429, "GET", 2, 0},
		{429, "POST", 1, backoff.ClassThrottled},
		{400, "GET", 1, backoff.ClassPermanent},
		{403, "GET", 1, backoff.ClassPermanent},
		{407, "GET", 1, backoff.ClassPermanent},
		{501, "GET", 1, backoff.ClassPermanent},
	} {
		t.Run(fmt.Sprintf("%s %d", c.method, c.code), func(t *testing.T) {
			server := serve(t, echo, func(s *httptest.Server) { s.StartTLS() })
			proxy := serve(t, inTurn(status(c.code), tunnel))
			var class backoff.Class
			tr := &backoffhttp.Unguarded{Base: through(t, server, proxy.URL), Policy: atOnce()}
			tr.Policy.Classify = func(err error) backoff.Class {
				class = backoffhttp.Classify(err)
				return backoff.ClassUnknown
			}
			resp, err := tr.RoundTrip(newRequest(t, c.method, server.URL, strings.NewReader("charge")))
			require.Equal(t, c.connects, proxy.requests.Load())
			if c.connects == 1 {
				require.ErrorContains(t, err, http.StatusText(c.code))
				require.Equal(t, c.class, class)
				require.Zero(t, server.requests.Load())
				return
			}
			require.NoError(t, err)
			require.Equal(t, "charge", text(t, resp))
			require.EqualValues(t, 1, server.requests.Load())
		})
	}
}

// The text "Bad Gateway" proves nothing by itself: another RoundTripper may make
// it of an answer.
func TestOnlyTheTextOfNetHTTPProvesThatAProxyDidNotConnect(t *testing.T) {
	own := func(*http.Request) (*http.Response, error) { return nil, errors.New("Bad Gateway") }
	for method, want := range map[string]int{"GET": 4, "POST": 1} {
		n := 0
		tr := &backoffhttp.Unguarded{Base: attempts(step(own), &n), Policy: atOnce()}
		_, err := tr.RoundTrip(newRequest(t, method, "https://a.test/", nil))
		require.EqualError(t, backoff.Cause(err), "Bad Gateway")
		require.Equal(t, want, n, method)
	}
	require.Equal(t, backoff.ClassRetryable, backoffhttp.Classify(inURL(errors.New("Bad Gateway"))))
	require.Equal(t, backoff.ClassPermanent, backoffhttp.Classify(errors.New("")))
	require.Equal(t, backoff.ClassPermanent, backoffhttp.Classify(errors.New("Bad Gateway, and more")))
}

// socks is a proxy that answers each connection, in turn, with a reply of RFC
// 1928; -1 hangs up.
func socks(t testing.TB, replies ...int) (address string, connections *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	connections = new(atomic.Int64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			reply := replies[min(int(connections.Add(1)), len(replies))-1]
			io.ReadFull(conn, make([]byte, 3))     // version, one method: none
			conn.Write([]byte{5, 0})               // none it is
			io.ReadFull(conn, make([]byte, 6+1+3)) // connect to a name of 6 letters, and a port
			if reply >= 0 {
				conn.Write([]byte{5, byte(reply), 0, 1, 0, 0, 0, 0, 0, 0})
			}
			conn.Close()
		}
	}()
	return "socks5h://" + l.Addr().String(), connections
}

func TestARequestThatASOCKSProxyDidNotConnectIsSentAgain(t *testing.T) {
	for reply, want := range map[int]int64{-1: 4, 1: 4, 2: 1, 3: 4, 4: 4, 5: 4, 6: 4, 7: 1, 8: 1} {
		t.Run(fmt.Sprint(reply), func(t *testing.T) {
			address, connections := socks(t, reply)
			u, err := url.Parse(address)
			require.NoError(t, err)
			tr := &backoffhttp.Unguarded{Base: &http.Transport{Proxy: http.ProxyURL(u)}, Policy: atOnce()}
			_, err = tr.RoundTrip(newRequest(t, "POST", "http://a.test/", strings.NewReader("charge")))
			require.ErrorContains(t, err, "socks connect")
			require.Equal(t, want, connections.Load(), "%v", err)
		})
	}
}
