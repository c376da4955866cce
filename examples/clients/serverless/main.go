// Command serverless runs 1,000 processes that live for one call each, against
// a service that is dead, three times over: with a policy alone, with a breaker
// of their own, and with one that hears from the others by way of Redis. It
// prints how many attempts reached the service.
//
// A process that makes one call learns nothing of use to itself: its breaker
// can save it the fourth attempt, and that is all. What the first few of them
// found out spares the others all of theirs, and most of their time.
//
// It needs a server on 127.0.0.1:6379. In the root of the repository:
//
//	docker compose up --detach --wait redis
//	go run -C examples/clients ./serverless
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffredis"
	"github.com/gobackoff/backoff/fleet"
)

const server = "127.0.0.1:6379"

// What a process is told, in its environment. With a service to call, it is one
// of the many.
const (
	envService = "SERVERLESS_SERVICE"
	envGuard   = "SERVERLESS_GUARD"
	envName    = "SERVERLESS_NAME" // of the circuit
)

func main() {
	if addr := os.Getenv(envService); addr != "" {
		handle(addr, os.Getenv(envGuard), os.Getenv(envName))
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout, 1000); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The ways to call the service.
const (
	alone  = "a policy alone"
	own    = "and a breaker of its own"
	shared = "and a shared hint"
)

// handle is the whole life of one of the many: it makes a call, and says how
// that went.
func handle(addr, guard, name string) {
	ctx := context.Background()
	policy := &backoff.Policy{Name: "search", Schedule: backoff.Exponential{Initial: 40 * time.Millisecond}}
	service := backoff.Stack(policy)
	if guard != alone {
		breaker := fleet.ServerlessBreaker(name, nil)
		if guard == shared {
			store, err := backoffredis.New(redis.NewClient(&redis.Options{Addr: server, ContextTimeoutEnabled: true}), "example")
			if err != nil {
				panic(err)
			}
			hub := fleet.Serverless(store)
			defer hub.Flush(ctx) // what it found out is for others
			breaker = fleet.ServerlessBreaker(name, hub)
		}
		service = backoff.Stack(policy, breaker)
	}
	began, attempts := time.Now(), 0
	_ = service.Do(ctx, func(context.Context) error {
		attempts++
		return ask(addr)
	})
	fmt.Println(attempts, time.Since(began).Microseconds())
}

// ask calls the service, which hangs up.
func ask(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

// dead is a service that counts its callers, and hangs up on them.
type dead struct {
	net.Listener
	attempts atomic.Int64
}

func (d *dead) serve() {
	for {
		conn, err := d.Accept()
		if err != nil {
			return
		}
		d.attempts.Add(1)
		conn.Close()
	}
}

func run(ctx context.Context, out io.Writer, processes int) error {
	if err := redis.NewClient(&redis.Options{Addr: server}).Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%w (compose.yaml starts the server)", err)
	}
	fmt.Fprintf(out, "%d processes of one call each, 16 at a time, and a dead service:\n\n", processes)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tattempts\tper call\tcalls with none\tmedian time\t")
	name := fmt.Sprintf("search %d", time.Now().UnixNano())
	for _, guard := range []string{alone, own, shared} {
		row, err := fleetOf(ctx, processes, guard, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%.3f\t%d\t%v\t\n", guard, row.attempts, float64(row.attempts)/float64(processes), row.spared, row.median)
	}
	return table.Flush()
}

// result is what came of the calls of a fleet.
type result struct {
	attempts int64
	spared   int // calls that were refused before their first attempt
	median   time.Duration
}

// fleetOf runs the processes, 16 at a time.
func fleetOf(ctx context.Context, processes int, guard, name string) (r result, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	service := &dead{Listener: l}
	go service.serve()
	defer l.Close()

	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	tokens := make(chan struct{}, 16)
	for range processes {
		tokens <- struct{}{}
		group.Go(func() {
			defer func() { <-tokens }()
			attempts, d, failed := life(ctx, l.Addr().String(), guard, name)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failed)
			took = append(took, d)
			if attempts == 0 && failed == nil {
				r.spared++
			}
		})
	}
	group.Wait()
	slices.Sort(took)
	r.attempts, r.median = service.attempts.Load(), took[len(took)/2].Round(100*time.Microsecond)
	return r, err
}

// life runs one process.
func life(ctx context.Context, service, guard, name string) (attempts int, took time.Duration, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), envService+"="+service, envGuard+"="+guard, envName+"="+name)
	answer, err := cmd.Output()
	if err != nil {
		return 0, 0, err
	}
	var us int64
	_, err = fmt.Sscan(string(answer), &attempts, &us)
	return attempts, time.Duration(us) * time.Microsecond, err
}
