// Package backoffpostgres keeps what a fleet of processes knows of its services in
// PostgreSQL, for fleets that have no Redis: a store for package fleet.
//
//	store, err := backoffpostgres.New(pool)
//	...
//	hub := &fleet.Client{Store: store}
package backoffpostgres

import (
	"context"
	_ "embed"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/gobackoff/backoff/fleet"
)

// Schema is the tables and functions that a [Store] needs, in SQL. They are made in the
// first schema of the search path, their names begin with backoff_, and running it again
// changes nothing. PostgreSQL 13 or newer.
//
//go:embed schema.sql
var Schema string

// DB is what a [Store] needs of a *pgxpool.Pool. A *pgx.Conn has it, too, but is not safe
// for concurrent use.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// A Store is a [fleet.Store] in PostgreSQL. Each call is one statement, and one transaction,
// by the server's clock; those that change a circuit lock its row, a Load locks nothing.
// The tables are unlogged: they are empty after a crash of the server, and on its replicas,
// so the pool must reach the primary. It is safe for concurrent use.
//
// Where the context of a call ends before the answer is there, pgx closes the connection. A
// pool of its own, of two or three connections, keeps that from the program's other queries.
type Store struct{ db DB }

// New returns a store on db, which stays the caller's to close. See [Migrate].
func New(db DB) (*Store, error) {
	if db == nil {
		return nil, errors.New("backoffpostgres: db is nil")
	}
	return &Store{db: db}, nil
}

// Migrate runs [Schema]. Several processes may do so at once.
func Migrate(ctx context.Context, db DB) error {
	_, err := db.Exec(ctx, "begin; select pg_advisory_xact_lock(7062653610120934); "+Schema+"; commit")
	return err
}

const answer = " as (generation bigint, tripped boolean, open float8, openings int, leased float8, mine boolean)"

// Load implements [fleet.Store].
func (s *Store) Load(ctx context.Context, key string) (fleet.Circuit, error) {
	return s.circuit(ctx, "select * from backoff_load($1)"+answer, text(key))
}

// Trip implements [fleet.Store].
func (s *Store) Trip(ctx context.Context, key string, t fleet.Trip) (fleet.Circuit, error) {
	return s.circuit(ctx, "select * from backoff_trip($1, $2, $3, $4, $5, $6, $7, $8)"+answer,
		text(key), t.By, text(t.Voter), int64(min(t.Seen, math.MaxInt64-1)), interval(t.Open), small(t.Openings), small(t.Quorum), interval(fleet.Linger))
}

// Lease implements [fleet.Store].
func (s *Store) Lease(ctx context.Context, key, by string, d time.Duration) (fleet.Circuit, error) {
	return s.circuit(ctx, "select * from backoff_lease($1, $2, $3, $4)"+answer, text(key), by, interval(d), interval(fleet.Linger))
}

// Reset implements [fleet.Store].
func (s *Store) Reset(ctx context.Context, key, by string, generation uint64) (fleet.Circuit, error) {
	return s.circuit(ctx, "select * from backoff_reset($1, $2, $3, $4)"+answer,
		text(key), by, int64(min(generation, math.MaxInt64)), interval(fleet.Linger))
}

// Take implements [fleet.Store].
func (s *Store) Take(ctx context.Context, key string, c fleet.Claim) (granted int, err error) {
	err = s.db.QueryRow(ctx, "select backoff_take($1, $2, $3, $4, $5)",
		text(key), c.Block, small(c.Tokens), small(c.Allowance), interval(c.Window)).Scan(&granted)
	return granted, err
}

// Give implements [fleet.Store].
func (s *Store) Give(ctx context.Context, key, block string, n int) error {
	_, err := s.db.Exec(ctx, "select backoff_give($1, $2, $3)", text(key), block, small(n))
	return err
}

func (s *Store) circuit(ctx context.Context, sql string, args ...any) (c fleet.Circuit, err error) {
	var generation int64
	var open, leased float64
	err = s.db.QueryRow(ctx, sql, args...).Scan(&generation, &c.Tripped, &open, &c.Openings, &leased, &c.Mine)
	if err != nil {
		return fleet.Circuit{}, err
	}
	c.Generation, c.Open, c.Leased = uint64(generation), duration(open), duration(leased)
	return c, nil
}

// text makes a name fit: PostgreSQL's text holds everything but NUL.
func text(name string) string {
	return strings.NewReplacer("\x00", `\0`, `\`, `\\`).Replace(strings.ToValidUTF8(name, `\?`))
}

// interval is d in microseconds, rounded up.
func interval(d time.Duration) pgtype.Interval {
	us := d.Microseconds()
	if d > 0 && d%time.Microsecond != 0 {
		us++
	}
	return pgtype.Interval{Microseconds: us, Valid: true}
}

func small(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

func duration(seconds float64) time.Duration {
	return time.Duration(math.Ceil(seconds*1e6)) * time.Microsecond
}
