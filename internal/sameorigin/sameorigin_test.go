package sameorigin_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/sameorigin"
)

func TestANameThatIsReboundToALoopbackAddressIsRefused(t *testing.T) {
	for host, local := range map[string]bool{
		"": true, "localhost": true, "host.docker.internal:80": true, "LocalHost.:8080": true, "page.localhost:80": true, "127.0.0.1:80": true, "10.0.0.7": true,
		"[::1]:80": true, "[::1]": true, "evil.example:80": false, "evil.example": false, "localhost.evil.example": false,
		"evillocalhost": false, "127.0.0.1.evil.example": false, "1": false, "a:b:c": false,
	} {
		for _, to := range []net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 1, 1)}, &net.TCPAddr{IP: net.IPv6loopback}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7)}, &net.UnixAddr{}} {
			r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			r.Host = host
			tcp, _ := to.(*net.TCPAddr)
			want := local || tcp == nil || !tcp.IP.IsLoopback()
			require.Equal(t, want, sameorigin.Admits(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, to))), "%q at %v", host, to)
		}
	}
}
