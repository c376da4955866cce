package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/smtp"
	"net/textproto"
	"time"

	"github.com/gobackoff/backoff"
)

var (
	mailing    = backoff.Policy{Name: "mail", Idempotency: backoff.NonIdempotent}
	later      time.Duration // the least wait after a 4yz reply
	errUnknown = errors.New("it is unknown whether the mail was sent")
)

// sendOnce sends a mail. Nobody gets it twice.
func sendOnce(ctx context.Context, send func(context.Context) error) error {
	err := mailing.Do(ctx, func(ctx context.Context) error {
		err := send(ctx) // which marks what fails before the end of DATA
		if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code/100 == 4 {
			return backoff.RetryAfter(backoff.OfClass(err, backoff.ClassNotSent), later) // the server did nothing
		}
		return err
	})
	gaveUp, tried := errors.AsType[*backoff.Error](err)
	_, rejected := errors.AsType[*textproto.Error](err)
	if err == nil || tried && gaveUp.Repeatable() || !tried && rejected {
		return err
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

// A letter is a mail with its headers, and the server that takes it.
type letter struct {
	server   string // with its port
	from, to string
	text     []byte // lines that end in \r\n
}

// send makes one attempt. Until the end of DATA was sent, no mail is.
func (l *letter) send(ctx context.Context) (err error) {
	dataDone := false
	defer func() {
		if _, replied := errors.AsType[*textproto.Error](err); err != nil && !dataDone && !replied {
			err = backoff.OfClass(err, backoff.ClassNotSent)
		}
	}()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.server)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // net/smtp knows no context
	client, err := smtp.NewClient(conn, "")
	if err != nil {
		return err
	}
	w, err := l.begin(client)
	if err != nil {
		return err
	}
	if _, err := w.Write(l.text); err != nil {
		return err
	}
	dataDone = true
	if err := w.Close(); err != nil {
		return err
	}
	_ = client.Quit() // whatever the server says now, the mail was sent
	return nil
}

// begin ends where the text of the mail begins.
func (l *letter) begin(client *smtp.Client) (io.WriteCloser, error) {
	// Here client.StartTLS and client.Auth, if the server wants them.
	if err := client.Mail(l.from); err != nil {
		return nil, err
	}
	if err := client.Rcpt(l.to); err != nil {
		return nil, err
	}
	return client.Data()
}
