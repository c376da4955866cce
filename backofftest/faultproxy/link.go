package faultproxy

import (
	"io"
	"net"
	"sync"
	"time"
)

// link is one connection of a client with its counterpart to the target.
type link struct {
	proxy  *Proxy
	client *net.TCPConn

	mu       sync.Mutex
	target   *net.TCPConn
	fault    Fault // of the exchange under way
	begun    bool  // an exchange
	answered bool  // the target began to answer
	asked    int64 // bytes of the request that were passed on
	given    int64 // bytes of the answer that were

	left  chan struct{} // closed when the client has sent its last
	end   sync.Once
	ended chan struct{}
}

func (l *link) run() {
	defer l.proxy.forget(l)
	defer l.close()
	if l.proxy.config.PerConnection && !l.begin(l.proxy.next()) {
		return
	}
	target, err := net.Dial("tcp", l.proxy.config.Target)
	if err != nil {
		l.reset()
		return
	}
	l.mu.Lock()
	l.target = target.(*net.TCPConn)
	l.mu.Unlock()
	select {
	case <-l.ended: // cut before there was a target
		target.Close()
		return
	default:
	}
	var up sync.WaitGroup
	up.Go(func() {
		defer close(l.left)
		l.copy(l.target, l.client, l.request)
	})
	l.copy(l.client, l.target, l.answer)
	up.Wait()
}

// copy passes on what pass lets through, until src ends, or the link.
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

// begin puts an exchange under its fault, and reports whether it goes on.
func (l *link) begin(f Fault) bool {
	l.mu.Lock()
	l.fault, l.begun, l.answered, l.asked, l.given = f, true, false, 0, 0
	l.mu.Unlock()
	switch f.kind {
	case reset:
		l.reset()
		return false
	case crash:
		l.proxy.crash(f.delay)
		l.reset()
		return false
	}
	return true
}

// request passes a piece of a request on.
func (l *link) request(p []byte) bool {
	l.mu.Lock()
	turn := !l.begun || l.answered && !l.proxy.config.PerConnection
	l.mu.Unlock()
	if turn && !l.begin(l.proxy.next()) {
		return false
	}
	l.mu.Lock()
	f, left := l.fault, l.fault.bytes-l.asked
	l.asked += int64(len(p))
	l.mu.Unlock()
	if f.kind == cutRequest {
		return l.cut(l.target, p, max(0, left), true)
	}
	return l.write(l.target, p)
}

// answer passes a piece of an answer on.
func (l *link) answer(p []byte) bool {
	l.mu.Lock()
	l.answered = true
	f, left := l.fault, max(0, l.fault.bytes-l.given)
	l.given += int64(len(p))
	l.mu.Unlock()
	switch f.kind {
	case dropAnswer:
		l.reset()
		return false
	case resetAnswer, truncate:
		return l.cut(l.client, p, left, f.kind == resetAnswer)
	case stall:
		return l.stall(p, left, f.delay)
	case trickle:
		return l.trickle(p, f)
	}
	return l.write(l.client, p)
}

// cut passes on what is left of a message that ends too soon.
func (l *link) cut(dst *net.TCPConn, p []byte, left int64, hard bool) bool {
	if left > int64(len(p)) {
		return l.write(dst, p)
	}
	dst.Write(p[:left])
	if !hard {
		l.close()
		return false
	}
	if left > 0 {
		l.pause(grace)
	}
	l.reset()
	return false
}

// grace is for the other side to read what was sent: a reset would overtake it.
const grace = 5 * time.Millisecond

// stall holds back what comes after the first bytes.
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

func (l *link) write(dst *net.TCPConn, p []byte) bool {
	if _, err := dst.Write(p); err != nil {
		l.reset()
		return false
	}
	return true
}

// pause reports whether the link outlived it. One without an end lasts until the client leaves:
// of a client that closes in good order nothing more is heard.
func (l *link) pause(d time.Duration) bool {
	if d <= 0 {
		select {
		case <-l.left:
		case <-l.ended:
		}
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}

// reset ends the link by RST, on both sides.
func (l *link) reset() { l.finish(true) }

// close ends the link in good order, if it has not ended yet.
func (l *link) close() { l.finish(false) }

func (l *link) finish(hard bool) {
	l.end.Do(func() {
		close(l.ended)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, conn := range []*net.TCPConn{l.client, l.target} {
			if conn == nil {
				continue
			}
			if hard {
				conn.SetLinger(0)
			}
			conn.Close()
		}
	})
}
