package faultproxy_test

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/faultproxy"
)

// A busy machine drops the connections that a server has no room to accept. The
// system tries to connect for two minutes.
func TestCloseDoesNotWaitForATargetThatIsNotReached(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer target.Close()
	raw, err := target.(*net.TCPListener).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }))
	require.NoError(t, err)

	p, err := faultproxy.Start(target.Addr().String(), nil)
	require.NoError(t, err)
	for range 4 { // more than there is room for
		client, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		defer client.Close()
	}
	require.Eventually(t, func() bool { return p.Stats().Connections == 4 }, 5*time.Second, time.Millisecond)
	time.Sleep(50 * time.Millisecond) // they connect
	began := time.Now()
	p.Close()
	require.Less(t, time.Since(began), 10*time.Second)
}
