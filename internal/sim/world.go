package sim

import (
	"errors"
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/timeouts"
	"github.com/gobackoff/backoff/limit"
)

// A world is one run of one client in a scenario.
type world struct {
	*engine
	*tally
	scenario  *Scenario
	service   Service
	processes [][]process // of each layer
	layers    int
	timeout   time.Duration
	delayed   bool
	free      []*call // ended, to be used again
}

// A process is what its calls share.
type process struct {
	policy   *backoff.Policy
	breaker  *backoff.Breaker
	hedge    *backoff.Hedge
	timeout  backoff.Schedule
	guard    Guard
	unmarked bool
}

// errStill is returned where a simulation does not get on.
var errStill = errors.New("calls are repeated without end at the same instant: the service answers at once, and nothing limits or delays the attempts")

// simulate runs a client once.
func simulate(s *Scenario, c Client, v Service, seed uint64) (*tally, error) {
	w := &world{engine: newEngine(seed), scenario: s, service: v, layers: s.layers(), timeout: s.Timeout}
	w.tally = newTally(s, w.engine)
	w.delayed = s.Delay > 0 || s.DelaySD > 0
	var err error
	moved := w.drive(s.Horizon, func() {
		if err = w.hire(c); err == nil {
			w.invite()
		}
	})
	if err == nil && !moved {
		err = errStill
	}
	return w.tally, err
}

// hire makes the processes.
func (w *world) hire(c Client) error {
	for layer := range w.layers {
		staff := make([]process, max(1, w.scenario.Processes))
		for i := range staff {
			place := Place{Layer: layer + 1, Layers: w.layers, Rand: w.rand.Float64}
			if err := w.equip(&staff[i], c.New(place), place); err != nil {
				return err
			}
		}
		w.processes = append(w.processes, staff)
	}
	return nil
}

func (w *world) equip(p *process, made Process, at Place) error {
	policy := made.Policy
	p.timeout = timeouts.Of(&policy)
	timeouts.Remove(&policy)
	if err := made.Policy.Validate(); err != nil {
		return err
	}
	if policy.Rand == nil {
		policy.Rand = w.rand.Float64
	}
	switch t := policy.Budget.(type) {
	case *limit.Throttle:
		if t.Rand == nil {
			t.Rand = w.rand.Float64
		}
	case *ClassicThrottle:
		t.Rand = w.rand.Float64
	}
	if b := made.Breaker; b != nil {
		if err := b.Validate(); err != nil {
			return err
		}
		if b.Rand == nil {
			b.Rand = w.rand.Float64
		}
	}
	if made.Hedge != nil {
		if err := checkHedge(made.Hedge, at); err != nil {
			return err
		}
	}
	p.policy, p.breaker, p.guard, p.unmarked, p.hedge = &policy, made.Breaker, made.Guard, made.Unmarked, made.Hedge
	return nil
}

func (w *world) pick(layer int) *process {
	staff := w.processes[layer]
	if len(staff) == 1 {
		return &staff[0]
	}
	return &staff[w.rand.IntN(len(staff))]
}

func (w *world) take() *call {
	if n := len(w.free); n > 0 {
		c := w.free[n-1]
		w.free = w.free[:n-1]
		return c
	}
	c := &call{world: w}
	c.ctx.engine = w.engine
	c.ctx.Context = background
	return c
}

// transit draws how long the network takes, one way.
func (w *world) transit() time.Duration {
	s := w.scenario
	return time.Duration(math.Abs(float64(s.Delay) + float64(s.DelaySD)*w.work.NormFloat64()))
}

// dial begins a call of a user.
func (w *world) dial() {
	w.dialled()
	end := forever
	if w.scenario.Deadline > 0 {
		end = w.now + w.scenario.Deadline
	}
	w.begin(0, nil, end)
}

// ended counts a call of a user that has ended, and lets him think of the next.
func (w *world) ended(c *call, err error) {
	if err == nil {
		w.won(c.began)
	} else {
		w.fell(err)
	}
	if w.scenario.Users > 0 {
		w.think()
	}
}
