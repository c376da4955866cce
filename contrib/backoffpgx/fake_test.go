package backoffpgx_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// What a fake does instead of an answer. Other faults are SQLSTATEs.
const (
	hangUp = "hang up" // closes the connection
	silent = "silent"  // never answers
)

// fake is a server that speaks PostgreSQL's protocol, but only counts
// transactions.
type fake struct {
	fault func(tx int, sql string) string // of the statement; "" is none
	addr  string

	mu  sync.Mutex
	n   int
	log []string
}

func start(t testing.TB, fault func(tx int, sql string) string) *fake {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &fake{fault: fault, addr: listener.Addr().String()}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); conns.Wait() })
	return f
}

// once is a fault of the first transaction.
func once(sql, fault string) func(int, string) string { return times(1, sql, fault) }

// times is a fault of the first n transactions.
func times(n int, sql, fault string) func(int, string) string {
	return func(tx int, got string) string {
		if tx <= n && got == sql {
			return fault
		}
		return ""
	}
}

func (f *fake) serve(conn net.Conn) {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	status := byte('I')
	for {
		b.Send(&pgproto3.ReadyForQuery{TxStatus: status})
		if b.Flush() != nil {
			return
		}
		m, err := b.Receive()
		query, ok := m.(*pgproto3.Query)
		if err != nil || !ok {
			return
		}
		switch fault := f.note(query.String); fault {
		case "":
			var tag string
			tag, status = answer(query.String, status)
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
		case hangUp:
			return
		case silent:
			b.Receive() // until the client closes
			return
		default:
			b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: fault, Message: "as told"})
			if status = 'E'; verb(query.String) == "commit" {
				status = 'I'
			}
		}
	}
}

func verb(sql string) string {
	first, _, _ := strings.Cut(sql, " ")
	return first
}

// answer returns what the server says, and the state after it.
func answer(sql string, status byte) (string, byte) {
	switch {
	case verb(sql) == "begin":
		return "BEGIN", 'T'
	case verb(sql) == "rollback", verb(sql) == "commit" && status == 'E':
		return "ROLLBACK", 'I'
	case verb(sql) == "commit":
		return "COMMIT", 'I'
	}
	return "UPDATE 1", status
}

func (f *fake) note(sql string) (fault string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if verb(sql) == "begin" {
		f.n++
	}
	f.log = append(f.log, sql)
	if f.fault == nil {
		return ""
	}
	return f.fault(f.n, sql)
}

// begun returns how many transactions were begun.
func (f *fake) begun() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// heard returns the statements so far.
func (f *fake) heard() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.log, ", ")
}

func (f *fake) url() string { return "postgres://nobody@" + f.addr + "/test?sslmode=disable" }

func (f *fake) pool(t testing.TB, conns int32) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(f.url())
	require.NoError(t, err)
	config.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	first, err := pool.Acquire(context.Background()) // an attempt with a timeout finds it there
	require.NoError(t, err)
	first.Release()
	return pool
}

// requireReleased waits until no connection of a pool is in use: pgxpool gives
// up one that was closed in the background.
func requireReleased(t testing.TB, pool *pgxpool.Pool) {
	require.Eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 }, 5*time.Second, time.Millisecond)
}

func (f *fake) connect(t testing.TB) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), f.url())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
