package backoffhttp

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
)

// Over HTTP/2 the end of an attempt ends its stream only. If the connection is dead, the
// retry and the calls after it would go out on it again. So a Transport closes a
// connection on which nothing came while an attempt waited, as net/http does over
// HTTP/1.1.

// A line is a connection on which attempts wait for an answer, or on which bodies are
// read.
type line struct {
	conn  net.Conn
	users int          // guarded by lines
	heard atomic.Int64 // when something came last
}

// lines holds the connections of all Transports, because they may share some. A
// connection is in it while it has users.
var lines = struct {
	sync.Mutex
	of map[net.Conn]*line
}{of: make(map[net.Conn]*line)}

// A watch is what is known of an attempt, its times and its connection.
type watch struct {
	base    http.RoundTripper
	trace   httptrace.ClientTrace
	ctx     context.Context // of the attempt
	cancel  context.CancelCauseFunc
	stop    context.CancelFunc // nil without a time for the attempt with its body
	timer   *time.Timer        // nil without a time until the answer
	silence time.Duration      // of the connection that is too long at the end of such a time

	line atomic.Pointer[line] // changes while lines is held
	sent atomic.Int64         // when the attempt got its connection
}

// begin returns the context of an attempt that has so much time until the answer, and
// for the whole of it. 0 means no limit.
func (w *watch) begin(ctx context.Context, timeout, whole time.Duration) context.Context {
	if whole > 0 {
		ctx, w.stop = context.WithTimeoutCause(ctx, whole, errClientTimeout)
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	if timeout > 0 {
		w.timer = time.AfterFunc(timeout, func() { w.cancel(backoff.ErrAttemptTimeout) })
	}
	w.trace.GotConn, w.trace.GotFirstResponseByte = w.got, w.heard
	return httptrace.WithClientTrace(w.ctx, &w.trace)
}

// timedOut reports whether a time of the attempt is over.
func (w *watch) timedOut() bool {
	cause := context.Cause(w.ctx)
	return cause == errClientTimeout || cause == backoff.ErrAttemptTimeout
}

// answered returns what Base returned for an attempt to send req.
func (w *watch) answered(resp *http.Response, err error, req *http.Request) (*http.Response, error) {
	has := resp != nil && resp.Body != nil
	switch {
	case context.Cause(w.ctx) == errClientTimeout && req.Context().Err() == nil:
		if has {
			resp.Body.Close()
		}
		return nil, errClientTimeout
	case err == nil && has:
		w.heard()
		resp.Body = bind(resp.Body, w, isConnection(resp, req.Method))
	}
	return resp, err
}

// isLate reports whether the deadline of ctx has passed.
func isLate(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return limited && !time.Now().Before(deadline)
}

// maxSilence is for how long a connection must be silent to be given up at the deadline
// of a caller. One that had little time does not close a connection that others may use.
const maxSilence = time.Second

// got notes the connection on which the attempt goes.
func (w *watch) got(info httptrace.GotConnInfo) {
	lines.Lock()
	defer lines.Unlock()
	w.leave()
	if w.ctx.Err() != nil || !closable(info.Conn) {
		return
	}
	now := sinceStart()
	l := lines.of[info.Conn]
	if l == nil {
		l = &line{conn: info.Conn}
		l.heard.Store(now)
		lines.of[info.Conn] = l
	}
	l.users++
	w.sent.Store(now)
	w.line.Store(l)
}

// closable reports whether a connection may be closed, and be a key. That of HTTP/3 may
// not be closed: it is not one of TCP, and its Close panics.
func closable(conn net.Conn) bool {
	return conn != nil && reflect.TypeOf(conn).Kind() == reflect.Pointer &&
		conn.LocalAddr() != nil && !strings.HasPrefix(conn.LocalAddr().Network(), "udp")
}

// heard notes that something came on the connection.
func (w *watch) heard() {
	if l := w.line.Load(); l != nil {
		l.heard.Store(sinceStart())
	}
}

// end ends the watch, and the context of the attempt.
func (w *watch) end() {
	w.cancel(nil)
	if w.stop != nil {
		w.stop()
	}
	lines.Lock()
	defer lines.Unlock()
	w.leave()
}

// leave takes the attempt off its connection. lines is held.
func (w *watch) leave() {
	if l := w.line.Swap(nil); l != nil {
		if l.users--; l.users == 0 {
			delete(lines.of, l.conn)
		}
	}
}

// giveUp closes the connection if nothing came on it for so long. It closes what is below
// TLS, since nobody would hear a farewell.
func (w *watch) giveUp(silence time.Duration) {
	l := w.line.Load()
	if l == nil {
		return
	}
	silent := time.Duration(sinceStart() - max(w.sent.Load(), l.heard.Load()))
	if silent < silence || w.pinged(silent) {
		return
	}
	conn := l.conn
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = over.NetConn()
	}
	conn.Close()
}

// pinged reports whether Base would have found out by now that a connection is dead.
func (w *watch) pinged(silent time.Duration) bool {
	t, ok := w.base.(*http.Transport)
	return ok && t.HTTP2 != nil && t.HTTP2.SendPingTimeout > 0 &&
		silent >= t.HTTP2.SendPingTimeout+cmp.Or(t.HTTP2.PingTimeout, 15*time.Second)
}

// sinceStart returns the time since the program began, in nanoseconds.
func sinceStart() int64 { return int64(time.Since(start)) }

var start = time.Now()
