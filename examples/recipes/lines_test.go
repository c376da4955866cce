package recipes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// A lineServer replies to a line with the line itself. It closes each connection after some lines,
// and hangs where a line says so.
type lineServer struct {
	net.Listener
	lines         int64 // of each connection
	conns, served atomic.Int64
}

func startLines(t *testing.T, lines int64) (*lineServer, *lineClient) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &lineServer{Listener: l, lines: lines}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			go s.serve(conn)
		}
	}()
	return s, newLineClient(l.Addr().String())
}

func newLineClient(addr string) *lineClient {
	client := &lineClient{
		dial:   func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) },
		server: &guard.Service{Name: "lines"}, // one for the server
		free:   make(chan *session, 4),
		judge:  judge, // returns the error of a reply, if it is one
	}
	return client
}

func judge(reply string) error {
	switch {
	case strings.HasPrefix(reply, "BUSY"):
		return errors.New(reply) // later
	case strings.HasPrefix(reply, "ERROR"):
		return backoff.Permanent(errors.New(reply)) // not at all
	}
	return nil
}

func (s *lineServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	for n := int64(0); n < s.lines && in.Scan(); n++ {
		switch {
		case strings.HasPrefix(in.Text(), "hang") && s.served.Add(1) == 1:
			time.Sleep(300 * time.Millisecond) // the reply comes when nobody waits for it
		case strings.HasPrefix(in.Text(), "long"):
			fmt.Fprintln(conn, strings.Repeat("x", 2*longest))
			continue
		}
		fmt.Fprintln(conn, "reply to", in.Text())
	}
}

func ask(t *testing.T, c *lineClient, line string) {
	t.Helper()
	if reply, err := c.ask(t.Context(), line); reply != "reply to "+line || err != nil {
		t.Errorf("%q: %q, %v", line, reply, err)
	}
}

func TestALineIsSentOverAConnectionThatIsKept(t *testing.T) {
	server, client := startLines(t, 1000)
	for n := range 100 {
		ask(t, client, fmt.Sprint("line ", n))
	}
	if n := server.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// The server restarts while four connections are kept.
func TestALineIsSentAgainOverANewConnection(t *testing.T) {
	server, client := startLines(t, 1000)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { ask(t, client, "a line") })
	}
	all.Wait()
	for range len(client.free) {
		s := <-client.free
		s.Close()
		client.free <- s
	}
	before := server.conns.Load()
	if ask(t, client, "a line"); server.conns.Load() != before+1 || len(client.free) != 1 {
		t.Errorf("%d new connections, %d free", server.conns.Load()-before, len(client.free))
	}
}

// The server closes a connection while nobody uses it.
func TestALineIsSentAgainIfItsConnectionWasClosed(t *testing.T) {
	_, client := startLines(t, 2)
	for n := range 20 {
		ask(t, client, fmt.Sprint("line ", n))
	}
}

// The reply to a line that timed out is not that to the next one.
func TestALateReplyIsReadByNobody(t *testing.T) {
	defer func(p backoff.Policy) { asking = p }(asking)
	asking.AttemptTimeout = 100 * time.Millisecond
	_, client := startLines(t, 1000)
	ask(t, client, "first")
	ask(t, client, "hang")
	ask(t, client, "last")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.ask(ctx, "none"); err == nil {
		t.Error("no error after the context has ended")
	}
}

func TestManyCallersGetTheirOwnReplies(t *testing.T) {
	server, client := startLines(t, 50)
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			for i := range 20 {
				ask(t, client, fmt.Sprint("line ", n, i))
			}
		})
	}
	all.Wait()
	if free := len(client.free); free > 4 || server.conns.Load() < 8 {
		t.Errorf("%d free, %d connections", free, server.conns.Load())
	}
}

func TestAReplyWithoutAnEndIsAnError(t *testing.T) {
	_, client := startLines(t, 1000)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := client.ask(ctx, "long"); err == nil || !strings.Contains(err.Error(), bufio.ErrBufferFull.Error()) {
		t.Error(err)
	}
}

// A hangingServer hangs from second 20 to 25, and replies BUSY to one line in 100.
type hangingServer struct {
	began  time.Time
	served atomic.Int64
}

func (s *hangingServer) dial(context.Context) (net.Conn, error) {
	conn, server := net.Pipe()
	go func() {
		defer server.Close()
		for in := bufio.NewScanner(server); in.Scan(); {
			if at := time.Since(s.began); at >= 20*time.Second && at < 25*time.Second {
				time.Sleep(25*time.Second - at)
			}
			time.Sleep(2 * time.Millisecond)
			if s.served.Add(1)%100 == 0 {
				fmt.Fprintln(server, "BUSY")
			} else {
				fmt.Fprintln(server, "done")
			}
		}
	}()
	return conn, nil
}

// After an outage the budget of a Service refuses some retries that would succeed.
func TestASmallDeviceNeedsNoBudget(t *testing.T) {
	defer func(before backoff.Policy) { asking = before }(asking)
	device := asking
	device.MaxAttempts, device.Schedule = -1, backoff.Exponential{Max: 500 * time.Millisecond}
	for _, row := range []struct {
		policy backoff.Policy
		plain  bool // without a budget
	}{{asking, false}, {device, true}} {
		synctest.Test(t, func(t *testing.T) {
			asking = row.policy
			client := newLineClient("")
			client.dial = (&hangingServer{began: time.Now()}).dial
			client.server = &guard.Service{NoBudget: row.plain}
			if refused := askMany(t, client); (refused == 0) != row.plain {
				t.Errorf("%d lines were refused, without a budget: %v", refused, row.plain)
			}
		})
	}
}

// askMany sends a line every 10 ms for a minute. It returns how many the budget refused.
func askMany(t *testing.T, client *lineClient) int64 {
	var refused atomic.Int64
	var all sync.WaitGroup
	for range 6000 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			switch _, err := client.ask(ctx, "a line"); {
			case errors.Is(err, backoff.ErrBudget):
				refused.Add(1)
			case err != nil:
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Millisecond)
	}
	all.Wait()
	client.forget()
	return refused.Load()
}

func TestAReplyMayBeAnError(t *testing.T) {
	for first, want := range map[string]string{"BUSY": "done <nil> 2", "ERROR no such command": " ERROR no such command 1"} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			client := newLineClient("")
			client.dial = func(context.Context) (net.Conn, error) {
				conn, server := net.Pipe()
				go func() {
					for in := bufio.NewScanner(server); in.Scan(); {
						n++
						fmt.Fprintln(server, []string{first, "done"}[n-1])
					}
				}()
				return conn, nil
			}
			reply, err := client.ask(t.Context(), "a line")
			if got := fmt.Sprint(reply, " ", err, " ", n); strings.TrimPrefix(got, first) != want {
				t.Error(got)
			}
			client.forget()
		})
	}
}
