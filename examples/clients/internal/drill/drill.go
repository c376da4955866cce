// Package drill gives an example a broker that fails at known points. It counts
// the example's numbered messages, and records the waits between its
// connections.
//
// The example publishes the numbers of [Drill.Numbers], and reports the
// messages that come back. After message 10 its connection is cut. After
// message 20 the broker restarts: the connection is cut, and [Refusals] new connections
// are refused. After message 30 the connection is cut again.
package drill

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

const (
	// Messages is how many messages there are, numbered from 1.
	Messages = 40
	// Refusals is how many connections the broker refuses while it restarts.
	Refusals = 4
	// Pace is the pause after every message.
	Pace = 50 * time.Millisecond
)

// A Drill is one run of an example. It is safe for concurrent use.
type Drill struct {
	proxy *fault.Proxy
	done  chan struct{}

	mu       sync.Mutex
	log      *journal.Journal // nil after Close
	due      int              // the number to publish next
	received map[int]int
	retries  []Retry
	outage   int // number of the retry at which the broker is back; 0 before it restarts
}

// A Retry is a connection that ended or could not be made, with the wait after
// it.
type Retry struct {
	Attempt int           // since the schedule began
	Delay   time.Duration // of the schedule; 0 where only the wait is known
	Wait    time.Duration // that followed
	At      time.Time     // the end of the connection
}

// Start starts a drill with the broker at an address, and writes what happens
// to out.
func Start(out io.Writer, broker string) (*Drill, error) {
	conn, err := net.Dial("tcp", broker)
	if err != nil {
		return nil, fmt.Errorf("%w (compose.yaml starts the brokers)", err)
	}
	conn.Close()
	proxy, err := new(fault.Injector).Proxy(broker)
	if err != nil {
		return nil, err
	}
	return &Drill{
		proxy:    proxy,
		log:      journal.New(out),
		due:      1,
		done:     make(chan struct{}),
		received: make(map[int]int),
	}, nil
}

// Addr is the address at which the example reaches the broker.
func (d *Drill) Addr() string { return d.proxy.Addr() }

// Close ends the drill and its connections. After it nothing more is written.
func (d *Drill) Close() {
	d.proxy.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = nil
}

// Done is closed when every message has come back.
func (d *Drill) Done() <-chan struct{} { return d.done }

// Context returns a context that ends when ctx ends or the drill is done.
func (d *Drill) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-d.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Numbers yields the numbers to publish, until none is left or ctx ends. If the
// body of the loop ends normally, the message counts as published. If the body
// leaves the loop, the next loop starts with the same number.
func (d *Drill) Numbers(ctx context.Context) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; d.due <= Messages && ctx.Err() == nil; d.due++ {
			if !yield(d.due) {
				return
			}
			select {
			case <-time.After(Pace):
			case <-ctx.Done():
			}
		}
	}
}

// Received records that a message has come back, and makes the failure happen
// that is due after it. It does not block.
func (d *Drill) Received(body string) {
	n, err := strconv.Atoi(body)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.received[n]++
	if d.received[n] > 1 {
		return // a message without a confirm is published again, and may have arrived twice
	}
	if n%10 == 0 {
		d.say("message %d came back", n)
	}
	switch n {
	case 10, 30:
		d.say("-- the connection is cut")
		d.proxy.Cut()
	case 20:
		d.say("-- the broker restarts")
		d.outage = len(d.retries) + 1 + Refusals
		d.proxy.Refuse()
		d.proxy.Cut()
	}
	if len(d.received) == Messages {
		close(d.done)
	}
}

// retry records a wait. The broker is back when the one after its last refusal begins.
func (d *Drill) retry(r Retry) {
	r.At = time.Now()
	if d.retries = append(d.retries, r); len(d.retries) == d.outage {
		d.restore()
	}
}

func (d *Drill) restore() {
	if err := d.proxy.Restore(); err != nil {
		d.say("-- the broker does not come back: %v", err)
		return
	}
	d.say("-- the broker is back")
}

// Observe is a [backoff.Observer]. It writes retries and reconnects, and records
// the reconnects.
func (d *Drill) Observe(ctx context.Context, e backoff.Event) {
	if e.Kind != backoff.EventReconnect && e.Kind != backoff.EventRetry {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.log != nil {
		d.log.Observe(ctx, e)
	}
	if e.Kind == backoff.EventReconnect {
		d.retry(Retry{Attempt: e.Attempt, Delay: e.Delay, Wait: e.Wait})
	}
}

// Delay records the waits of a client that has its own reconnect loop.
func (d *Drill) Delay(delay func(int) time.Duration) func(int) time.Duration {
	return func(retry int) time.Duration {
		wait := delay(retry)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.say("not connected; attempt %d in %v", retry, journal.Round(wait))
		d.retry(Retry{Attempt: retry, Wait: wait})
		return wait
	}
}

// Say writes an event of the example.
func (d *Drill) Say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.say(format, args...)
}

func (d *Drill) say(format string, args ...any) {
	if d.log != nil {
		d.log.Say(format, args...)
	}
}

// A Report is the result of a drill.
type Report struct {
	Received    int // different messages that came back
	Repeated    int // messages that came back another time
	Connections int // that were accepted
	Retries     []Retry
}

// Report returns the result so far, and writes it.
func (d *Drill) Report() Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := Report{Received: len(d.received), Connections: d.proxy.Connections(), Retries: d.retries}
	for _, times := range d.received {
		r.Repeated += times - 1
	}
	d.say("in all: %d of %d messages came back, %d of them more than once; %s, %s",
		r.Received, Messages, r.Repeated, journal.Count(r.Connections, "connection"), journal.Count(len(r.Retries), "wait"))
	return r
}
