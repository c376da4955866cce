package sim

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/gobackoff/backoff"
)

// OCC is the model behind the figures of Brooker, "Exponential Backoff And Jitter", AWS
// Architecture Blog, 2015: clients that each want to update one version on one server,
// once, and read it again after every conflict. Nothing is limited but by conflict.
type OCC struct {
	Strategy string
	Clients  int
	// Calls is the writes that reached the server, and Seconds the time until the last client
	// knew of his success.
	Calls, Seconds Figure
}

// RunOCC runs every client's policy with each number of clients, and returns a cell for each,
// policy by policy. The budget and the breaker of a client are left out.
func RunOCC(clients []Client, counts []int, o Options) ([]OCC, error) {
	seeds := o.Seeds
	if seeds <= 0 {
		seeds = 100
	}
	var cells []OCC
	for _, c := range clients {
		for _, n := range counts {
			cell, err := contend(c, n, o.First, seeds)
			if err != nil {
				return nil, err
			}
			cells = append(cells, cell)
			if o.Progress != nil {
				o.Progress(len(cells), len(clients)*len(counts))
			}
		}
	}
	return cells, nil
}

// OCCReferences are the five strategies: base 5 ms, cap 2 s, and as many attempts as it takes. The
// first wait is 10 ms, because the original raises its count before it uses it.
func OCCReferences() []Client {
	strategy := func(name string, s backoff.Schedule, j backoff.Jitter) Client {
		return Under(name, backoff.Policy{MaxAttempts: -1, Schedule: s, Jitter: j}, nil, nil)
	}
	growing := backoff.Exponential{Initial: 10 * time.Millisecond, Max: 2 * time.Second}
	return []Client{
		strategy("none", backoff.Constant(0), backoff.NoJitter),
		strategy("exponential", growing, backoff.NoJitter),
		strategy("equal", growing, backoff.EqualJitter),
		strategy("full", growing, backoff.FullJitter),
		strategy("decorrelated", growing, backoff.DecorrelatedJitter(5*time.Millisecond, 2*time.Second)),
	}
}

func contend(c Client, clients int, seed uint64, seeds int) (OCC, error) {
	var calls, took sample
	for n := range seeds {
		e := newEngine(seed + uint64(n))
		policy := c.New(Place{Layer: 1, Layers: 1, Rand: e.rand.Float64}).Policy
		policy.Rand, policy.Budget = e.rand.Float64, nil
		if err := policy.Validate(); err != nil {
			return OCC{}, err
		}
		r := &record{engine: e}
		e.drive(24*time.Hour, func() {
			for range clients {
				(&writer{record: r, run: policy.Start(context.Background())}).begin()
			}
		})
		calls.add(float64(r.calls))
		took.add(e.now.Seconds())
	}
	return OCC{Strategy: c.Name, Clients: clients, Calls: calls.figure(), Seconds: took.figure()}, nil
}

// record is what is contended for.
type record struct {
	*engine
	version, calls int
}

// leg draws how long a message is on its way.
func (r *record) leg() time.Duration {
	return time.Duration(math.Abs(float64(10*time.Millisecond) + float64(2*time.Millisecond)*r.work.NormFloat64()))
}

// A writer is a client.
type writer struct {
	*record
	run     *backoff.Run
	carried int // the version he read
	ok      bool
}

// What happens to a writer.
const (
	reading = iota
	writing
	told
)

var errConflict = errors.New("simulated conflict")

func (w *writer) begin() {
	w.run.Begin(0)
	w.after(w.leg(), w, reading)
}

func (w *writer) happen(what int) {
	switch what {
	case reading:
		w.carried = w.version
		w.after(w.leg()+w.leg(), w, writing)
	case writing:
		w.calls++
		if w.ok = w.carried == w.version; w.ok {
			w.version++
		}
		w.after(w.leg(), w, told)
	default:
		w.hear()
	}
}

// hear is when the writer learns what became of his write.
func (w *writer) hear() {
	if w.ok {
		w.run.Retry(nil)
		return
	}
	if pause, again := w.run.Retry(errConflict); again {
		w.run.Begin(0)
		w.after(w.leg()+pause, w, reading)
	}
}
