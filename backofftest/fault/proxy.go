package fault

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Proxy is a TCP proxy with the faults of an [Injector], for clients that can
// be given an address and nothing else. [Injector.Proxy] starts one; the zero
// value is not usable. It is safe for concurrent use, and must not be copied.
//
// Its connections are real and so is its time: it does not work in a bubble of
// testing/synctest.
type Proxy struct {
	*Injector
	target string
	addr   string
	tasks  sync.WaitGroup // goroutines

	mu          sync.Mutex
	listener    net.Listener // nil while connections are refused
	links       map[*link]struct{}
	connections int
	closed      bool
}

// Proxy returns a running proxy for the TCP address target, which listens on a
// free port of 127.0.0.1. It dials target once for each connection that it
// accepts; while nothing listens there, it resets the client's connection. Its
// error is that of [net.Listen]. The caller must call [Proxy.Close] when done.
func (i *Injector) Proxy(target string) (*Proxy, error) {
	p := &Proxy{Injector: i, target: target, addr: "127.0.0.1:0", links: make(map[*link]struct{})}
	if err := p.Restore(); err != nil {
		return nil, err
	}
	return p, nil
}

// Addr returns the address on which the proxy listens, such as
// "127.0.0.1:40123". It does not change, and remains valid after Close.
func (p *Proxy) Addr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr
}

// URL returns the proxy's address as an HTTP URL, such as
// "http://127.0.0.1:40123".
func (p *Proxy) URL() string { return "http://" + p.Addr() }

// Connections returns how many connections the proxy has accepted.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connections
}

// Cut resets all connections (RST). The proxy goes on accepting new ones.
func (p *Proxy) Cut() { p.forEach((*link).reset) }

// Silence makes the proxy swallow what arrives on its present connections, from
// either side, as a network does that forgot them. They stay open. Connections
// that come later pass.
func (p *Proxy) Silence() { p.forEach(func(l *link) { l.silent.Store(true) }) }

// forEach does something with each connection.
func (p *Proxy) forEach(do func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		do(l)
	}
}

// Refuse closes the proxy's port, so that the system refuses new connections
// until [Proxy.Restore]. Existing connections stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// Restore accepts connections again, on the same port, after Refuse. While the
// proxy is listening it does nothing. It returns the error of [net.Listen] if
// another process has taken the port meanwhile, and [net.ErrClosed] after Close.
func (p *Proxy) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.addr, p.listener = l.Addr().String(), l
	p.tasks.Go(func() { p.accept(l) })
	return nil
}

// Close refuses new connections, resets the existing ones, and waits until all
// goroutines of the proxy have ended. It may be called more than once.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.Cut()
	p.tasks.Wait()
}

// accept takes connections until the listener is closed.
func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, say
			time.Sleep(time.Millisecond)
			continue
		}
		p.serve(client.(*net.TCPConn))
	}
}

// serve starts a link for a client's connection.
func (p *Proxy) serve(client *net.TCPConn) {
	l := &link{client: client}
	l.ctx, l.end = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.reset()
		return
	}
	p.connections++
	p.links[l] = struct{}{}
	p.tasks.Go(func() {
		l.run(p)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}

// A link is a client's connection and the one to the target, on which the faults are.
type link struct {
	client *net.TCPConn
	silent atomic.Bool // what arrives is swallowed
	ctx    context.Context
	end    context.CancelFunc // resets both
}

// run connects to the target, and passes on both directions until the link ends.
func (l *link) run(p *Proxy) {
	defer l.client.Close()
	defer l.end()
	var dialer net.Dialer
	inner, err := dialer.DialContext(l.ctx, "tcp", p.target)
	if err != nil {
		l.reset()
		return
	}
	target := p.conn(inner, false)
	stop := context.AfterFunc(l.ctx, func() {
		target.abort()
		target.Close()
	})
	var up sync.WaitGroup
	up.Go(func() { l.copy(target, l.client) })
	l.copy(l.client, target)
	up.Wait()
	if stop() {
		target.Close()
	}
}

// A duplex is a connection of which one half can be closed.
type duplex interface {
	io.ReadWriter
	CloseWrite() error
}

// copy passes on what it reads from src, until src ends.
func (l *link) copy(dst, src duplex) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && !l.silent.Load() {
			if _, failed := dst.Write(buf[:n]); failed != nil {
				err = failed
			}
		}
		if err == io.EOF {
			dst.CloseWrite()
			return
		}
		if err != nil {
			l.reset()
			return
		}
	}
}

// reset ends the link by a reset (RST) on both sides.
func (l *link) reset() {
	l.client.SetLinger(0)
	l.client.Close()
	l.end()
}
