package sim

import (
	"errors"
	"math"
	"time"

	"github.com/gobackoff/backoff"
)

// OCC is a result of the model behind the figures of Brooker, "Exponential
// Backoff And Jitter", AWS Architecture Blog, 2015. Each client wants to update
// the same record on one server once, by optimistic concurrency control. After
// a conflict it reads the record again. The server has no other limit.
type OCC struct {
	Strategy string
	Clients  int
	// Calls is the number of writes that reached the server, and Seconds the
	// time until the last client learned that it had succeeded.
	Calls, Seconds Figure
}

// RunOCC runs the policy of every client with each number of contending
// clients. It returns a cell for each number, policy by policy. It ignores the
// budget and the breaker of a client.
func RunOCC(clients []Client, counts []int, o Options) ([]OCC, error) {
	seeds := o.Seeds
	if seeds <= 0 {
		seeds = 100
	}
	var cells []OCC
	for _, c := range clients {
		for _, n := range counts {
			cell, err := runOCC(c, n, o.First, seeds)
			if err != nil {
				return nil, err
			}
			cells = append(cells, cell)
		}
	}
	return cells, nil
}

// OCCReferences returns the five strategies of the article, with base 5 ms, cap
// 2 s, and no limit on attempts. The first wait is 10 ms, because the original
// program increments its count before it uses the count.
func OCCReferences() []Client {
	growing := backoff.Exponential{Initial: 10 * time.Millisecond, Max: 2 * time.Second}
	return []Client{
		strategy("none", backoff.Constant(0), backoff.NoJitter),
		strategy("exponential", growing, backoff.NoJitter),
		strategy("equal", growing, backoff.EqualJitter),
		strategy("full", growing, backoff.FullJitter),
		strategy("decorrelated", growing, backoff.DecorrelatedJitter(5*time.Millisecond, 2*time.Second)),
	}
}

// runOCC runs one policy with one number of clients.
func runOCC(c Client, clients int, seed uint64, seeds int) (OCC, error) {
	var calls, took sample
	for n := range seeds {
		e := newEngine(seed + uint64(n))
		policy := c.New(Environment{Layer: 1, Layers: 1, Rand: e.rand.Float64}).Policy
		policy.Rand, policy.Budget = e.rand.Float64, nil
		if err := policy.Validate(); err != nil {
			return OCC{}, err
		}
		r := &record{engine: e}
		e.run(24*time.Hour, func() {
			for range clients {
				(&writer{record: r, run: policy.Start(background)}).begin()
			}
		})
		calls.add(float64(r.calls))
		took.add(e.now.Seconds())
	}
	return OCC{Strategy: c.Name, Clients: clients, Calls: calls.figure(), Seconds: took.figure()}, nil
}

// A record is what the clients contend for.
type record struct {
	*engine
	version int
	calls   int // writes
}

// messageDelay draws how long a message takes.
func (r *record) messageDelay() time.Duration {
	return time.Duration(math.Abs(float64(10*time.Millisecond) + float64(2*time.Millisecond)*r.work.NormFloat64()))
}

// A writer is one of the contending clients.
type writer struct {
	*record
	run  *backoff.Run
	read int  // the version that it has read
	ok   bool // whether its last write succeeded
}

// The events of a writer.
const (
	reading = iota
	writing
	confirming
)

var errConflict = errors.New("simulated conflict")

func (w *writer) begin() {
	w.run.Begin(0)
	w.after(w.messageDelay(), w, reading)
}

func (w *writer) handle(kind int) {
	switch kind {
	case reading:
		w.read = w.version
		w.after(w.messageDelay()+w.messageDelay(), w, writing)
	case writing:
		w.calls++
		if w.ok = w.read == w.version; w.ok {
			w.version++
		}
		w.after(w.messageDelay(), w, confirming)
	default:
		w.finishWrite()
	}
}

// finishWrite handles the result of a write.
func (w *writer) finishWrite() {
	if w.ok {
		w.run.Retry(nil)
		return
	}
	if wait, again := w.run.Retry(errConflict); again {
		w.run.Begin(0)
		w.after(w.messageDelay()+wait, w, reading)
	}
}
