package sim

import (
	"cmp"
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/timeouts"
	"github.com/gobackoff/backoff/limit"
)

// A simulation is one run of one client in a scenario.
type simulation struct {
	*engine
	*tally
	scenario  *Scenario
	service   Service
	processes [][]process // by layer
	layers    int
	timeout   time.Duration
	delayed   bool    // the network takes time
	thought   int     // calls that users have thought of, if they have only so many to make
	calls     []*call // all that were made
	freeCalls []*call // finished, to be used again
}

// A process holds the objects that its calls share.
type process struct {
	policy   *backoff.Policy
	paced    *pacedBudget // the policy's budget, if it has one
	breaker  *backoff.Breaker
	hedge    *hedge.Hedge
	timeout  backoff.Schedule // of each attempt
	guard    Guard
	unmarked bool
}

// simulate runs a client once.
func simulate(s *Scenario, c Client, v Service, seed uint64) (*tally, error) {
	w := &simulation{engine: newEngine(seed), scenario: s, service: v, layers: s.layers(), timeout: s.Timeout}
	w.tally = newTally(s, w.engine)
	w.delayed = s.Delay > 0 || s.DelaySD > 0
	var invalid error
	err := w.run(s.Horizon, func() {
		if invalid = w.makeProcesses(c); invalid == nil {
			w.startTraffic()
		}
	})
	err = cmp.Or(invalid, err)
	for _, c := range w.calls {
		if c.underWay && c.parent == nil {
			w.countUnanswered(c.began, s.Horizon)
		}
	}
	return w.tally, err
}

// makeProcesses makes the processes of all layers.
func (w *simulation) makeProcesses(c Client) error {
	for layer := range w.layers {
		processes := make([]process, max(1, w.scenario.Processes))
		for i := range processes {
			env := Environment{Layer: layer + 1, Layers: w.layers, Rand: w.rand.Float64}
			if err := w.prepare(&processes[i], c.New(env), env); err != nil {
				return err
			}
		}
		w.processes = append(w.processes, processes)
	}
	return nil
}

// prepare checks the objects that a client has made, gives them the
// simulation's source of random numbers, and puts them into p.
func (w *simulation) prepare(p *process, made Process, env Environment) error {
	if err := made.validate(env); err != nil {
		return err
	}
	policy := made.Policy
	p.timeout = timeouts.Of(&policy)
	timeouts.Remove(&policy)
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
	if b := policy.Budget; b != nil {
		p.paced = &pacedBudget{Budget: b, held: make(map[uint64]*reservation)}
		policy.Budget = p.paced
	}
	if b := made.Breaker; b != nil && b.Rand == nil {
		b.Rand = w.rand.Float64
	}
	p.policy, p.breaker, p.guard, p.unmarked, p.hedge = &policy, made.Breaker, made.Guard, made.Unmarked, made.Hedge
	return nil
}

// validate returns what is wrong with the objects of a process.
func (p *Process) validate(env Environment) error {
	if err := p.Policy.Validate(); err != nil {
		return err
	}
	if p.Breaker != nil {
		if err := p.Breaker.Validate(); err != nil {
			return err
		}
	}
	if p.Hedge != nil {
		return validateHedge(p.Hedge, env)
	}
	return nil
}

// randomProcess picks the process that makes a call in a layer.
func (w *simulation) randomProcess(layer int) *process {
	processes := w.processes[layer]
	if len(processes) == 1 {
		return &processes[0]
	}
	return &processes[w.rand.IntN(len(processes))]
}

// newCall returns an unused call.
func (w *simulation) newCall() *call {
	if n := len(w.freeCalls); n > 0 {
		c := w.freeCalls[n-1]
		w.freeCalls = w.freeCalls[:n-1]
		return c
	}
	c := &call{simulation: w, ctx: callContext{Context: background, engine: w.engine}}
	w.calls = append(w.calls, c)
	return c
}

// networkDelay draws how long a message takes one way.
func (w *simulation) networkDelay() time.Duration {
	s := w.scenario
	return time.Duration(math.Abs(float64(s.Delay) + float64(s.DelaySD)*w.work.NormFloat64()))
}

// startUserCall begins a call of a user.
func (w *simulation) startUserCall() {
	w.countCall()
	end := forever
	if w.scenario.Deadline > 0 {
		end = w.now + w.scenario.Deadline
	}
	w.startCall(0, nil, end)
}

// finishUserCall counts a call of a user that has ended. In a closed loop the
// user then thinks before the next call.
func (w *simulation) finishUserCall(c *call, err error) {
	if err == nil {
		w.countSuccess(c.began)
	} else {
		w.countFailure(c.began, err)
	}
	if w.scenario.Users > 0 {
		w.think()
	}
}
