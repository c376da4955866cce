// Package backoffredis keeps what a fleet of processes knows of its services in Redis: a
// store for package fleet.
//
//	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
//	store, err := backoffredis.New(client, "")
//	...
//	hub := &fleet.Client{Store: store}
package backoffredis

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gobackoff/backoff/fleet"
)

// A Store is a [fleet.Store] in Redis: a single server, one behind Sentinel, or a cluster.
// Each call is one script on one server, which uses that server's clock. A circuit is a
// hash of a few hundred bytes, a budget a sorted set and a hash in the same slot; all have
// a time to live. It is safe for concurrent use.
//
// Nothing in it must survive: after a FLUSHALL, or a failover that loses writes, the fleet
// learns again. An eviction of keys does no harm either. A failover to a server whose clock
// differs changes the times that are left by that difference.
type Store struct {
	client redis.Scripter
	prefix string
}

// New returns a store on a client, which stays the caller's to close. The names of all keys
// begin with prefix; "" means "backoff". It must not contain braces, which would decide
// about slots.
//
// The client's option ContextTimeoutEnabled must be set: without it go-redis waits for its
// own timeouts, of seconds, whatever the context says.
func New(client redis.UniversalClient, prefix string) (*Store, error) {
	bounded := true
	switch c := client.(type) {
	case nil:
		return nil, errors.New("backoffredis: client is nil")
	case *redis.Client:
		bounded = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		bounded = c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		bounded = c.Options().ContextTimeoutEnabled
	}
	if !bounded {
		return nil, errors.New("backoffredis: the client's option ContextTimeoutEnabled is false, want true: calls of the store must end with their context")
	}
	if strings.ContainsAny(prefix, "{}") {
		return nil, fmt.Errorf("backoffredis: prefix is %q, want one without braces", prefix)
	}
	if prefix == "" {
		prefix = "backoff"
	}
	return &Store{client: client, prefix: prefix}, nil
}

// key makes the name of a key. What is between the braces decides about its slot, and is
// the same for all keys of a name.
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

func (s *Store) account(key string) []string {
	return []string{s.key(key, "blocks"), s.key(key, "tokens")}
}

func (s *Store) circuit(ctx context.Context, script *redis.Script, key string, args ...any) (fleet.Circuit, error) {
	v, err := script.Run(ctx, s.client, []string{s.key(key, "circuit")}, args...).Int64Slice()
	if err != nil {
		return fleet.Circuit{}, err
	}
	if len(v) != 6 {
		return fleet.Circuit{}, fmt.Errorf("backoffredis: the server's answer has %d numbers, want 6", len(v))
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

// millis rounds up: what is not nothing must not become nothing.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}
