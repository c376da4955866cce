// Package faultproxy is a TCP proxy for tests that fails as networks fail. It
// resets connections, truncates requests and responses, delays responses,
// refuses connections, and loses the response to a request that the server has
// executed.
//
// The proxy listens on a port of 127.0.0.1 and passes what it receives on to a
// target, a server under test. A [Plan] chooses a [Fault] for each exchange of
// a request and its response:
//
//	proxy, err := faultproxy.Start(server.Listener.Addr().String(), faultproxy.Script(
//		faultproxy.DropAnswer(), // the server executes the first request; its response is lost
//		faultproxy.Reset(),      // the second request never reaches the server
//	))                           // all others pass
//
// The proxy does not parse what it passes on. A new exchange begins when the
// client sends something after the target began to respond. That suits
// protocols in which the two sides take turns, such as HTTP/1 without
// pipelining. For others, such as TLS and HTTP/2, set [Config.PerConnection].
//
// Its connections are real and so is its time: the package does not work in a
// bubble of testing/synctest.
package faultproxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Config holds the settings of a proxy; [Config.Start] starts it. Only Target
// is required.
type Config struct {
	// Target is the TCP address, host:port, to which the proxy connects, once
	// for each connection that it accepts. While nothing listens there, the
	// proxy resets the client's connection.
	Target string

	// Plan chooses the fault of each exchange. The default, nil, passes
	// everything.
	Plan Plan

	// PerConnection makes a whole connection one exchange. The proxy then asks
	// Plan when it accepts a connection, the bytes of a fault count from the
	// connection's beginning, and Reset does not wait for a request.
	// The default, false, makes each request and its response an exchange.
	PerConnection bool
}

// A Proxy is a running proxy. [Start] and [Config.Start] make one; the zero
// value is not usable. A Proxy is safe for concurrent use and must not be
// copied.
type Proxy struct {
	config Config
	addr   string
	tasks  sync.WaitGroup // goroutines

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	links    map[*link]struct{}
	stats    Stats
	closed   bool
}

// Stats counts what a proxy has done since it was started. The zero value is
// that of a proxy without a client.
type Stats struct {
	Connections int // accepted
	Exchanges   int // begun
	Faults      int // exchanges whose Fault was not Pass
}

// Start returns a running proxy for the TCP address target, with the given
// plan; a nil plan passes everything. It is short for [Config.Start].
func Start(target string, plan Plan) (*Proxy, error) {
	return Config{Target: target, Plan: plan}.Start()
}

// Start returns a running proxy that listens on a free port of 127.0.0.1. Its
// error is that of [net.Listen]. The caller must call [Proxy.Close] when done.
func (c Config) Start() (*Proxy, error) {
	p := &Proxy{config: c, addr: "127.0.0.1:0", links: make(map[*link]struct{})}
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

// Stats returns what the proxy has counted so far.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// SetPlan replaces the plan for the exchanges that begin from now on; a nil
// plan passes everything. Exchanges that have begun keep their fault. The count
// of exchanges goes on: a plan that is set after three of them is first asked
// about the fourth.
func (p *Proxy) SetPlan(plan Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config.Plan = plan
}

// Cut resets all connections (RST). The proxy goes on accepting new ones.
func (p *Proxy) Cut() { p.forEach(func(l *link) { l.reset() }) }

// Silence makes the proxy swallow what arrives on its present connections, from either
// side, as a network does that forgot them. They stay open. Connections that come later
// pass.
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

// Restore accepts connections again, on the same port, after Refuse.
// While the proxy is listening it does nothing. It returns the error of
// [net.Listen] if another process has taken the port meanwhile, and
// [net.ErrClosed] after Close.
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
	l := &link{proxy: p, client: client, clientDone: make(chan struct{})}
	l.ended, l.end = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.reset()
		return
	}
	p.stats.Connections++
	p.links[l] = struct{}{}
	p.tasks.Go(l.run)
}

// next counts an exchange and returns its fault.
func (p *Proxy) next() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Exchanges++
	if p.config.Plan == nil {
		return Pass()
	}
	f := p.config.Plan(p.stats.Exchanges)
	if f.kind != pass {
		p.stats.Faults++
	}
	return f
}

// remove drops a link that has ended.
func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
