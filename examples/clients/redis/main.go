// Command redis makes calls with go-redis under [backoff.Policy.Do]. Watch one
// call succeed at the fifth attempt, after failures as of a Redis server that
// restarts, fails over and moves data; and another one end at once, with
// WRONGTYPE.
//
// The client's own retries are switched off, because they have no budget and no
// classes. A classifier sorts the client's errors. The failures are answers of
// a real server, which a script makes.
//
// It needs a server on 127.0.0.1:6379. In the root of the repository:
//
//	docker compose up --detach --wait redis
//	go run -C examples/clients ./redis
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

const server = "127.0.0.1:6379"

var policy = backoff.Policy{
	Name:           "count",
	MaxAttempts:    6,
	AttemptTimeout: 2 * time.Second,
	Schedule:       backoff.Exponential{Initial: 20 * time.Millisecond, Max: time.Second},
	Classify:       classify,
}

// classify lists which answers of a server are transient. All other answers are
// permanent. Errors that are not answers, such as a lost connection, are left
// to the library.
func classify(err error) backoff.Class {
	var answer redis.Error
	_, moved := redis.IsMovedError(err)
	switch {
	case !errors.As(err, &answer): // redis.Nil is an answer, too
		return backoff.ClassUnknown
	case redis.IsLoadingError(err), redis.IsReadOnlyError(err), redis.IsMasterDownError(err),
		redis.IsClusterDownError(err), redis.IsTryAgainError(err), moved:
		return backoff.ClassRetryable
	case redis.IsMaxClientsError(err):
		return backoff.ClassThrottled
	}
	return backoff.ClassPermanent
}

func main() {
	journal.Main(func(ctx context.Context, out io.Writer) error { return run(ctx, out, policy) })
}

// A store is a client that follows MOVED to another server.
type store struct{ *redis.Client }

func open(addr string) *store {
	return &store{redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})}
}

// follow connects to the server that MOVED names.
func (s *store) follow(err error) {
	if addr, moved := redis.IsMovedError(err); moved {
		s.Close()
		s.Client = open(addr).Client
	}
}

// The script answers its first calls with the errors in ARGV, and then with the
// number of its calls.
const script = `
local n = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], 60)
if ARGV[n] then return redis.error_reply(ARGV[n]) end
return n`

func run(ctx context.Context, out io.Writer, policy backoff.Policy) error {
	proxy, err := new(fault.Injector).Proxy(server)
	if err != nil {
		return err
	}
	defer proxy.Close()
	s := open(proxy.Addr())
	defer func() { s.Close() }()
	if err := s.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%w (compose.yaml starts the server)", err)
	}
	log := journal.New(out)
	defer log.Sum()
	policy.Observer = func(ctx context.Context, e backoff.Event) {
		proxy.SetPlan(nil) // from now on the network works
		log.Observe(ctx, e)
	}

	key := fmt.Sprintf("example:%d", time.Now().UnixNano())
	proxy.SetPlan(func(fault.Attempt) fault.Fault { return fault.Lost() }) // the first call is made, but its answer is lost
	n, err := backoff.DoValue(ctx, policy, func(ctx context.Context) (int64, error) {
		n, err := s.Eval(ctx, script, []string{key}, "", // for the call whose answer is lost
			"LOADING Redis is loading the dataset in memory",
			"READONLY You can't write against a read only replica.",
			"MOVED 3999 "+server).Int64()
		s.follow(err)
		return n, err
	})
	if err != nil {
		return err
	}
	log.Say("the server was called %d times, and is at %s", n, s.Options().Addr)

	err = policy.Do(ctx, func(ctx context.Context) error { return s.LPush(ctx, key, "x").Err() })
	if !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("a list is no number: %w", err)
	}
	return nil
}
