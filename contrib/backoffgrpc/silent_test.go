package backoffgrpc_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

// network connects clients to a server in memory, so that it works in a bubble.
type network struct {
	*bufconn.Listener

	mu     sync.Mutex
	dials  int
	silent int // the first connections so many of which swallow all bytes
}

// newNetwork returns the network of a server with the options.
func newNetwork(t *testing.T, s *service, opts ...grpc.ServerOption) *network {
	n := &network{Listener: bufconn.Listen(1 << 20)}
	server := grpc.NewServer(append(opts, grpc.UnaryInterceptor(backoffgrpc.UnaryServer))...)
	pb.RegisterTestServiceServer(server, s)
	go server.Serve(n)
	t.Cleanup(server.Stop)
	return n
}

// dial returns a client in the network.
func (n *network) dial(t *testing.T, c *backoffgrpc.Config, opts ...grpc.DialOption) pb.TestServiceClient {
	opts = append(opts, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := n.DialContext(ctx)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.dials++
		return &dialed{conn, n, n.dials}, err
	}))
	return pb.NewTestServiceClient(connect(t, "example.test", c, opts...))
}

// silence makes all connections that there are swallow what they get.
func (n *network) silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = n.dials
}

func (n *network) isSilent(number int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return number <= n.silent
}

// dialed is the client's end of a connection.
type dialed struct {
	net.Conn
	network *network
	number  int
}

func (d *dialed) Write(b []byte) (int, error) {
	if d.network.isSilent(d.number) {
		return len(b), nil
	}
	return d.Conn.Write(b)
}

func (d *dialed) Read(b []byte) (n int, err error) {
	n, err = d.Conn.Read(b)
	for err == nil && d.network.isSilent(d.number) {
		n, err = d.Conn.Read(b)
	}
	return n, err
}

// Nothing but keepalive tells grpc-go that a connection is dead: a timeout ends
// the stream alone, and the next attempt gets the same connection.
func TestKeepaliveSendsARetryOverAnotherConnection(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []grpc.DialOption
		dials int
		code  codes.Code
	}{
		"without": {nil, 1, codes.DeadlineExceeded},
		"with": {[]grpc.DialOption{grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second})},
			2, codes.OK},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{unary: fails(0, 0)}
			n := newNetwork(t, s)
			client := n.dial(t, retrying(func(p *backoff.Policy) {
				p.MaxAttempts, p.AttemptTimeout = -1, 3*time.Second
			}), c.opts...)
			require.NoError(t, call(t, client))
			n.silence()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
			require.Equal(t, c.code, status.Code(err), "%s: %v", name, err)
			require.Equal(t, c.dials, n.dials, name)
		})
	}
}

// A server takes pings more often than each 5 minutes for an attack, unless its policy says
// otherwise, and ends the connection: GOAWAY, ENHANCE_YOUR_CALM, too_many_pings.
func TestAServerThatEndsConnectionsForTheirPingsLosesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{unary: func(ctx context.Context, _ int) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(45 * time.Second): // three pings, of which the server takes two
				return nil
			}
		}}
		n := newNetwork(t, s)
		client := n.dial(t, retrying(), grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second}))
		_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
		require.NoError(t, err, "grpc-go pings half as often from then on")
		require.Equal(t, 2, s.calls())
		require.Equal(t, 2, n.dials)
	})
}
