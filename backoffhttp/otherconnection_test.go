package backoffhttp_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backoffhttp"
)

// freshRetries sends each retry over a connection of its own.
type freshRetries struct{ first, retries http.RoundTripper }

func (f freshRetries) RoundTrip(req *http.Request) (*http.Response, error) {
	if backoffhttp.RetryNumber(req.Context()) > 0 {
		return f.retries.RoundTrip(req)
	}
	return f.first.RoundTrip(req)
}

func overFreshConnections(base *http.Transport) http.RoundTripper {
	retries := base.Clone()
	retries.DisableKeepAlives = true
	return freshRetries{base, retries}
}

// closing is what one might try first.
type closing struct{ http.RoundTripper }

func (c closing) RoundTrip(req *http.Request) (*http.Response, error) {
	if backoffhttp.RetryNumber(req.Context()) > 0 {
		req = req.Clone(req.Context())
		req.Close = true
	}
	return c.RoundTripper.RoundTrip(req)
}

// balance gives the connections that come to the replicas in turn, as a balancer of
// layer 4 does, and returns its address.
func balance(t *testing.T, replicas ...string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for i := 0; ; i++ {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", replicas[i%len(replicas)])
			if err != nil {
				near.Close()
				continue
			}
			pass := func(to, from net.Conn) { io.Copy(to, from); to.Close() }
			go pass(far, near)
			go pass(near, far)
		}
	}()
	return l.Addr().String()
}

// A kept connection leads to the replica that was chosen when it began.
func TestARetryGoesOverAnotherConnectionToAnotherReplica(t *testing.T) {
	byDefault := func(base *http.Transport) http.RoundTripper { return base }
	byClose := func(base *http.Transport) http.RoundTripper { return closing{base} }
	for protocol, setup := range protocols {
		for name, c := range map[string]struct {
			base     func(*http.Transport) http.RoundTripper
			sick     http.HandlerFunc
			attempts int64 // that the sick replica gets
		}{
			"503, by default":                          {byDefault, status(503), 4},
			"503, Close":                               {byClose, status(503), 2},
			"503, retries have their connection":       {overFreshConnections, status(503), 1},
			"no answer, retries have their connection": {overFreshConnections, abort, 1},
		} {
			t.Run(protocol+", "+name, func(t *testing.T) {
				var sick atomic.Bool
				first := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if sick.Load() {
						c.sick(w, r)
					}
				}, setup)
				second := serve(t, status(200), setup)
				addr := balance(t, first.Listener.Addr().String(), second.Listener.Addr().String())
				base := first.Client().Transport.(*http.Transport).Clone()
				t.Cleanup(base.CloseIdleConnections)
				tr := over(c.base(base))
				get := func() {
					url := strings.Replace(first.URL, first.Listener.Addr().String(), addr, 1)
					text(t, roundTrip(t, tr, newRequest(t, "GET", url, nil)))
				}
				get()
				sick.Store(true)
				get()
				require.Equal(t, 1+c.attempts, first.requests.Load())
				require.Equal(t, c.attempts < 4, second.requests.Load() == 1)
			})
		}
	}
}
