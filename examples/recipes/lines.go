package recipes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// A lineClient sends lines to a server that replies to each with a line. Several goroutines may
// use it. A connection that is free again is kept for the next line.
type lineClient struct {
	dial   func(context.Context) (net.Conn, error)
	server *guard.Service
	judge  func(reply string) error // an error for a reply such as BUSY, or else nil
	free   chan *session            // make(chan *session, 4): as many are kept
}

// A session is a connection on which no reply is due.
type session struct {
	net.Conn
	replies *bufio.Reader
}

// If a line must not be sent twice, set Idempotency: backoff.NonIdempotent.
var asking = backoff.Policy{Name: "lines", AttemptTimeout: 2 * time.Second}

const longest = 64 << 10 // bytes of a reply

func (c *lineClient) ask(ctx context.Context, line string) (string, error) {
	return backoff.DoValue(ctx, c.server.With(asking), func(ctx context.Context) (string, error) {
		s, err := c.session(ctx)
		if err != nil {
			return "", err
		}
		stop := context.AfterFunc(ctx, func() { s.Close() }) // ends the write and the read
		reply, err := s.ask(line)
		ended := !stop()
		switch {
		case err != nil: // the next reply on this connection may be the one to this line
			s.Close()
			c.forget()
			return "", errors.Join(err, ctx.Err())
		case !ended:
			c.keep(s)
		}
		return reply, c.judge(reply)
	})
}

func (c *lineClient) session(ctx context.Context) (*session, error) {
	select {
	case s := <-c.free:
		return s, nil
	default:
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &session{conn, bufio.NewReaderSize(conn, longest)}, nil
}

func (s *session) ask(line string) (string, error) {
	if _, err := fmt.Fprintf(s, "%s\n", line); err != nil {
		return "", err
	}
	reply, err := s.replies.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("reply of %d bytes: %w", len(reply), err) // bufio.ErrBufferFull if it is too long
	}
	return string(reply[:len(reply)-1]), nil
}

func (c *lineClient) keep(s *session) {
	select {
	case c.free <- s:
	default:
		s.Close()
	}
}

// forget closes the free connections: if one is broken, they all may be.
func (c *lineClient) forget() {
	for {
		select {
		case s := <-c.free:
			s.Close()
		default:
			return
		}
	}
}
