// Package sqlstore keeps idempotency keys and responses in a database, for any
// number of processes. It imports database/sql and no driver.
//
//	store, err := sqlstore.New(db, sqlstore.PostgreSQL, sqlstore.Options{})
//	...
//	once := idempotency.Middleware(account, idempotency.Options{Store: store})
//
// A handler that takes effect in the same database can commit its effect and
// its response together, with [Store.Record].
package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/idempotency"
	"github.com/gobackoff/backoff/internal/limits"
)

const (
	defaultTable = "idempotency_keys"
	defaultTTL   = 24 * time.Hour
	defaultSweep = 1000
	sweepBatch   = 100
	forever      = 100 * 365 * 24 * time.Hour
	hashLength   = 64
)

// Options are the settings of [New]. The zero value is ready to use.
type Options struct {
	// Table is the name of the table, with or without its schema. It
	// consists of letters, digits and underscores. "" means
	// idempotency_keys.
	Table string
	// TTL is how long a key is remembered after it was last claimed,
	// finished or released. An expired key stays in the table until Sweep
	// removes it, or until the key comes again. 0 means 24 hours, a
	// negative number no limit.
	TTL time.Duration
}

// Store is an idempotency.Store in a database. It is safe for concurrent use by
// all processes that use the table.
//
// Each method executes one to three statements, outside of a transaction. They
// are correct at every isolation level. All times are those of the database,
// so the clocks of the processes need not agree. A statement that the database
// ended as a deadlock is executed up to 20 times, with waits of 0.8 s in all at
// most. A Store retries nothing else, and does not log. SQLite has one writer at
// a time: give its driver a busy timeout.
//
// The table holds hashes of the keys, and the responses as they were sent: keep
// it from those who must not see the responses. It has no bounds but TTL: limit
// the rate of each caller around the middleware. All ids of a caller begin with
// the same 32 digits.
type Store struct {
	db      retrying
	table   string
	dialect Dialect
	ttl     time.Duration

	insert, read, takeOver, remove, finish, release, sweep string
}

var _ idempotency.Store = (*Store)(nil)

// New returns a Store in db. It does not access the database; see
// [Store.Create]. The error names the dialect or the table that is invalid.
func New(db *sql.DB, d Dialect, o Options) (*Store, error) {
	o.Table = cmp.Or(o.Table, defaultTable)
	if err := check(d, o.Table); err != nil {
		return nil, err
	}
	s := &Store{db: retrying{db}, table: o.Table, dialect: d, ttl: limits.OrMost(o.TTL, defaultTTL, forever)}
	s.prepare()
	return s, nil
}

// prepare writes the statements.
func (s *Store) prepare() {
	bind := func(statement string) string { return s.dialect.bind(s.table, statement) }
	s.insert = bind(`{insert} INTO {table}
		(id, fingerprint, token, run, version, done, lease, expires, status, omitted)
		VALUES (?, ?, ?, 1, 1, 0, {now} + ?, {now} + ?, 0, 0){ignore}`)
	s.read = bind(`SELECT fingerprint, run, version, done, lease - {now}, expires - {now}, status, omitted, header, body
		FROM {table} WHERE id = ?`)
	s.takeOver = bind(`UPDATE {table} SET token = ?, run = run + 1, version = version + 1,
		lease = {now} + ?, expires = {now} + ? WHERE id = ? AND version = ? AND done = 0`)
	s.remove = bind(`DELETE FROM {table} WHERE id = ? AND version = ?`)
	s.finish = bind(`UPDATE {table} SET done = 1, version = version + 1, expires = {now} + ?,
		status = ?, omitted = ?, header = ?, body = ? WHERE id = ? AND token = ?`)
	s.release = bind(`UPDATE {table} SET lease = {now}, version = version + 1, expires = {now} + ?
		WHERE id = ? AND token = ? AND done = 0`)
	s.sweep = bind(`DELETE FROM {table} WHERE expires <= {now} AND (done = 1 OR lease <= {now}) AND id IN (
		SELECT id FROM (SELECT id FROM {table} WHERE expires <= {now} AND (done = 1 OR lease <= {now}) LIMIT ?{skip}) AS stale)`)
}

// Create creates the table, unless there is a table of that name.
func (s *Store) Create(ctx context.Context) error {
	statements, err := s.dialect.Schema(s.table)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return wrap("create", err)
		}
	}
	return nil
}

// Sweep removes up to n expired keys, and returns how many it removed. If n is
// 0 or less, it is 1000. A Store does not call Sweep by itself: call it once an
// hour, say, until it removes fewer than n. Several processes may call it at
// once; on PostgreSQL each leaves out what others are removing. A statement
// removes at most 100 keys, so that none locks many for long.
func (s *Store) Sweep(ctx context.Context, n int) (removed int64, err error) {
	n = cmp.Or(max(0, n), defaultSweep)
	for left := int64(n); left > 0; left = int64(n) - removed {
		batch := min(left, sweepBatch)
		some, err := s.exec(ctx, s.db, s.sweep, batch)
		removed += some
		if err != nil || some < batch {
			return removed, wrap("sweep", err)
		}
	}
	return removed, nil
}

// Begin implements [idempotency.Store].
func (s *Store) Begin(ctx context.Context, key, fingerprint string, lease time.Duration) (idempotency.Entry, error) {
	if len(key) != hashLength || len(fingerprint) != hashLength {
		return idempotency.Entry{}, errors.New("sqlstore: begin: a key or fingerprint is not 64 digits")
	}
	for range 100 { // each time another process changed the key
		entry, ok, err := s.try(ctx, key, fingerprint, lease)
		if ok || err != nil {
			return entry, wrap("begin", err)
		}
	}
	return idempotency.Entry{}, errors.New("sqlstore: begin: other processes keep changing the key")
}

// try is one attempt of Begin. ok is false if another process changed the key
// meanwhile.
func (s *Store) try(ctx context.Context, key, fingerprint string, lease time.Duration) (e idempotency.Entry, ok bool, err error) {
	claim := idempotency.Claim{Key: key, Token: rand.Text(), Run: 1}
	n, err := s.exec(ctx, s.db, s.insert, key, fingerprint, claim.Token, ms(lease), ms(s.ttl))
	if err != nil {
		s.retract(ctx, claim)
		return e, false, err
	}
	if n == 1 {
		return idempotency.Entry{State: idempotency.EntryClaimed, Claim: claim}, true, nil
	}
	r, err := s.find(ctx, key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return e, false, nil
	case err != nil:
		return e, false, err
	case r.expired():
		_, err = s.exec(ctx, s.db, s.remove, key, r.version)
		return e, false, err
	case r.fingerprint != fingerprint:
		return idempotency.Entry{State: idempotency.EntryMismatch}, true, nil
	case r.done:
		return idempotency.Entry{State: idempotency.EntryDone, Record: r.record}, true, nil
	case r.left > 0:
		return idempotency.Entry{State: idempotency.EntryInFlight, Left: time.Duration(r.left) * time.Millisecond}, true, nil
	}
	claim.Run = r.run + 1
	n, err = s.exec(ctx, s.db, s.takeOver, claim.Token, ms(lease), ms(s.ttl), key, r.version)
	if err != nil {
		s.retract(ctx, claim)
	}
	return idempotency.Entry{State: idempotency.EntryClaimed, Claim: claim}, n == 1, err
}

// retract releases a claim that was perhaps made before the connection failed,
// so that the next attempt need not wait for the end of the lease. It returns
// when ctx ends, and then goes on for a second at most.
func (s *Store) retract(ctx context.Context, c idempotency.Claim) {
	released := make(chan struct{})
	go func() {
		defer close(released)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		s.Release(ctx, c)
	}()
	select {
	case <-released:
	case <-ctx.Done():
	}
}

// row is a row of the table.
type row struct {
	fingerprint string
	run         int
	version     int64
	done        bool
	left        int64 // milliseconds of the lease
	remaining   int64 // milliseconds until it expires
	record      idempotency.Record
}

// expired reports whether the key counts as unknown.
func (r row) expired() bool { return r.remaining <= 0 && (r.done || r.left <= 0) }

// find reads the row of a key.
func (s *Store) find(ctx context.Context, key string) (row, error) {
	var r row
	var header []byte
	err := deadlocks.Do(ctx, func(ctx context.Context) error {
		return s.db.QueryRowContext(ctx, s.read, key).Scan(&r.fingerprint, &r.run, &r.version, &r.done,
			&r.left, &r.remaining, &r.record.Status, &r.record.Omitted, &header, &r.record.Body)
	})
	if err != nil {
		return row{}, err
	}
	r.record.Header, err = decode(header)
	return r, err
}

// Finish implements [idempotency.Store].
func (s *Store) Finish(ctx context.Context, c idempotency.Claim, r idempotency.Record) error {
	return wrap("finish", s.complete(ctx, s.db, c, r))
}

// Record stores the response r in a transaction of the handler, so that the
// effect and the response are committed together or not at all. ctx is the
// context of the handler's request, which holds the claim: outside of
// idempotency.Middleware Record returns an error. If another run has claimed
// the key, Record returns idempotency.ErrLeaseLost, and the handler must roll
// back the transaction. A run that begins later waits for the end of the
// transaction.
//
//	tx, err := db.BeginTx(ctx, nil)
//	... the effect ...
//	response := idempotency.Record{Status: 201, Header: header, Body: body}
//	if err := store.Record(ctx, tx, response); err != nil {
//		... roll back, answer 503 ...
//	}
//	... commit ...
//	response.Send(w)
//
// When the handler has returned, the response that it sent replaces r. A zero
// r means a response that is not known yet. If the process dies before the
// response is known, the effect is remembered, and the next request gets 410.
func (s *Store) Record(ctx context.Context, tx *sql.Tx, r idempotency.Record) error {
	c, ok := idempotency.ClaimFrom(ctx)
	if !ok {
		return errors.New("sqlstore: record: no claim in the context")
	}
	if r.Status == 0 {
		r = idempotency.Record{Omitted: true}
	}
	return wrap("record", s.complete(ctx, tx, c, r))
}

// complete makes the key of a claim done.
func (s *Store) complete(ctx context.Context, on execer, c idempotency.Claim, r idempotency.Record) error {
	n, err := s.exec(ctx, on, s.finish, ms(s.ttl), r.Status, flag(r.Omitted), encode(r.Header), r.Body, c.Key, c.Token)
	if err == nil && n == 0 {
		return idempotency.ErrLeaseLost
	}
	return err
}

// Release implements [idempotency.Store].
func (s *Store) Release(ctx context.Context, c idempotency.Claim) error {
	_, err := s.exec(ctx, s.db, s.release, ms(s.ttl), c.Key, c.Token)
	return wrap("release", err)
}

// execer is a *sql.DB or a *sql.Tx.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// exec executes a statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, on execer, statement string, args ...any) (int64, error) {
	result, err := on.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// wrap says in which method an error came.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlstore: %s: %w", what, err)
}

// ms returns d in milliseconds, rounded up, so that a short lease does not
// become 0. What is longer than forever is forever, or the sum would overflow.
func ms(d time.Duration) int64 {
	return int64((min(d, forever) + time.Millisecond - 1) / time.Millisecond)
}

// flag returns b as a number.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// deadlocks is the policy for a single statement. Databases end one of several
// statements that wait for each other, and undo it. The others end soon, also where a
// table is so busy that a statement meets a dozen of them.
var deadlocks = backoff.Policy{
	Name:        "idempotency statement",
	MaxAttempts: 20,
	Schedule:    backoff.Exponential{Initial: 2 * time.Millisecond, Max: 50 * time.Millisecond},
	Classify:    backoff.RetryIf(isDeadlock),
}

// isDeadlock reports whether an error says that the database ended a statement
// for the sake of another, and undid it. The driver of MySQL and MariaDB has the
// number of an error in a field, which cannot be read without importing it, and
// in the text.
func isDeadlock(err error) bool {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState() == "40P01" || e.SQLState() == "40001"
	}
	text := err.Error()
	return strings.HasPrefix(text, "Error 1213") || strings.HasPrefix(text, "Error 1020")
}

// retrying is a database that executes a statement again after a deadlock. In a
// transaction that cannot be done: it is lost as a whole.
type retrying struct{ *sql.DB }

// ExecContext implements execer.
func (r retrying) ExecContext(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	err = deadlocks.Do(ctx, func(ctx context.Context) error {
		result, err = r.DB.ExecContext(ctx, query, args...)
		return err
	})
	return result, err
}
