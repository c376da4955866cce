package fault

import (
	"context"
	"io"
	"net"
	"net/http/httptest"
	"sync/atomic"
)

// Dial returns dial whose connections have the faults of the plan, for a client
// that takes a function such as [net.Dialer.DialContext]. They need no socket: a
// dial that returns one end of a [net.Pipe] works in a bubble of testing/synctest.
func (i *Injector) Dial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		server, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		end, client := net.Pipe()
		return conn{end, server, i.link(client, server)}, nil
	}
}

// Listen returns a listener whose connections have the faults of the plan, for a
// server: what it reads is the request.
func (i *Injector) Listen(l net.Listener) net.Listener { return listener{l, i} }

type listener struct {
	net.Listener
	injector *Injector
}

func (l listener) Accept() (net.Conn, error) {
	client, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	end, server := net.Pipe()
	return conn{end, client, l.injector.link(client, server)}, nil
}

// A conn is the end of a pipe that a link joins with another connection.
type conn struct {
	net.Conn
	other net.Conn
	link  *link
}

func (c conn) LocalAddr() net.Addr  { return c.other.LocalAddr() }
func (c conn) RemoteAddr() net.Addr { return c.other.RemoteAddr() }

func (c conn) Read(p []byte) (int, error)  { return c.told(c.Conn.Read(p)) }
func (c conn) Write(p []byte) (int, error) { return c.told(c.Conn.Write(p)) }

// told replaces the error of a link that was reset: a pipe has no error for that.
func (c conn) told(n int, err error) (int, error) {
	if err != nil && context.Cause(c.link.ctx) == errBroken {
		return n, errBroken
	}
	return n, err
}

// A link joins the connection of a client with that of a server. Two goroutines copy
// what the sides send, and apply the faults of the plan.
type link struct {
	*Injector
	client, server net.Conn
	ctx            context.Context // until the link ends; its cause is errBroken after a reset
	stop           context.CancelCauseFunc

	silent  atomic.Bool             // what arrives is swallowed
	waiting atomic.Pointer[Attempt] // for the response; nil if it has begun
	left    int64                   // bytes that can be sent to the client
}

// link starts a link.
func (i *Injector) link(client, server net.Conn) *link {
	l := &link{Injector: i, client: client, server: server, left: forever}
	l.ctx, l.stop = context.WithCancelCause(context.Background())
	go l.pass(requests{l}, client)
	go l.pass(responses{l}, server)
	return l
}

// pass passes on what src sends, until it ends.
func (l *link) pass(dst io.Writer, src io.Reader) {
	_, err := io.Copy(dst, src)
	if err != nil && err != io.ErrClosedPipe {
		err = errBroken
	}
	l.close(err)
}

// close closes both connections. The err of the first call counts: if it is
// errBroken, connections of TCP are reset.
func (l *link) close(err error) {
	l.stop(err)
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok && context.Cause(l.ctx) == errBroken {
			tcp.SetLinger(0)
		}
		c.Close()
	}
}

// ended reports whether the link was closed.
func (l *link) ended() bool { return l.ctx.Err() != nil }

// requests passes on what the client sends.
type requests struct{ *link }

func (l requests) Write(p []byte) (int, error) {
	if l.silent.Load() {
		return len(p), nil
	}
	if l.waiting.Load() == nil {
		a := l.begin(Attempt{Whole: true})
		l.waiting.Store(a)
		switch a.Fault.kind {
		case reset:
			return 0, l.end(a, 0, errBroken)
		case status:
			l.silent.Store(true)
			go l.answer(a)
			return len(p), nil
		}
	}
	return l.server.Write(p)
}

// answer sends the response of a Status. The client closes the connection after it.
func (l *link) answer(a *Attempt) {
	w := httptest.NewRecorder()
	a.Fault.answer(w, httptest.NewRequest("GET", "/", nil))
	l.end(a, a.Fault.status, w.Result().Write(l.client))
}

// responses passes on what the server sends.
type responses struct{ *link }

func (l responses) Write(p []byte) (int, error) {
	if l.silent.Load() {
		return len(p), nil
	}
	if a := l.waiting.Swap(nil); a != nil {
		if err := l.end(a, 0, pause(l.ctx, a.Fault.wait)); err != nil {
			return 0, err
		}
		if l.left = forever; a.Fault.kind == cut {
			l.left = a.Fault.bytes
		}
	}
	if l.left -= int64(len(p)); l.left > 0 {
		return l.client.Write(p)
	}
	if rest := int64(len(p)) + l.left; rest > 0 {
		l.client.Write(p[:rest])
	}
	return 0, errBroken
}
