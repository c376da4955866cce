// Command postgres moves money between two accounts of a PostgreSQL database.
// Watch five transfers, and what happens to each one: a connection is cut, the
// answer to a COMMIT is lost, and so on. Each transfer is made exactly once.
//
// [backoffpgx.Tx] repeats the transactions. It may repeat one whose COMMIT was
// not answered, because every transfer has a unique key ([backoff.Keyed]).
//
// It needs a server on 127.0.0.1:5432. In the root of the repository:
//
//	docker compose up --detach --wait postgres
//	go run -C examples/clients ./postgres
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/contrib/backoffpgx"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

const server = "127.0.0.1:5432"

func main() {
	journal.Main(func(ctx context.Context, out io.Writer) error {
		_, err := run(ctx, out)
		return err
	})
}

// A bank is two accounts and the transfers between them.
type bank struct {
	db, direct *pgxpool.Pool // through the proxy, and not
	proxy      *fault.Proxy
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
	row := b.direct.QueryRow(ctx, b.in("SELECT (SELECT balance FROM s.accounts WHERE id = 1), (SELECT balance FROM s.accounts WHERE id = 2), (SELECT COUNT(*) FROM s.transfers)"))
	err = row.Scan(&r.Balances[0], &r.Balances[1], &r.Transfers)
	log.Say("%d transfers of 10, balances %d and %d", r.Transfers, r.Balances[0], r.Balances[1])
	return r, err
}

// transfer moves 10 from account 1 to account 2. The first attempt calls
// happens before its COMMIT.
func (b *bank) transfer(ctx context.Context, happens func(context.Context)) error {
	attempt := 0
	return backoffpgx.Tx(ctx, b.db, b.policy, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(ctx context.Context, tx pgx.Tx) error {
		attempt++
		fresh, err := b.insert(ctx, tx)
		if err != nil || !fresh {
			return err
		}
		if _, err := tx.Exec(ctx, b.in("UPDATE s.accounts SET balance = balance - 10 WHERE id = 1")); err != nil {
			return err
		}
		if attempt == 1 {
			happens(ctx)
		}
		_, err = tx.Exec(ctx, b.in("UPDATE s.accounts SET balance = balance + 10 WHERE id = 2"))
		return err
	})
}

// insert records the transfer, and reports whether it is new.
func (b *bank) insert(ctx context.Context, tx pgx.Tx) (bool, error) {
	tag, err := tx.Exec(ctx, b.in("INSERT INTO s.transfers VALUES ($1) ON CONFLICT DO NOTHING"), backoff.IdempotencyKey(ctx))
	return tag.RowsAffected() == 1, err
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
		{"another transfer comes first", func(ctx context.Context) {
			b.direct.Exec(ctx, b.in("UPDATE s.accounts SET balance = balance + 0 WHERE id = 2"))
		}},
	}
}

// lose drops the answer after the next one, which is that of the second UPDATE.
func (b *bank) lose() {
	n := 0
	b.proxy.SetPlan(func(fault.Attempt) fault.Fault {
		if n++; n == 2 {
			return fault.Lost()
		}
		return fault.OK()
	})
}

func open(ctx context.Context) (*bank, error) {
	proxy, err := new(fault.Injector).Proxy(server)
	if err != nil {
		return nil, err
	}
	b := &bank{proxy: proxy, schema: "example_" + strings.ToLower(rand.Text())[:12]}
	b.direct, err = pgxpool.New(ctx, url(server))
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	// Without prepared statements each statement takes one exchange.
	b.db, err = pgxpool.New(ctx, url(proxy.Addr())+"&default_query_exec_mode=exec")
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	_, err = b.direct.Exec(ctx, b.in("CREATE SCHEMA s; CREATE TABLE s.transfers (id TEXT PRIMARY KEY);"+
		"CREATE TABLE s.accounts (id INT PRIMARY KEY, balance INT); INSERT INTO s.accounts VALUES (1, 100), (2, 100)"))
	if err != nil {
		return nil, fmt.Errorf("%w (compose.yaml starts the server)", errors.Join(err, b.close()))
	}
	return b, nil
}

func url(addr string) string { return "postgres://postgres@" + addr + "/test?sslmode=disable" }

// in replaces s in a query by the name of the schema.
func (b *bank) in(query string) string {
	return strings.NewReplacer(" s.", " "+b.schema+".", "SCHEMA s", "SCHEMA "+b.schema).Replace(query)
}

// close ends all connections through the proxy first: a transaction that is open
// keeps the tables.
func (b *bank) close() error {
	b.proxy.Close()
	if b.db != nil {
		b.db.Close()
	}
	if b.direct != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		b.direct.Exec(ctx, b.in("DROP SCHEMA s CASCADE"))
		b.direct.Close()
	}
	return nil
}
