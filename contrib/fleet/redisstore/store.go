// Package redisstore is a store for package fleet in Redis: it keeps what the
// processes of a fleet know about their services.
//
//	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
//	store, err := redisstore.New(client, "")
//	...
//	hub := &fleet.Client{Store: store}
package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gobackoff/backoff/contrib/fleet"
)

// A Store is a [fleet.Store] in Redis: a single server, a server behind
// Sentinel, or a cluster. Each call is one script on one server, by that
// server's clock. A circuit is a hash of a few hundred bytes. A budget is a
// sorted set and a hash in the same slot. All of them have a time to live. A
// Store is safe for concurrent use.
//
// The data need not survive. After a FLUSHALL, or a failover that loses writes,
// the fleet learns again, and tokens that are out may be granted once more. So
// it is with each key that the server evicts. If the clock is set
// forward, also by a failover to a server with another clock, everything ends as
// much earlier. If it is set back, circuits become half-open, leases and votes
// end, and tokens return one window later.
type Store struct {
	client redis.Scripter
	prefix string
}

// New returns a store on a client, which the caller closes. The names of all
// keys begin with prefix; "" means "backoff". The prefix must not contain
// braces, which decide about slots.
//
// The client's option ContextTimeoutEnabled must be set. Without it go-redis
// waits for its own timeouts, of several seconds, even after the context has
// ended.
func New(client redis.UniversalClient, prefix string) (*Store, error) {
	bounded := true
	switch c := client.(type) {
	case nil:
		return nil, errors.New("redisstore: client is nil")
	case *redis.Client:
		bounded = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		bounded = c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		bounded = c.Options().ContextTimeoutEnabled
	}
	if !bounded {
		return nil, errors.New("redisstore: the client's option ContextTimeoutEnabled is false, want true: calls of the store must end with their context")
	}
	if strings.ContainsAny(prefix, "{}") {
		return nil, fmt.Errorf("redisstore: prefix is %q, want one without braces", prefix)
	}
	return &Store{client: client, prefix: cmp.Or(prefix, "backoff")}, nil
}

// key returns the name of a key. The part between the braces decides about its
// slot, and is the same for all keys of a name.
func (s *Store) key(name, kind string) string {
	return s.prefix + ":{" + url.QueryEscape(name) + "}:" + kind
}

// Load implements [fleet.Store].
func (s *Store) Load(ctx context.Context, key string) (fleet.Circuit, error) {
	return s.circuit(ctx, load, key)
}

// Trip implements [fleet.Store].
func (s *Store) Trip(ctx context.Context, key string, t fleet.Trip) (fleet.Circuit, error) {
	return s.circuit(ctx, trip, key, t.By, t.Voter, t.Seen, millis(t.Open), t.Openings, t.Quorum, millis(fleet.Linger))
}

// Lease implements [fleet.Store].
func (s *Store) Lease(ctx context.Context, key, by string, d time.Duration) (fleet.Circuit, error) {
	return s.circuit(ctx, lease, key, by, millis(d), millis(fleet.Linger))
}

// Reset implements [fleet.Store].
func (s *Store) Reset(ctx context.Context, key, by string, generation uint64) (fleet.Circuit, error) {
	return s.circuit(ctx, reset, key, by, generation, millis(fleet.Linger))
}

// Take implements [fleet.Store].
func (s *Store) Take(ctx context.Context, key string, c fleet.Claim) (int, error) {
	return take.Run(ctx, s.client, s.account(key), c.Block, c.Tokens, c.Allowance, millis(c.Window)).Int()
}

// Give implements [fleet.Store].
func (s *Store) Give(ctx context.Context, key, block string, n int) error {
	return give.Run(ctx, s.client, s.account(key), block, n).Err()
}

// account returns the two keys of an account.
func (s *Store) account(key string) []string {
	return []string{s.key(key, "blocks"), s.key(key, "tokens")}
}

// circuit runs a script that returns a circuit.
func (s *Store) circuit(ctx context.Context, script *redis.Script, key string, args ...any) (fleet.Circuit, error) {
	v, err := script.Run(ctx, s.client, []string{s.key(key, "circuit")}, args...).Int64Slice()
	if err != nil {
		return fleet.Circuit{}, err
	}
	if len(v) != 6 {
		return fleet.Circuit{}, fmt.Errorf("redisstore: the server's answer has %d numbers, want 6", len(v))
	}
	return fleet.Circuit{
		Generation: uint64(v[0]),
		Tripped:    v[1] != 0,
		Open:       time.Duration(v[2]) * time.Millisecond,
		Openings:   int(v[3]),
		Leased:     time.Duration(v[4]) * time.Millisecond,
		Mine:       v[5] != 0,
	}, nil
}

// millis returns d in milliseconds, rounded up so that a positive d stays
// positive.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}
