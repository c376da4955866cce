// Package faultproxy is a TCP proxy on loopback that does to connections what networks do:
// it resets, truncates, stalls, trickles, refuses, and loses answers whose effect was made.
// It is for tests and examples.
//
//	proxy, err := faultproxy.Start(server.Listener.Addr().String(), faultproxy.Script(
//		faultproxy.DropAnswer(), // the first request has its effect, and no answer
//		faultproxy.Reset(),      // the second never arrives
//	))                           // and all others pass
//
// It knows no protocol. What the client sends after it was answered begins a new exchange,
// which is right for HTTP/1 without pipelining. Where the two sides do not take turns (TLS,
// HTTP/2), have a [Config] count connections instead.
package faultproxy

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Config is for [Config.Start]. Of its fields only Target is needed.
type Config struct {
	// Target is the address that connections are passed on to.
	Target string
	// Plan says what becomes of each exchange. nil passes everything.
	Plan Plan
	// PerConnection makes one exchange of all that happens on a connection: bytes count
	// from its beginning, and Plan is asked when it is accepted. Reset and Crash then do
	// not wait for a request.
	PerConnection bool
}

// A Proxy is a running proxy. It is safe for concurrent use.
type Proxy struct {
	config Config
	addr   string
	tasks  sync.WaitGroup // goroutines

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	links    map[*link]struct{}
	revival  *time.Timer // of Crash
	stats    Stats
	closed   bool
}

// Stats counts what a proxy has done.
type Stats struct {
	Connections int // accepted
	Exchanges   int // begun
	Faults      int // of these, other than Pass
}

// Start returns a proxy for target, with a plan for its exchanges.
func Start(target string, plan Plan) (*Proxy, error) {
	return Config{Target: target, Plan: plan}.Start()
}

// Start returns a proxy that listens on a free port of 127.0.0.1. Close it.
func (c Config) Start() (*Proxy, error) {
	if c.Plan == nil {
		c.Plan = Always(Pass())
	}
	p := &Proxy{config: c, addr: "127.0.0.1:0", links: make(map[*link]struct{})}
	if err := p.Restore(); err != nil {
		return nil, err
	}
	return p, nil
}

// Addr returns the address that the proxy listens on, the same for its whole life.
func (p *Proxy) Addr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr
}

// URL returns http:// and the address.
func (p *Proxy) URL() string { return "http://" + p.Addr() }

// Stats returns what was counted until now.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// SetPlan changes what becomes of the exchanges that begin from now on. They go on being
// counted where the old plan left.
func (p *Proxy) SetPlan(plan Plan) {
	if plan == nil {
		plan = Always(Pass())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config.Plan = plan
}

// Cut resets all connections. New ones are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

func (p *Proxy) cut() {
	for l := range p.links {
		l.reset()
	}
}

// Refuse makes the system refuse new connections, until [Proxy.Restore]. Those that exist
// stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse()
}

func (p *Proxy) refuse() {
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// Restore accepts connections again, on the same port. It fails if somebody took the port
// meanwhile, and after Close.
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

// Close refuses new connections, resets those that exist, and waits for all goroutines of
// the proxy to end.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	if p.revival != nil {
		p.revival.Stop()
	}
	p.refuse()
	p.cut()
	p.mu.Unlock()
	p.tasks.Wait()
}

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
		p.admit(client.(*net.TCPConn))
	}
}

func (p *Proxy) admit(client *net.TCPConn) {
	l := &link{proxy: p, client: client, left: make(chan struct{}), ended: make(chan struct{})}
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

// next begins an exchange.
func (p *Proxy) next() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Exchanges++
	f := p.config.Plan(p.stats.Exchanges)
	if f.kind != pass {
		p.stats.Faults++
	}
	return f
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// crash cuts and refuses everything, for d.
func (p *Proxy) crash(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse()
	p.cut()
	if d > 0 && !p.closed {
		// A port that was taken meanwhile goes on refusing, as it would in earnest.
		p.revival = time.AfterFunc(d, func() { p.Restore() })
	}
}
