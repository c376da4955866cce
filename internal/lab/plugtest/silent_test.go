//go:build nightly

package plugtest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest/fault"
)

// patience lets a call make attempts of half a second for half a minute.
var patience = backoff.Policy{MaxAttempts: -1, AttemptTimeout: 500 * time.Millisecond, Schedule: backoff.Constant(100 * time.Millisecond)}

// getTwice makes a call before the connection goes silent, and one after it.
func getTwice(t *testing.T, base http.RoundTripper, url string, silence func()) {
	client := &http.Client{Transport: &backoffhttp.Transport{Base: base, Policy: patience}}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		silence()
		silence = func() {}
	}
}

// The Transport of golang.org/x/net knows the same traces as that of net/http.
func TestARetryOverXNetLeavesTheConnectionThatWentSilent(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	proxy, err := new(fault.Injector).Proxy(server.Listener.Addr().String())
	require.NoError(t, err)
	defer proxy.Close()
	base := &http2.Transport{TLSClientConfig: server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}
	defer base.CloseIdleConnections()
	getTwice(t, base, "https://"+proxy.Addr(), proxy.Silence)
	require.GreaterOrEqual(t, proxy.Connections(), 2)
}

// http3Transport closes a connection that is silent for 3 s. By default that takes 30 s.
func http3Transport(config *tls.Config) *http3.Transport {
	return &http3.Transport{
		TLSClientConfig: config,
		QUICConfig:      &quic.Config{MaxIdleTimeout: 3 * time.Second, KeepAlivePeriod: time.Second},
	}
}

// Connections of HTTP/3 cannot be closed by their traces: quic-go has settings for that.
func TestARetryOverHTTP3LeavesTheConnectionThatWentSilent(t *testing.T) {
	certs := httptest.NewUnstartedServer(http.NotFoundHandler())
	certs.StartTLS()
	defer certs.Close()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http3.Server{Handler: http.NotFoundHandler(), TLSConfig: http3.ConfigureTLSConfig(certs.TLS.Clone())}
	go server.Serve(conn)
	defer server.Close()

	p := &datagrams{to: conn.LocalAddr().(*net.UDPAddr), flows: make(map[string]*net.UDPConn)}
	proxy := p.start(t)
	base := http3Transport(certs.Client().Transport.(*http.Transport).TLSClientConfig.Clone())
	base.Dial = func(ctx context.Context, addr string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
		return quic.DialAddrEarly(ctx, addr, tlsConfig, config) // from a port of its own
	}
	defer base.Close()
	getTwice(t, base, "https://"+proxy, p.silence)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.GreaterOrEqual(t, len(p.flows), 2)
}

// datagrams is a proxy for UDP.
type datagrams struct {
	to *net.UDPAddr

	mu    sync.Mutex
	flows map[string]*net.UDPConn // by the address of the client; nil if the flow is silent
}

// silence swallows what comes from the clients of the moment, and for them.
func (d *datagrams) silence() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for client, conn := range d.flows {
		if conn != nil {
			conn.Close()
		}
		d.flows[client] = nil
	}
}

// start returns the address of the proxy.
func (d *datagrams) start(t *testing.T) string {
	l, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close(); d.silence() })
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, client, err := l.ReadFromUDP(buf)
			if err != nil {
				return
			}
			if conn := d.flow(l, client); conn != nil {
				conn.Write(buf[:n])
			}
		}
	}()
	return l.LocalAddr().String()
}

// flow returns the connection for a client's datagrams.
func (d *datagrams) flow(l *net.UDPConn, client *net.UDPAddr) *net.UDPConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	conn, known := d.flows[client.String()]
	if known {
		return conn
	}
	conn, err := net.DialUDP("udp", nil, d.to)
	if err != nil {
		return nil
	}
	d.flows[client.String()] = conn
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			l.WriteToUDP(buf[:n], client)
		}
	}()
	return conn
}
