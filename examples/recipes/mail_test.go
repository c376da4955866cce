package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

const lost = "it is unknown whether the mail was sent: "

func unknown(err error) bool { return strings.HasPrefix(fmt.Sprint(err), lost) }

func TestAMailIsSentAgainOnlyIfTheServerHasDoneNothing(t *testing.T) {
	busy := &textproto.Error{Code: 450, Msg: "try again later"}
	refused := &textproto.Error{Code: 550, Msg: "no such user"}
	for _, c := range []struct {
		replies []error
		want    string
	}{
		{[]error{busy, busy, nil}, "<nil>"},
		{[]error{busy, busy, busy, busy}, `backoff: mail: gave up after 4 attempts: 450 "try again later"`},
		{[]error{io.EOF}, lost},
		{[]error{busy, io.EOF}, lost},
		{[]error{busy, busy, busy, io.EOF}, lost},
		{[]error{context.Canceled}, lost}, // of the mail's own, and permanent
		{[]error{context.DeadlineExceeded}, lost},
		{[]error{refused}, `550 "no such user"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			err := sendOnce(t.Context(), func(context.Context) error {
				calls++
				return c.replies[calls-1]
			})
			if !strings.HasPrefix(fmt.Sprint(err), c.want) || calls != len(c.replies) {
				t.Errorf("%v: %v after %d calls", c.replies, err, calls)
			}
		})
	}
}

func TestAMailIsUnknownIfItsContextEndsMeanwhile(t *testing.T) {
	for _, before := range []int{0, 1} { // attempts that the server refused
		for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				calls := 0
				err := sendOnce(ctx, func(ctx context.Context) error {
					if calls++; calls <= before {
						return &textproto.Error{Code: 450}
					}
					if end == context.Canceled {
						cancel()
					}
					<-ctx.Done()
					return ctx.Err()
				})
				if !errors.Is(err, end) || !unknown(err) {
					t.Error(err)
				}
				if err := sendOnce(ctx, nil); !strings.HasPrefix(err.Error(), "backoff: mail: not started") {
					t.Error(err)
				}
			})
		}
	}
}

func TestTheOnlyAttemptOfAMailMayHaveBeenMade(t *testing.T) {
	defer func(before backoff.Policy) { mailing = before }(mailing)
	mailing.MaxAttempts = 1
	if err := sendOnce(t.Context(), func(context.Context) error { return io.EOF }); !unknown(err) {
		t.Error(err)
	}
}

// A call that waited for a server that was down is its probe, and makes one attempt.
func TestAProbeMayHaveHadItsEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server guard.Service
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go server.Do(ctx, backoff.Policy{}, func(context.Context) error { return syscall.ECONNREFUSED })
		time.Sleep(10 * time.Second)
		began := time.Now()
		err := server.Do(ctx, mailing, func(context.Context) error {
			if time.Since(began) < 10*time.Second {
				return syscall.ECONNREFUSED
			}
			return io.EOF
		})
		gaveUp, ok := errors.AsType[*backoff.Error](err)
		if !ok || gaveUp.Reason == backoff.ReasonNotIdempotent || gaveUp.Repeatable() {
			t.Error(err)
		}
	})
}

// A mailServer breaks off where it is told to, and otherwise takes each mail.
type mailServer struct {
	net.Listener
	at      string // the command that it does not take: "" is the connection, and "." the end of DATA
	reply   string // its reply to it; "" breaks off
	fails   int64  // how many connections meet it
	stop    func() // called before it
	conns   atomic.Int64
	letters atomic.Int64
}

func (s *mailServer) serve() {
	for {
		conn, err := s.Accept()
		if err != nil {
			return
		}
		s.converse(textproto.NewConn(conn), s.conns.Add(1) <= s.fails)
		conn.Close()
	}
}

func (s *mailServer) converse(c *textproto.Conn, fails bool) {
	for verb := ""; ; {
		switch {
		case fails && verb == s.at:
			s.stop()
			if s.reply == "" {
				return
			}
			c.PrintfLine("%s", s.reply)
		case verb == "":
			c.PrintfLine("220 hello")
		case verb == "DATA":
			c.PrintfLine("354 go on")
			if _, err := c.ReadDotBytes(); err != nil {
				return
			}
			verb = "."
			continue
		case verb == ".":
			s.letters.Add(1)
			c.PrintfLine("250 sent")
		default:
			c.PrintfLine("250 good")
		}
		line, err := c.ReadLine()
		if err != nil {
			return
		}
		verb, _, _ = strings.Cut(line, " ")
	}
}

func startMail(t *testing.T, server *mailServer) (*mailServer, *letter) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server.Listener = l
	go server.serve()
	text := []byte("Message-ID: <1@example.com>\r\n\r\nHi\r\n")
	return server, &letter{server: l.Addr().String(), from: "a@example.com", to: "b@example.com", text: text}
}

// A server breaks off, or replies, at each step of a mail.
func TestALetterIsSentOnceWhereverTheServerBreaksOff(t *testing.T) {
	defer func(before backoff.Policy) { mailing = before }(mailing)
	mailing.Schedule = backoff.Constant(time.Millisecond)
	for _, row := range []struct {
		at, reply   string
		conns, sent int64
		want        string
	}{
		{"", "", 3, 1, "<nil>"},
		{"EHLO", "", 3, 1, "<nil>"},
		{"MAIL", "", 3, 1, "<nil>"},
		{"RCPT", "451 greylisted", 3, 1, "<nil>"},
		{"RCPT", "550 no such user", 1, 0, `550 "no such user"`},
		{"DATA", "", 3, 1, "<nil>"},
		{".", "", 1, 0, lost},
		{".", "452 disk full", 3, 1, "<nil>"},
		{".", "554 spam", 1, 0, `554 "spam"`},
		{"QUIT", "", 1, 1, "<nil>"},
	} {
		server, mail := startMail(t, &mailServer{at: row.at, reply: row.reply, fails: 2, stop: func() {}})

		err := sendOnce(t.Context(), mail.send)

		if !strings.HasPrefix(fmt.Sprint(err), row.want) || server.conns.Load() != row.conns || server.letters.Load() != row.sent {
			t.Errorf("%q %q: %v after %d connections, %d letters", row.at, row.reply, err, server.conns.Load(), server.letters.Load())
		}
	}
}

// deliver sends a mail, or keeps it if nobody knows whether it was sent.
func deliver(ctx context.Context, mail *letter, store func(*letter, error) error) error {
	err := sendOnce(ctx, mail.send)
	switch {
	case errors.Is(err, errUnknown):
		return store(mail, err) // for a person, or a program that looks for its Message-ID
	case err != nil:
		return err // it was not sent, and may be sent later, unless err is a 5yz reply
	}
	return nil
}

func TestOnlyALetterThatMayHaveBeenSentIsKept(t *testing.T) {
	for at, kept := range map[string]int{".": 1, "RCPT": 0} {
		_, mail := startMail(t, &mailServer{at: at, fails: 4, stop: func() {}})
		n := 0
		err := deliver(t.Context(), mail, func(*letter, error) error { n++; return nil })
		if n != kept || (err == nil) != (kept == 1) {
			t.Errorf("%q: %d kept, %v", at, n, err)
		}
	}
}

// The context ends at a step of a mail. What the server got is known before the end of DATA.
func TestALetterIsKnownUntilTheEndOfData(t *testing.T) {
	for at, known := range map[string]bool{"": true, "RCPT": true, ".": false} {
		ctx, stop := context.WithCancel(t.Context())
		_, mail := startMail(t, &mailServer{at: at, fails: 1, stop: stop})
		err := sendOnce(ctx, mail.send)
		gaveUp, ok := errors.AsType[*backoff.Error](err)
		if !ok || gaveUp.Repeatable() != known || unknown(err) == known || !errors.Is(err, context.Canceled) {
			t.Errorf("%q: %v", at, err)
		}
	}
}

// A server with greylisting takes the mail of a sender that comes back after 20 minutes.
func TestGreylistingTakesMinutes(t *testing.T) {
	defer func(before backoff.Policy) { mailing, later = before, 0 }(mailing)
	mailing.MaxAttempts, later = 8, 5*time.Minute
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), 0
		err := sendOnce(t.Context(), func(context.Context) error {
			if calls++; time.Since(began) < 20*time.Minute {
				return &textproto.Error{Code: 451, Msg: "greylisted"}
			}
			return nil
		})
		if err != nil || calls != 5 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}
