package guides

import (
	"bufio"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
)

// A bank is a database without a socket. It reads a statement a line, and answers each.
type bank struct {
	commits   int
	transfers map[string]bool
}

func (b *bank) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go b.serve(server)
	return client, nil
}

func (b *bank) serve(conn net.Conn) {
	defer conn.Close()
	key := ""
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "INSERT":
			key, _, _ = strings.Cut(rest, " ")
		case "COMMIT":
			if b.commits++; b.transfers == nil {
				b.transfers = map[string]bool{}
			}
			b.transfers[key] = true
		}
		if _, err := fmt.Fprintln(conn, "ok"); err != nil {
			return
		}
	}
}

// A connector is a driver of database/sql that dials, as those of real databases do.
type connector struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (c connector) Driver() driver.Driver { return nil }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.dial(ctx, "tcp", "bank:5432")
	return &session{Conn: conn}, err
}

type session struct {
	net.Conn
	broken bool
}

func (s *session) say(statement string) error {
	_, err := fmt.Fprintln(s.Conn, statement)
	if err == nil {
		_, err = bufio.NewReader(s.Conn).ReadString('\n')
	}
	s.broken = err != nil
	return err
}

func (s *session) IsValid() bool { return !s.broken }

func (s *session) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (s *session) Begin() (driver.Tx, error)           { return s, s.say("BEGIN") }
func (s *session) Commit() error                       { return s.say("COMMIT") }
func (s *session) Rollback() error                     { return s.say("ROLLBACK") }

func (s *session) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), s.say(query)
}
