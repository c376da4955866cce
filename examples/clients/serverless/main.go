// Command serverless runs 1,000 processes of one call each, with a service that
// is down. Watch the column attempts: with a policy alone, with a breaker in
// each process, and with breakers that share their state through Redis.
//
// A process that makes one call learns too late: its own breaker only saves the
// fourth attempt. With shared state, the first few processes save the others
// all their attempts, and most of their time.
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
	"github.com/gobackoff/backoff/contrib/fleet"
	"github.com/gobackoff/backoff/contrib/fleet/redisstore"
)

const server = "127.0.0.1:6379"

// The environment tells a process what to do. With envService set, it is one of
// the many processes.
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

// The ways to call the service, as the output names them.
const (
	alone  = "a policy alone"
	own    = "and a breaker of its own"
	shared = "and a shared breaker"
)

// handle is all that one of the many processes does: it makes a call, and
// prints the attempts and the time.
func handle(addr, guard, name string) {
	ctx := context.Background()
	policy := backoff.Policy{Name: "search", Schedule: backoff.Exponential{Initial: 40 * time.Millisecond}}
	attempts := 0
	call := func(context.Context) error {
		attempts++
		return ask(addr)
	}
	if guard != alone {
		breaker := fleet.ServerlessBreaker(name, nil)
		if guard == shared {
			store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: server, ContextTimeoutEnabled: true}), "example")
			if err != nil {
				panic(err)
			}
			hub := fleet.Serverless(store)
			defer hub.Flush(ctx) // tell the other processes what this one has learned
			breaker = fleet.ServerlessBreaker(name, hub)
		}
		call = breaker.Wrap(call)
	}
	began := time.Now()
	_ = policy.Do(ctx, call)
	fmt.Println(attempts, time.Since(began).Microseconds())
}

// ask calls the service, which closes the connection.
func ask(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

// A failingService counts its connections and closes them.
type failingService struct {
	net.Listener
	attempts atomic.Int64
}

func (d *failingService) serve() {
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
		row, err := runFleet(ctx, processes, guard, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%.3f\t%d\t%v\t\n", guard, row.attempts, float64(row.attempts)/float64(processes), row.spared, row.median)
	}
	return table.Flush()
}

// A result is the result of one fleet.
type result struct {
	attempts int64
	spared   int // calls that were refused before their first attempt
	median   time.Duration
}

// runFleet runs the processes, 16 at a time.
func runFleet(ctx context.Context, processes int, guard, name string) (r result, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	service := &failingService{Listener: l}
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
			attempts, d, failed := runProcess(ctx, l.Addr().String(), guard, name)
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

// runProcess runs one process.
func runProcess(ctx context.Context, service, guard, name string) (attempts int, took time.Duration, err error) {
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
