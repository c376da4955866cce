//go:build integration

package redisstore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

// The test binary is also the program of a fleet's processes: with a task in
// the environment it runs as one of them.
func TestMain(m *testing.M) {
	if text := os.Getenv("FLEET_TASK"); text != "" {
		var task task
		if err := json.Unmarshal([]byte(text), &task); err != nil {
			panic(err)
		}
		_ = json.NewEncoder(os.Stdout).Encode(task.run())
		return
	}
	os.Exit(m.Run())
}

// task is what a process does until its standard input ends.
type task struct {
	Kind    string // "call", "compare" or "retry"
	Store   string // address; "": no fleet
	Service string // address
	Pause   time.Duration
	Open    time.Duration
	Lease   time.Duration
	Timeout time.Duration // of the store

	Allowance, Block int
	Window           time.Duration
}

// report is what a process has seen.
type report struct {
	Good    int
	Refused int      // by the breaker
	Failed  int      // by the service
	Strange []string // errors of any other kind
	Median  time.Duration
	Ratios  []float64   // compare: of the medians of a round with a fleet and without one
	Retries []time.Time // retry: when they were made
	Asked   int         // retry: how many were wanted
}

var errDown = errors.New("the service is down")

// dial returns an operation that calls the service, on a connection of its own.
func dial(addr string) func(context.Context) error {
	var conn net.Conn
	return func(context.Context) (err error) {
		if conn == nil {
			if conn, err = net.Dial("tcp", addr); err != nil {
				return err
			}
		}
		answer := []byte{0}
		if _, err = conn.Write([]byte("?")); err == nil {
			_, err = io.ReadFull(conn, answer)
		}
		if err != nil {
			conn.Close()
			conn = nil
			return err
		}
		if answer[0] != 'y' {
			return errDown
		}
		return nil
	}
}

func (t *task) hub() *fleet.Client {
	if t.Store == "" {
		return nil
	}
	store, err := New(redis.NewClient(&redis.Options{Addr: t.Store, ContextTimeoutEnabled: true}), "")
	if err != nil {
		panic(err)
	}
	return &fleet.Client{Store: store, Timeout: t.Timeout}
}

func (t *task) breaker(hub *fleet.Client) *backoff.Breaker {
	b := &backoff.Breaker{Name: "service", ConsecutiveFailures: 3, ConsecutiveSpan: -1, OpenFor: backoff.Constant(t.Open), ProbeTimeout: t.Lease}
	if hub != nil {
		b.Shared = hub
	}
	return b
}

func (t *task) run() report {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	hub := t.hub()
	if hub != nil {
		defer hub.Close(context.Background())
	}
	var r report
	switch t.Kind {
	case "call":
		t.call(hub, ended, &r)
	case "compare":
		t.compare(hub, &r)
	case "retry":
		t.retry(hub, ended, &r)
	}
	return r
}

// call calls the service all the time.
func (t *task) call(hub *fleet.Client, ended chan struct{}, r *report) {
	b, op := t.breaker(hub), dial(t.Service)
	var took []time.Duration
	for {
		select {
		case <-ended:
			slices.Sort(took)
			if len(took) > 0 {
				r.Median = took[len(took)/2]
			}
			return
		case <-time.After(t.Pause):
		}
		began := time.Now()
		err := b.Do(context.Background(), op)
		switch {
		case err == nil:
			r.Good++
			took = append(took, time.Since(began))
		case errors.Is(err, backoff.ErrOpen):
			r.Refused++
		case errors.Is(err, errDown):
			r.Failed++
		default:
			r.Strange = append(r.Strange, err.Error())
		}
	}
}

// compare calls in turn with a fleet and without one.
func (t *task) compare(hub *fleet.Client, r *report) {
	with, without, op := t.breaker(hub), t.breaker(nil), dial(t.Service)
	median := func(b *backoff.Breaker) time.Duration {
		var took []time.Duration
		for range 300 {
			began := time.Now()
			if err := b.Do(context.Background(), op); err != nil {
				r.Strange = append(r.Strange, err.Error())
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	for range 41 {
		a, b := median(with), median(without)
		r.Ratios = append(r.Ratios, float64(a)/float64(b))
	}
}

// retry makes calls that fail, from several goroutines.
func (t *task) retry(hub *fleet.Client, ended chan struct{}, r *report) {
	var mu sync.Mutex
	counted := &counting{Budget: &fleet.Budget{
		Client: hub, Name: "service", Allowance: t.Allowance, Window: t.Window, Block: t.Block,
	}}
	p := backoff.Policy{Schedule: backoff.Constant(20 * time.Millisecond), Budget: counted}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(t.Pause):
				}
				first := true
				err := p.Do(context.Background(), func(context.Context) error {
					if !first {
						mu.Lock()
						r.Retries = append(r.Retries, time.Now())
						mu.Unlock()
					}
					first = false
					return errDown
				})
				if !errors.Is(err, errDown) {
					mu.Lock()
					r.Strange = append(r.Strange, err.Error())
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	r.Asked = int(counted.asked.Load())
}

// counting counts the retries that were asked for.
type counting struct {
	backoff.Budget
	asked atomic.Int64
}

func (c *counting) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if !a.First() {
		c.asked.Add(1)
	}
	return c.Budget.Reserve(a)
}

// process is a running process.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
}

// launch starts n processes with the same task.
func launch(t testing.TB, n int, task task) (all fleetOf) {
	text, err := json.Marshal(task)
	require.NoError(t, err)
	for range n {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FLEET_TASK="+string(text), "GOMAXPROCS=1")
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		all = append(all, &process{cmd, stdin, bufio.NewReader(stdout)})
	}
	return all
}

// fleetOf is the processes of a fleet.
type fleetOf []*process

// end ends all processes, and returns their reports. None of them may report
// anything unexpected.
func (f fleetOf) end(t testing.TB) (reports []report) {
	for _, p := range f {
		require.NoError(t, p.stdin.Close())
	}
	for _, p := range f {
		var r report
		require.NoError(t, json.NewDecoder(p.out).Decode(&r))
		require.NoError(t, p.cmd.Wait())
		require.Empty(t, r.Strange)
		reports = append(reports, r)
	}
	return reports
}

// service is a server that answers every call, or none.
type service struct {
	addr     string
	down     atomic.Bool
	mute     atomic.Bool
	takes    atomic.Int64
	calls    atomic.Int64
	under    atomic.Int64 // way
	together atomic.Int64 // the most at one time, since it was set to 0
}

func serve(t testing.TB) *service {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	s := &service{addr: l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.talk(conn)
		}
	}()
	return s
}

func (s *service) talk(conn net.Conn) {
	defer conn.Close()
	question := []byte{0}
	for {
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		s.calls.Add(1)
		n := s.under.Add(1)
		for most := s.together.Load(); n > most && !s.together.CompareAndSwap(most, n); most = s.together.Load() {
		}
		time.Sleep(time.Duration(s.takes.Load()))
		mute := s.mute.Load()
		s.under.Add(-1)
		answer := "y"
		if s.down.Load() {
			answer = "n"
		}
		if mute {
			continue
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// private starts a server for this test, and returns a client and a store on
// it.
func private(t testing.TB) (*redis.Client, fleet.Store) {
	addr, _ := start(t)
	c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	s, err := New(c, "")
	require.NoError(t, err)
	return c, s
}

// scripts returns the number of calls of the store.
func scripts(t testing.TB, c *redis.Client) (n int) {
	info, err := c.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	if _, stat, ok := strings.Cut(info, "cmdstat_evalsha:"); ok {
		_, err = fmt.Sscanf(stat, "calls=%d", &n)
		require.NoError(t, err)
	}
	return n
}
