package fault

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Dial returns dial whose connections have the faults of the plan, for a client
// that takes a function such as [net.Dialer.DialContext]. They need no socket: a
// dial that returns one end of a [net.Pipe] works in a bubble of testing/synctest.
func (i *Injector) Dial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return i.conn(c, false), nil
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
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.injector.conn(c, true), nil
}

// A conn is a connection with faults, at the client or at the server.
type conn struct {
	net.Conn
	injector *Injector
	server   bool

	reading sync.Mutex
	buf     []byte // read from Conn, of which
	rest    []byte // was not passed on

	mu       sync.Mutex
	attempt  *entry // under way; nil if there was none
	fault    Fault
	answered bool     // the response of the attempt began
	passed   [2]int64 // bytes of its request, and of its response
	over     error    // a fault has ended the connection
	last     string   // can still be read before over

	gates  [2]gate       // reading, and writing
	closed chan struct{} // by Close, or by a fault
	half   chan struct{} // closed where nothing more is to be sent
	once   [2]sync.Once
}

// The directions of passed.
const (
	request = iota
	response
)

func (i *Injector) conn(inner net.Conn, server bool) *conn {
	c := &conn{Conn: inner, injector: i, server: server, closed: make(chan struct{}), half: make(chan struct{})}
	if i.PerConnection {
		c.begin()
		if c.fault.kind == reset {
			c.finish(connectionReset("read"))
		}
	}
	return c
}

// begin begins an attempt.
func (c *conn) begin() {
	if c.attempt != nil {
		c.injector.end(c.attempt, 0, nil)
	}
	c.attempt = c.injector.begin(Attempt{Whole: true}, nil)
	c.fault, c.answered, c.passed = c.attempt.Fault, false, [2]int64{}
}

// Read reads what passes.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if n, err := c.ended(p); err != nil || n > 0 || len(p) == 0 {
		return n, err
	}
	if len(c.rest) == 0 {
		if c.buf == nil {
			c.buf = make([]byte, 32<<10)
		}
		n, err := c.Conn.Read(c.buf)
		if n == 0 {
			if last, over := c.ended(p); over != nil || last > 0 {
				return last, over
			}
			return 0, err
		}
		c.rest = c.buf[:n]
	}
	n, err := c.admit(c.direction(request), &c.gates[0], min(len(c.rest), len(p)))
	copy(p, c.rest[:n])
	c.rest = c.rest[n:]
	return n, err
}

// direction returns what a server reads, and what a client writes.
func (c *conn) direction(d int) int {
	if c.server {
		return d
	}
	return 1 - d
}

// Write writes what passes.
func (c *conn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if _, err = c.ended(nil); err == io.EOF {
			return len(p), nil // the other side does not read it
		} else if err != nil {
			return n, err
		}
		pass, err := c.admit(c.direction(response), &c.gates[1], len(p)-n)
		if err == io.EOF {
			continue
		}
		if err != nil {
			return n, err
		}
		pass, err = c.Conn.Write(p[n : n+pass])
		if n += pass; err != nil {
			return n, err
		}
	}
	c.cutNow()
	return n, nil
}

// ended returns what can be read of a connection that a fault has ended, and its error.
func (c *conn) ended(p []byte) (int, error) {
	c.cutNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(p, c.last)
	if c.last = c.last[n:]; n > 0 {
		return n, nil
	}
	return 0, c.over
}

// cutNow ends a connection whose fault lets pass no more.
func (c *conn) cutNow() {
	c.mu.Lock()
	f, sent, received := c.fault, c.passed[request], c.passed[response]
	c.mu.Unlock()
	if f.kind == cutRequest && sent > 0 && sent >= f.bytes ||
		(f.kind == cut || f.kind == truncate) && received > 0 && received >= f.bytes {
		c.end(f, nil)
	}
}

// admit waits until some of the next n bytes of a direction may pass, and returns how
// many.
func (c *conn) admit(direction int, g *gate, n int) (int, error) {
	f, done := c.turn(direction)
	pass, wait := f.request(done, n), time.Duration(0)
	if direction == response {
		pass, wait = f.response(done, n)
	}
	if pass <= 0 {
		return 0, c.end(f, g)
	}
	if err := g.wait(c.closed, wait); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed[direction] += int64(pass)
	if direction == request && c.attempt != nil {
		c.injector.grow(c.attempt, pass)
	}
	return pass, nil
}

// turn notes that something is sent in a direction, and returns the fault for it and how
// much has passed in this attempt.
func (c *conn) turn(direction int) (Fault, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case direction == response:
		if c.answered = true; c.attempt != nil {
			c.injector.end(c.attempt, 0, nil)
		}
	case c.attempt == nil, c.answered && !c.injector.PerConnection:
		c.begin()
	}
	return c.fault, c.passed[direction]
}

// end does what a fault does after the last byte that passes.
func (c *conn) end(f Fault, g *gate) error {
	switch f.kind {
	case hang:
		return g.wait(c.half, forever)
	case truncate:
		return c.finish(io.EOF)
	case status:
		return c.answer(f)
	case cut, cutRequest:
		if _, ok := c.Conn.(*net.TCPConn); ok && f.bytes > 0 {
			time.Sleep(grace)
		}
	}
	return c.finish(connectionReset("read"))
}

// grace is the time that the other side gets to read what was sent, since a
// reset would overtake it.
const grace = 5 * time.Millisecond

// answer sends the response of a Status.
func (c *conn) answer(f Fault) error {
	text, asks := f.text(), ""
	if f.asks != "" && f.asks != strip {
		asks = "Retry-After: " + f.asks + "\r\n"
	}
	last := fmt.Sprintf("HTTP/1.1 %d \r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s", f.status, len(text), asks, text)
	if c.server {
		io.WriteString(c.Conn, last)
	} else {
		c.mu.Lock()
		c.last = last
		c.mu.Unlock()
	}
	return c.finish(io.EOF)
}

// finish ends the connection: with io.EOF in good order, and otherwise by a reset. It
// returns the error of the connection.
func (c *conn) finish(err error) error {
	c.mu.Lock()
	if c.over == nil {
		c.over = err
		if c.attempt != nil && err != io.EOF {
			c.injector.fail(c.attempt, err)
		}
	}
	err = c.over
	c.mu.Unlock()
	if err != io.EOF {
		c.abort()
	}
	c.Close()
	return err
}

// abort makes Close reset a connection of TCP.
func (c *conn) abort() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
}

// Close closes the connection. What waits for it ends.
func (c *conn) Close() error {
	c.once[0].Do(func() { close(c.closed) })
	c.once[1].Do(func() { close(c.half) })
	return c.Conn.Close()
}

// CloseWrite closes the half of the connection that is written, if it can be.
func (c *conn) CloseWrite() error {
	c.once[1].Do(func() { close(c.half) })
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// SetDeadline is that of [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	c.gates[0].set(t)
	c.gates[1].set(t)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline is that of [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.gates[0].set(t)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline is that of [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.gates[1].set(t)
	return c.Conn.SetWriteDeadline(t)
}
