package fault

import (
	"net"
	"slices"
	"sync/atomic"
)

// A Proxy is a TCP proxy with the faults of an [Injector], for clients that can
// be given an address and nothing else. [Injector.Proxy] starts one; the zero
// value is not usable. It is safe for concurrent use, and must not be copied.
// When one side closes its connection, the proxy closes both.
//
// Its connections are real and so is its time: it does not work in a bubble of
// testing/synctest.
type Proxy struct {
	*Injector
	target, addr string
	connections  atomic.Int64
	closed       atomic.Bool

	// Under the lock of the Injector.
	listener net.Listener // nil while connections are refused
	links    []*link
}

// Proxy returns a running proxy for the TCP address target, which listens on a
// free port of 127.0.0.1. It dials target once for each connection that it
// accepts; while nothing listens there, it closes the client's connection. Its
// error is that of [net.Listen]. The caller must call [Proxy.Close] when done.
func (i *Injector) Proxy(target string) (*Proxy, error) {
	p := &Proxy{Injector: i, target: target, addr: "127.0.0.1:0"}
	if err := p.Restore(); err != nil {
		return nil, err
	}
	p.addr = p.listener.Addr().String()
	return p, nil
}

// Addr returns the address on which the proxy listens, such as
// "127.0.0.1:40123". It does not change, and remains valid after Close.
func (p *Proxy) Addr() string { return p.addr }

// URL returns the proxy's address as an HTTP URL, such as
// "http://127.0.0.1:40123".
func (p *Proxy) URL() string { return "http://" + p.addr }

// Connections returns how many connections the proxy has accepted.
func (p *Proxy) Connections() int { return int(p.connections.Load()) }

// Cut resets all connections (RST). The proxy goes on accepting new ones.
func (p *Proxy) Cut() { p.each(func(l *link) { l.close(errBroken) }) }

// Silence makes the proxy swallow what arrives on its present connections, from
// either side, as a network does that forgot them. They stay open. Connections
// that come later pass.
func (p *Proxy) Silence() { p.each(func(l *link) { l.silent.Store(true) }) }

// each does something with each connection.
func (p *Proxy) each(do func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.links {
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
func (p *Proxy) Restore() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return net.ErrClosed
	}
	if p.listener == nil {
		if p.listener, err = net.Listen("tcp", p.addr); err == nil {
			go p.accept(p.listener)
		}
	}
	return err
}

// Close refuses new connections, and resets the existing ones. It may be called
// more than once.
func (p *Proxy) Close() {
	p.closed.Store(true)
	p.Refuse()
	p.Cut()
}

// accept takes connections until the listener is closed.
func (p *Proxy) accept(l net.Listener) {
	for client, err := l.Accept(); err == nil; client, err = l.Accept() {
		p.connections.Add(1)
		if server, err := net.Dial("tcp", p.target); err == nil {
			p.locked(func() { p.links = append(slices.DeleteFunc(p.links, (*link).ended), p.link(client, server)) })
		} else {
			client.Close()
		}
		if p.closed.Load() {
			p.Cut()
		}
	}
}
