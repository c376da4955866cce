package faultproxy

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A link is a client's connection and the connection to the target that belongs
// to it.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	silent atomic.Bool // what arrives is swallowed

	mu       sync.Mutex
	target   *net.TCPConn
	fault    Fault // of the current exchange
	begun    bool  // there is a current exchange
	answered bool  // the target began to answer
	sent     int64 // bytes of the request that were read
	received int64 // bytes of the answer that were read

	clientDone chan struct{} // closed when the client has sent all it will send
	ended      context.Context
	end        context.CancelFunc
	finished   sync.Once
}

// run connects to the target and passes on both directions until the link ends.
func (l *link) run() {
	defer l.proxy.remove(l)
	defer l.finish(false)
	if l.proxy.config.PerConnection && !l.begin(l.proxy.next()) {
		return
	}
	var dialer net.Dialer
	target, err := dialer.DialContext(l.ended, "tcp", l.proxy.config.Target)
	if err != nil {
		l.reset()
		return
	}
	l.mu.Lock()
	l.target = target.(*net.TCPConn)
	l.mu.Unlock()
	if l.ended.Err() != nil { // reset before there was a target
		target.Close()
		return
	}
	var up sync.WaitGroup
	up.Go(func() {
		defer close(l.clientDone)
		l.copy(l.target, l.client, l.request)
	})
	l.copy(l.client, l.target, l.answer)
	up.Wait()
}

// copy gives what it reads from src to pass, until src ends or pass returns
// false.
func (l *link) copy(dst, src *net.TCPConn, pass func([]byte) bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && !pass(buf[:n]) {
			return
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

// begin starts an exchange under f, and reports whether the link goes on.
func (l *link) begin(f Fault) bool {
	l.mu.Lock()
	l.fault, l.begun, l.answered, l.sent, l.received = f, true, false, 0, 0
	l.mu.Unlock()
	if f.kind == reset {
		return l.reset()
	}
	return true
}

// request passes on a piece of a request, and reports whether the link goes on.
func (l *link) request(p []byte) bool {
	l.mu.Lock()
	first := !l.begun || l.answered && !l.proxy.config.PerConnection
	l.mu.Unlock()
	if first && !l.begin(l.proxy.next()) {
		return false
	}
	l.mu.Lock()
	f, left := l.fault, l.fault.bytes-l.sent
	l.sent += int64(len(p))
	l.mu.Unlock()
	if f.kind == cutRequest {
		return l.cut(l.target, p, max(0, left), true)
	}
	return l.write(l.target, p)
}

// answer passes on a piece of an answer, and reports whether the link goes on.
func (l *link) answer(p []byte) bool {
	l.mu.Lock()
	l.answered = true
	f, left := l.fault, max(0, l.fault.bytes-l.received)
	l.received += int64(len(p))
	l.mu.Unlock()
	switch f.kind {
	case resetAnswer, truncate:
		return l.cut(l.client, p, left, f.kind == resetAnswer)
	case stall:
		return l.stall(p, left, f.delay)
	case trickle:
		return l.trickle(p, f)
	}
	return l.write(l.client, p)
}

// cut passes on at most left bytes of p, and ends the link after the last of
// them: by a reset, or in good order.
func (l *link) cut(dst *net.TCPConn, p []byte, left int64, byReset bool) bool {
	if left > int64(len(p)) {
		return l.write(dst, p)
	}
	dst.Write(p[:left])
	if byReset && left > 0 {
		l.pause(grace)
	}
	return l.finish(byReset)
}

// grace is the time that the other side gets to read what was sent, since a
// reset would overtake it.
const grace = 5 * time.Millisecond

// stall passes on the first left bytes, waits for d, and passes on the rest.
func (l *link) stall(p []byte, left int64, d time.Duration) bool {
	if left >= int64(len(p)) {
		return l.write(l.client, p)
	}
	if !l.write(l.client, p[:left]) || !l.pause(d) {
		return false
	}
	l.mu.Lock()
	l.fault = Fault{}
	l.mu.Unlock()
	return l.write(l.client, p[left:])
}

// trickle passes on p in pieces, with a pause before each.
func (l *link) trickle(p []byte, f Fault) bool {
	for len(p) > 0 {
		n := min(int64(len(p)), f.bytes)
		if !l.pause(f.delay) || !l.write(l.client, p[:n]) {
			return false
		}
		p = p[n:]
	}
	return true
}

// write passes on p, unless the link is silent, and resets the link if it cannot.
func (l *link) write(dst *net.TCPConn, p []byte) bool {
	if l.silent.Load() {
		return true
	}
	if _, err := dst.Write(p); err != nil {
		return l.reset()
	}
	return true
}

// pause waits for d and reports whether the link is still there. With a d of 0
// or less it waits until the client has closed its half of the connection, or
// the link has ended: a client that closes in good order sends nothing more.
func (l *link) pause(d time.Duration) bool {
	if d <= 0 {
		select {
		case <-l.clientDone:
		case <-l.ended.Done():
		}
		return false
	}
	return clock.Sleep(l.ended, d)
}

// reset ends the link by a reset (RST) on both sides. It returns false, as the link
// does not go on.
func (l *link) reset() bool { return l.finish(true) }

// finish closes both connections, once: by a reset, or in good order. It returns
// false, as reset does.
func (l *link) finish(byReset bool) bool {
	l.finished.Do(func() {
		l.end()
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, conn := range []*net.TCPConn{l.client, l.target} {
			if conn == nil {
				continue
			}
			if byReset {
				conn.SetLinger(0)
			}
			conn.Close()
		}
	})
	return false
}
