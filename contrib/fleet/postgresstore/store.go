// Package postgresstore is a store for package fleet in PostgreSQL: it keeps
// what the processes of a fleet know about their services, for fleets without
// Redis.
//
//	store, err := postgresstore.New(pool)
//	...
//	hub := &fleet.Client{Store: store}
package postgresstore

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

	"github.com/gobackoff/backoff/contrib/fleet"
)

// Schema is the SQL of the tables and functions that a [Store] needs. They are
// made in the first schema of the search path, and their names begin with
// backoff_. Running it again changes nothing. It needs PostgreSQL 13 or newer.
//
//go:embed schema.sql
var Schema string

// DB is the part of a *pgxpool.Pool that a [Store] needs. A *pgx.Conn has it,
// too, but is not safe for concurrent use.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// A Store is a [fleet.Store] in PostgreSQL. Each call is one statement and one
// transaction. Times are those of the server's clock. Calls that change a
// circuit lock its row; Load locks nothing. The tables are unlogged: they are
// empty after a crash of the server, and empty on its replicas, so the pool
// must reach the primary. If the server's clock is set back, tokens return one
// window later; a circuit stays open for as much longer, but keeps no process
// from probing for longer than the Trust of its Client. A Store is safe for concurrent use.
//
// If the context of a call ends before the response has come, pgx closes the
// connection. Give the store a pool of its own, of two or three connections,
// to keep the other queries of the program apart from that.
type Store struct{ db DB }

// New returns a store on db, which the caller closes. See [Migrate].
func New(db DB) (*Store, error) {
	if db == nil {
		return nil, errors.New("postgresstore: db is nil")
	}
	return &Store{db: db}, nil
}

// Migrate runs [Schema]. Several processes may run it at once.
func Migrate(ctx context.Context, db DB) error {
	_, err := db.Exec(ctx, "begin; select pg_advisory_xact_lock(7062653610120934); "+Schema+"; commit")
	return err
}

// answer names the columns that the functions return.
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

// circuit runs a statement that returns a circuit.
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

// text escapes a name: PostgreSQL's text holds everything except NUL.
func text(name string) string {
	return strings.NewReplacer("\x00", `\0`, `\`, `\\`).Replace(strings.ToValidUTF8(name, `\?`))
}

// interval returns d in microseconds, rounded up.
func interval(d time.Duration) pgtype.Interval {
	us := d.Microseconds()
	if d > 0 && d%time.Microsecond != 0 {
		us++
	}
	return pgtype.Interval{Microseconds: us, Valid: true}
}

// small returns n, or the nearest number that fits.
func small(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// duration returns a duration, rounded up to microseconds.
func duration(seconds float64) time.Duration {
	return time.Duration(math.Ceil(seconds*1e6)) * time.Microsecond
}
