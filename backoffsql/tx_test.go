package backoffsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
)

// swift is a policy that does not wait.
var swift = backoff.Policy{Name: "transfer", Jitter: func(time.Duration, time.Duration, float64) time.Duration { return 0 }}

func exec(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "work")
	return err
}

func with(i backoff.Idempotency) backoff.Policy {
	p := swift
	p.Idempotency = i
	return p
}

// run makes a transaction of one statement, and returns what the database saw.
func run(t *testing.T, f *fake, p backoff.Policy) (log string, err error) {
	t.Helper()
	err = backoffsql.Tx(t.Context(), f.open(t), p, nil, exec)
	return f.seen(), err
}

// condition is the Idempotency of an operation that may be repeated if it is true.
type condition bool

func (c condition) Repeatable(_ context.Context, class backoff.Class) bool {
	return bool(c) || class == backoff.ClassNotSent
}

func TestTxRepeatsWhatIsNotCommittedOrMayBeRepeated(t *testing.T) {
	const twice = "begin work commit begin work commit"
	yes := condition(true)
	for name, c := range map[string]struct {
		fake        *fake
		idempotency backoff.Idempotency
		want        string
	}{
		"no failure":                              {&fake{}, nil, "begin work commit"},
		"begin failed":                            {&fake{begin: times(2, state("57P03"))}, backoff.NonIdempotent, "begin begin begin work commit"},
		"the handshake broke off (lib/pq)":        {&fake{begin: times(2, fmt.Errorf("connecting: %w", io.EOF))}, backoff.NonIdempotent, "begin begin begin work commit"},
		"the commit was refused":                  {&fake{commit: times(1, state("40001"))}, backoff.NonIdempotent, twice},
		"the commit was refused, for a deadlock":  {&fake{commit: times(1, state("40P01"))}, backoff.NonIdempotent, twice},
		"an unknown commit of what is idempotent": {&fake{commit: times(1, driver.ErrBadConn)}, backoff.Idempotent, twice},
		"an unknown commit of what has a key":     {&fake{commit: times(1, driver.ErrBadConn)}, backoff.Keyed, twice},
		"an unknown commit, and a condition":      {&fake{commit: times(1, driver.ErrBadConn)}, yes, twice},
	} {
		log, err := run(t, c.fake, with(c.idempotency))
		require.NoError(t, err, name)
		require.Equal(t, c.want, log, name)
	}
	f := &fake{commit: times(1, io.ErrUnexpectedEOF)}
	ctx := backoff.WithIdempotencyKey(t.Context(), "of a charge around the transaction")
	require.ErrorIs(t, backoffsql.Tx(ctx, f.open(t), with(backoff.NonIdempotent), nil, exec), backoffsql.ErrCommitUnknown)
}

func TestTxGivesUpWithTheLastError(t *testing.T) {
	_, err := run(t, &fake{exec: times(9, state("40001"))}, swift)
	var gave *backoff.Error
	require.ErrorAs(t, err, &gave)
	require.Equal(t, 4, gave.Attempts)
	require.Equal(t, backoff.ReasonAttempts, gave.Reason)
	require.ErrorIs(t, err, state("40001"))
	require.NotErrorIs(t, err, backoffsql.ErrCommitUnknown)

	log, err := run(t, &fake{exec: times(9, state("40001"))}, backoff.Policy{MaxAttempts: 1})
	require.Equal(t, "begin work rollback", log)
	require.True(t, backoff.Policy{}.Retryable(err), "one attempt leaves retrying to others")

	_, err = run(t, &fake{commit: times(9, state("23505"))}, swift)
	require.EqualError(t, err, "SQLSTATE 23505", "of a deferred constraint")
}

// However fn leaves its goroutine.
func TestTxRollsBackIfFnDoesNotReturn(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		f := &fake{}
		db := f.open(t)
		var recovered any
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { recovered = recover() }()
			backoffsql.Tx(t.Context(), db, backoff.Policy{}, nil, func(context.Context, *sql.Tx) error { leave(); return nil })
		}()
		<-done
		require.Equal(t, name == "panic", recovered == "boom", name)
		require.Equal(t, "begin rollback", f.seen(), name)
		require.Zero(t, db.Stats().InUse, name)
	}
}

func TestTxBeginsAgainAfterAFailureThatMayPass(t *testing.T) {
	for _, err := range []error{
		state("40001"), state("40P01"), state("55P03"), state("57P01"), state("08006"), state("53300"),
		driver.ErrBadConn, syscall.ECONNRESET, io.ErrUnexpectedEOF, notSent{errors.New("no connection")},
		fmt.Errorf("debit: %w", state("40001")),
	} {
		for _, i := range []backoff.Idempotency{nil, backoff.Idempotent, backoff.NonIdempotent, backoff.Keyed} {
			log, got := run(t, &fake{exec: times(2, err)}, with(i))
			require.NoError(t, got, "%v", err)
			require.Equal(t, "begin work rollback begin work rollback begin work commit", log, "%v", err)
		}
	}
}

func TestTxRepeatsOnlyWhatItKnows(t *testing.T) {
	for _, err := range []error{
		errors.New("whatever"), io.EOF, state("23505"), state("57014"), state("25P02"), state("XX000"), state("40003"), state("99999"),
		sql.ErrNoRows, sql.ErrConnDone, context.Canceled, backoff.Permanent(state("40001")),
		errors.Join(state("40001"), backoff.Permanent(errors.New("no"))),
	} {
		f := &fake{exec: times(9, err)}
		got := backoffsql.Tx(t.Context(), f.open(t), with(backoff.Idempotent), nil, exec)
		require.ErrorIs(t, got, err)
		require.Equal(t, err.Error(), got.Error())
		require.Equal(t, backoff.DefaultClassifier(err) == backoff.ClassPermanent, got == err, "%v comes back bare", err)
		require.NotErrorIs(t, got, backoffsql.ErrCommitUnknown)
		require.Equal(t, "begin work rollback", f.seen(), "%v", err)
	}
}

func TestTxNeverRepeatsAnAmbiguousCommit(t *testing.T) {
	for _, err := range []error{
		driver.ErrBadConn, notSent{errors.New("conn closed")}, io.ErrUnexpectedEOF, syscall.ECONNRESET, context.DeadlineExceeded, errors.New("whatever"),
		state("08006"), state("08007"), state("40003"), state("57P01"), state("57P02"), state("53100"), state("58030"), state("XX000"), state("HY000"), state(""),
	} {
		for _, i := range []backoff.Idempotency{nil, backoff.NonIdempotent, condition(false)} {
			f := &fake{commit: times(9, err)}
			got := backoffsql.Tx(t.Context(), f.open(t), with(i), nil, exec)
			require.ErrorIs(t, got, backoffsql.ErrCommitUnknown, "%v", err)
			require.ErrorIs(t, got, err)
			require.Contains(t, got.Error(), "commit state unknown: "+err.Error())
			require.Equal(t, "begin work commit", f.seen(), "%v", err)
			require.False(t, backoff.Policy{}.Retryable(got), "an outer policy would apply it twice")
		}
	}
}

func TestTxRemembersTheDoubtOfAnEarlierAttempt(t *testing.T) {
	f := &fake{commit: times(1, io.ErrUnexpectedEOF), exec: func(n int) error {
		return times(9, state("23505"))(n + 9*(2-n)) // of the second transaction
	}}
	err := backoffsql.Tx(t.Context(), f.open(t), with(backoff.Idempotent), nil, exec)
	require.ErrorIs(t, err, backoffsql.ErrCommitUnknown)
	require.ErrorIs(t, err, state("23505"))
	require.EqualError(t, err, "backoffsql: commit state unknown (of an earlier attempt): SQLSTATE 23505")
	require.Equal(t, "begin work commit begin work rollback", f.seen())
}

// Drivers notice that a statement failed whose error fn dropped, and roll back.
// There is no doubt, and repeating would not help.
func TestASwallowedErrorRollsBackAndIsNoDoubtfulCommit(t *testing.T) {
	for _, text := range []string{
		"commit unexpectedly resulted in rollback",                 // pgx
		"pq: could not complete operation in a failed transaction", // lib/pq
		"pq: Could not complete operation in a failed transaction", // lib/pq before 1.11
		"unexpected command tag ROLLBACK",                          // lib/pq
		"in a wrapper: commit unexpectedly resulted in rollback",   // a driver around pgx
	} {
		var said error = errors.New(text)
		if inner, wrapped := strings.CutPrefix(text, "in a wrapper: "); wrapped {
			said = fmt.Errorf("in a wrapper: %w", errors.New(inner))
		}
		f := &fake{commit: times(9, said)}
		err := backoffsql.Tx(t.Context(), f.open(t), with(backoff.Idempotent), nil, exec)
		require.EqualError(t, err, text)
		require.NotErrorIs(t, err, backoffsql.ErrCommitUnknown)
		require.Equal(t, "begin work commit", f.seen(), text)
	}
	f := &fake{commit: times(9, errors.New("could not tell: commit unexpectedly resulted in rollback"))}
	err := backoffsql.Tx(t.Context(), f.open(t), with(backoff.NonIdempotent), nil, exec)
	require.ErrorIs(t, err, backoffsql.ErrCommitUnknown, "only the whole text is known")
}

func TestTxHoldsNoConnectionWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{exec: times(1, state("40001"))}
		db := f.open(t)
		db.SetMaxOpenConns(1)
		p := backoff.Policy{Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, Observer: func(context.Context, backoff.Event) {
			require.Zero(t, db.Stats().InUse)
		}}
		began := time.Now()
		require.NoError(t, backoffsql.Tx(t.Context(), db, p, nil, exec))
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestTxRepeatsAnAttemptThatRanOutOfTime(t *testing.T) {
	for name, outcome := range map[string]func(context.Context, *sql.Tx) error{
		"its statement says so":        exec,
		"its transaction is gone":      func(_ context.Context, tx *sql.Tx) error { synctest.Wait(); return exec(context.Background(), tx) },
		"it did not notice":            func(context.Context, *sql.Tx) error { return nil },
		"it did not notice, nor waits": func(context.Context, *sql.Tx) error { synctest.Wait(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				p := with(backoff.NonIdempotent)
				p.AttemptTimeout = time.Second
				pool, n := f.open(t), 0
				pool.SetMaxOpenConns(1) // so that the next attempt waits for the rollback, which database/sql makes by itself
				err := backoffsql.Tx(t.Context(), pool, p, nil, func(ctx context.Context, tx *sql.Tx) error {
					if n++; n > 1 {
						return exec(ctx, tx)
					}
					<-ctx.Done()
					return outcome(ctx, tx)
				})
				require.NoError(t, err)
				require.Equal(t, "begin rollback begin work commit", f.seen())
			})
		})
	}
}

func TestTxSaysThatATimedOutCommitIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{commit: times(9, context.DeadlineExceeded), before: func(stage string) {
			if stage == "commit" {
				time.Sleep(2 * time.Second)
			}
		}}
		p := swift
		p.AttemptTimeout = time.Second
		err := backoffsql.Tx(t.Context(), f.open(t), p, nil, exec)
		require.ErrorIs(t, err, backoffsql.ErrCommitUnknown)
		require.Equal(t, "begin work commit", f.seen())
	})
}

func TestTxDoesNotCommitForACallerWhoIsGone(t *testing.T) {
	f := &fake{}
	ctx, cancel := context.WithCancel(t.Context())
	err := backoffsql.Tx(ctx, f.open(t), backoff.Policy{}, nil, func(ctx context.Context, tx *sql.Tx) error {
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, backoffsql.ErrCommitUnknown)
	require.NotContains(t, f.seen(), "commit")
}

func TestTxKnowsThatFnEndedTheTransaction(t *testing.T) {
	f := &fake{}
	err := backoffsql.Tx(t.Context(), f.open(t), with(backoff.Idempotent), nil, func(_ context.Context, tx *sql.Tx) error { return tx.Commit() })
	require.ErrorIs(t, err, sql.ErrTxDone)
	require.ErrorContains(t, err, "fn ended the transaction itself")
	require.Equal(t, "begin commit", f.seen())

	f = &fake{commit: times(9, io.ErrUnexpectedEOF)}
	err = backoffsql.Tx(t.Context(), f.open(t), swift, nil, func(_ context.Context, tx *sql.Tx) error { return tx.Commit() })
	require.ErrorIs(t, err, backoffsql.ErrCommitUnknown)
	require.Equal(t, "begin commit", f.seen())

	f = &fake{exec: times(1, state("40001"))}
	err = backoffsql.Tx(t.Context(), f.open(t), swift, nil, func(ctx context.Context, tx *sql.Tx) error {
		if err := exec(ctx, tx); err != nil {
			tx.Rollback()
			return err
		}
		return nil
	})
	require.NoError(t, err, "a refusal is one, whoever rolled back")
}

func TestTxAsksThePolicysClassifierFirst(t *testing.T) {
	p := swift
	busy := errors.New("database is locked")
	p.Classify = func(err error) backoff.Class {
		if errors.Is(err, busy) {
			return backoff.ClassRetryable
		}
		return backoff.ClassUnknown
	}
	f := &fake{exec: func(n int) error { return []error{busy, state("40001"), nil}[n-1] }}
	require.NoError(t, backoffsql.Tx(t.Context(), f.open(t), p, nil, exec))
}

func TestMySQLNumbers(t *testing.T) {
	p := swift
	p.Classify = backoffsql.MySQL(number)
	for _, n := range []uint16{1213, 1205, 1020, 3101} {
		log, err := run(t, &fake{exec: times(1, numbered{n}), commit: times(2, numbered{n})}, p)
		require.NoError(t, err, "%d is a refusal", n)
		require.Equal(t, "begin work rollback begin work commit begin work commit", log)
	}
	for _, n := range []uint16{1053, 1158, 1159, 1160, 1161, 1927, 4031, 2002, 2003, 2006, 2013, 2055, 1040, 1203} {
		f := &fake{exec: times(1, numbered{n})}
		require.NoError(t, backoffsql.Tx(t.Context(), f.open(t), p, nil, exec), "%d", n)
		f = &fake{commit: times(1, numbered{n})}
		require.ErrorIs(t, backoffsql.Tx(t.Context(), f.open(t), p, nil, exec), backoffsql.ErrCommitUnknown, "%d", n)
	}
	for _, n := range []uint16{1243, 1412, 1615, 1792, 1836, 1874, 3032} {
		require.Equal(t, backoff.ClassRetryable, p.Classify(numbered{n}), "%d", n)
	}
	require.Equal(t, backoff.ClassPermanent, p.Classify(numbered{1062}))
	require.Equal(t, backoff.ClassThrottled, p.Classify(numbered{1040}))
	require.Equal(t, backoff.ClassUnknown, p.Classify(errors.New("of somebody else")))
	require.Equal(t, backoff.ClassRetryable, p.Classify(errors.New("bad connection")), "go-sql-driver, while it connects")
	require.Equal(t, backoff.ClassPermanent, p.Classify(nil))
	require.Equal(t, backoff.ClassUnknown, backoffsql.MySQL(nil)(numbered{1213}))
}

// Two numbers say several things. The texts are those of MySQL and MariaDB.
func TestMySQLNumbersWhoseTextTells(t *testing.T) {
	for text, want := range map[said]backoff.Class{
		"Error 1290 (HY000): The MySQL server is running with the --read-only option so it cannot execute this statement":        backoff.ClassNotSent,
		"Error 1290 (HY000): The MySQL server is running with the --super-read-only option so it cannot execute this statement":  backoff.ClassNotSent,
		"Error 1290 (HY000): The MySQL server is running with the --secure-file-priv option so it cannot execute this statement": backoff.ClassPermanent,
		"Error 1047 (08S01): WSREP has not yet prepared node for application use":                                                backoff.ClassRetryable,
		"Error 1047 (08S01): Unknown command": backoff.ClassPermanent,
	} {
		classify := backoffsql.MySQL(func(err error) (number uint16) {
			fmt.Sscanf(err.Error(), "Error %d", &number)
			return number
		})
		require.Equal(t, want, classify(text), "%s", text)
	}
}

func TestAServerThatTheDSNDoesNotWantMayBecomeRight(t *testing.T) {
	for _, text := range []string{
		"read only connection", "connection is not read only", "server is in standby mode", "server is not in hot standby mode", // pgx
		"session is read-only", "session is not read-only", "server is in hot standby mode", // lib/pq
	} {
		require.Equal(t, backoff.ClassRetryable, backoffsql.Classify(fmt.Errorf("failed to connect: %w", errors.New(text))))
	}
}

// errPgxClosed is what pgx 5.13 returns if the connection breaks while it waits.
var errPgxClosed = fmt.Errorf("query: %w", errors.New("conn closed"))

func TestClassify(t *testing.T) {
	for err, class := range map[error]backoff.Class{
		nil:                   backoff.ClassPermanent,
		errors.New("unknown"): backoff.ClassPermanent,
		state("40001"):        backoff.ClassRetryable,
		state("53300"):        backoff.ClassThrottled,
		state("57014"):        backoff.ClassPermanent,
		driver.ErrBadConn:     backoff.ClassRetryable,
		errPgxClosed:          backoff.ClassRetryable,
		syscall.ECONNREFUSED:  backoff.ClassNotSent,
		cycle{}:               backoff.ClassPermanent,
	} {
		require.Equal(t, class, backoffsql.Classify(err), "%v", err)
	}
}

func TestTxRefusesBadInput(t *testing.T) {
	var none *sql.DB
	for _, err := range []error{
		backoffsql.Tx(t.Context(), nil, backoff.Policy{}, nil, exec),
		backoffsql.Tx(t.Context(), none, backoff.Policy{}, nil, exec),
		backoffsql.Tx(t.Context(), (&fake{}).open(t), backoff.Policy{}, nil, nil),
	} {
		require.EqualError(t, err, "backoffsql: Tx wants a database and a function")
		require.False(t, backoff.Policy{}.Retryable(err))
	}
	f := &fake{}
	require.ErrorContains(t, backoffsql.Tx(t.Context(), f.open(t), backoff.Policy{Schedule: backoff.Constant(-1)}, nil, exec), "Policy.Schedule")
	require.Empty(t, f.log)
}

// cycle is an error that wraps itself, twice.
type cycle struct{}

func (cycle) Error() string   { return "cycle" }
func (cycle) Unwrap() []error { return []error{cycle{}, cycle{}} }

// fake is a database that behaves as its fields say, and keeps a log. The
// functions get the number of the transaction, from 1.
type fake struct {
	begin, exec, commit func(n int) error
	before              func(stage string) // called without the lock

	mu  sync.Mutex
	n   int
	log []string
}

func (f *fake) open(t *testing.T) *sql.DB {
	db := sql.OpenDB(f)
	t.Cleanup(func() { db.Close() })
	return db
}

// seen returns what the database has done.
func (f *fake) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.log, " ")
}

func (f *fake) note(stage string, answer func(int) error) error {
	if f.before != nil {
		f.before(stage)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if stage == "begin" {
		f.n++
	}
	f.log = append(f.log, stage)
	if answer == nil {
		return nil
	}
	return answer(f.n)
}

func (f *fake) Connect(context.Context) (driver.Conn, error) { return &fakeConn{f}, nil }
func (f *fake) Driver() driver.Driver                        { return nil }

// fakeConn is a connection to a fake.
type fakeConn struct{ f *fake }

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not here") }
func (c *fakeConn) Close() error                        { return nil }
func (c *fakeConn) Begin() (driver.Tx, error)           { return nil, errors.New("not here") }
func (c *fakeConn) Commit() error                       { return c.f.note("commit", c.f.commit) }
func (c *fakeConn) Rollback() error                     { return c.f.note("rollback", nil) }

func (c *fakeConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return c, c.f.note("begin", c.f.begin)
}

func (c *fakeConn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return driver.RowsAffected(1), c.f.note(query, c.f.exec)
}

// state is an error like those of pgx and lib/pq.
type state string

func (s state) Error() string    { return "SQLSTATE " + string(s) }
func (s state) SQLState() string { return string(s) }

// notSent is an error like those of pgx when nothing was written.
type notSent struct{ error }

func (notSent) SafeToRetry() bool { return true }

// numbered is an error like those of the MySQL driver.
type numbered struct{ Number uint16 }

func (numbered) Error() string { return "a number" }

func number(err error) uint16 {
	var e numbered
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// times returns a function that fails the first n transactions.
func times(n int, err error) func(int) error {
	return func(tx int) error {
		if tx <= n {
			return err
		}
		return nil
	}
}
