// Command mariadb moves money between two accounts of a MariaDB database. Watch
// five transfers, and what happens to each one: a connection is cut, the answer
// to a COMMIT is lost, and so on. Each transfer is made exactly once.
//
// [backoffsql.Tx] repeats the transactions. It may repeat one whose COMMIT was
// not answered, because every transfer has a unique key ([backoff.Keyed]). The
// driver keeps the number of an error in a field, so [backoffsql.MySQL] gets a
// function that reads it.
//
// It needs a server on 127.0.0.1:3306. In the root of the repository:
//
//	docker compose up --detach --wait mariadb
//	go run -C examples/clients ./mariadb
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
	"github.com/gobackoff/backoff/examples/internal/journal"
	"github.com/gobackoff/backoff/internal/faultproxy"
)

const server = "127.0.0.1:3306"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if _, err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A bank is two accounts and the transfers between them.
type bank struct {
	db, direct *sql.DB // through the proxy, and not
	proxy      *faultproxy.Proxy
	policy     backoff.Policy
	schema     string
}

// A report is the result of all transfers.
type report struct {
	Balances  [2]int
	Transfers int
	Retries   int
}

func run(ctx context.Context, out io.Writer) (r report, err error) {
	b, err := open(ctx)
	if err != nil {
		return r, err
	}
	defer b.close()
	log := journal.New(out)
	defer log.Sum()
	b.policy = backoff.Policy{
		Name:        "transfer",
		MaxAttempts: 10,
		Idempotency: backoff.Keyed,
		Classify:    backoffsql.MySQL(number),
		Observer: func(ctx context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				r.Retries++
			}
			log.Observe(ctx, e)
		},
	}
	for _, step := range b.steps() {
		log.Say("-- %s", step.what)
		if err := b.transfer(ctx, step.happens); err != nil {
			return r, err
		}
	}
	row := b.direct.QueryRowContext(ctx, b.in("SELECT (SELECT balance FROM s.accounts WHERE id = 1), (SELECT balance FROM s.accounts WHERE id = 2), (SELECT COUNT(*) FROM s.transfers)"))
	err = row.Scan(&r.Balances[0], &r.Balances[1], &r.Transfers)
	log.Say("%d transfers of 10, balances %d and %d", r.Transfers, r.Balances[0], r.Balances[1])
	return r, err
}

// transfer moves 10 from account 1 to account 2. The first attempt calls
// happens before its COMMIT.
func (b *bank) transfer(ctx context.Context, happens func(context.Context)) error {
	attempt := 0
	return backoffsql.Tx(ctx, b.db, b.policy, nil, func(ctx context.Context, tx *sql.Tx) error {
		attempt++
		fresh, err := b.insert(ctx, tx)
		if err != nil || !fresh {
			return err
		}
		if _, err := tx.ExecContext(ctx, b.in("UPDATE s.accounts SET balance = balance - 10 WHERE id = 1")); err != nil {
			return err
		}
		if attempt == 1 {
			happens(ctx)
		}
		_, err = tx.ExecContext(ctx, b.in("UPDATE s.accounts SET balance = balance + 10 WHERE id = 2"))
		return err
	})
}

// insert records the transfer, and reports whether it is new.
func (b *bank) insert(ctx context.Context, tx *sql.Tx) (bool, error) {
	result, err := tx.ExecContext(ctx, b.in("INSERT IGNORE INTO s.transfers VALUES (?)"), backoff.IdempotencyKey(ctx))
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// A step is one transfer, and what happens during it.
type step struct {
	what    string
	happens func(context.Context)
}

func (b *bank) steps() []step {
	return []step{
		{"nothing happens", func(context.Context) {}},
		{"the connection is cut", func(context.Context) { b.proxy.Cut() }},
		{"the answer to COMMIT is lost", func(context.Context) { b.lose() }},
		{"the server restarts", func(context.Context) {
			b.proxy.Refuse()
			b.proxy.Cut()
			time.AfterFunc(300*time.Millisecond, func() { b.proxy.Restore() })
		}},
		{"somebody holds the row for longer than MariaDB waits", func(ctx context.Context) { b.hold(ctx) }},
	}
}

// hold keeps account 2 locked for a while.
func (b *bank) hold(ctx context.Context) {
	tx, err := b.direct.BeginTx(ctx, nil)
	if err != nil {
		return
	}
	tx.ExecContext(ctx, b.in("UPDATE s.accounts SET balance = balance + 1 WHERE id = 2"))
	time.AfterFunc(1200*time.Millisecond, func() { tx.Rollback() })
}

// lose drops the answer after the next one, which is that of the second UPDATE.
func (b *bank) lose() {
	n := 0
	b.proxy.SetPlan(func(int) faultproxy.Fault {
		if n++; n == 2 {
			return faultproxy.DropAnswer()
		}
		return faultproxy.Pass()
	})
}

func open(ctx context.Context) (*bank, error) {
	proxy, err := faultproxy.Start(server, nil)
	if err != nil {
		return nil, err
	}
	b := &bank{proxy: proxy, schema: "example_" + strings.ToLower(rand.Text())[:12]}
	b.direct, err = connect(server)
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.db, err = connect(proxy.Addr())
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	for _, statement := range []string{"CREATE SCHEMA s", "CREATE TABLE s.transfers (id VARCHAR(64) PRIMARY KEY)",
		"CREATE TABLE s.accounts (id INT PRIMARY KEY, balance INT)", "INSERT INTO s.accounts VALUES (1, 100), (2, 100)"} {
		if err == nil {
			_, err = b.direct.ExecContext(ctx, b.in(statement))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w (compose.yaml starts the server)", errors.Join(err, b.close()))
	}
	return b, nil
}

func connect(addr string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "tcp", addr, "test"
	c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
	c.InterpolateParams = true // otherwise each statement takes two exchanges
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// number returns the number of an error. For a lost connection it returns the
// number that MySQL's own clients use.
func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	if errors.Is(err, mysql.ErrInvalidConn) {
		return 2013
	}
	return 0
}

// in replaces s in a query by the name of the schema.
func (b *bank) in(query string) string {
	return strings.NewReplacer(" s.", " "+b.schema+".", "SCHEMA s", "SCHEMA "+b.schema).Replace(query)
}

func (b *bank) close() error {
	if b.direct != nil {
		b.direct.Exec(b.in("DROP SCHEMA s"))
		b.direct.Close()
	}
	if b.db != nil {
		b.db.Close()
	}
	b.proxy.Close()
	return nil
}
