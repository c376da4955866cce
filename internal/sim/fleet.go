package sim

import (
	"context"
	"time"

	"github.com/gobackoff/backoff"
)

// A Fleet is a number of processes that share a load, each with a policy of its own.
type Fleet struct {
	Processes int
	Policy    backoff.Policy        // of each process; its Rand is the simulation's
	Budget    func() backoff.Budget // makes the budget of a process; nil: none
	Rate      float64               // calls per second, of the whole fleet, as a Poisson process
	Every     time.Duration         // instead of Rate: calls exactly this far apart
	Until     time.Duration         // no calls begin after this
}

// A Second counts what happened in one second of a simulation.
type Second struct {
	Calls    int // begun
	Attempts int // sent
	Good     int // calls that succeeded
	Lost     int // calls that failed
	Refused  int // of these, by the budget
	Asked    int // retries that the budget was asked for
}

// Run simulates fleet calling service for so long, and returns a count per second. The same seed
// gives the same numbers.
func (f Fleet) Run(seed uint64, service Service, horizon time.Duration) []Second {
	s := &simulation{fleet: f, service: service, seconds: make([]Second, int(horizon/time.Second)+1)}
	simulate(seed, horizon, func(e *engine) {
		s.engine = e
		s.hire()
		e.after(s.gap(), s, 0)
	})
	return s.seconds
}

type simulation struct {
	*engine
	fleet    Fleet
	service  Service
	policies []backoff.Policy
	seconds  []Second
}

// hire makes a policy for each process.
func (s *simulation) hire() {
	for range max(1, s.fleet.Processes) {
		p := s.fleet.Policy
		p.Rand = s.rand.Float64
		if s.fleet.Budget != nil {
			p.Budget = s.fleet.Budget()
		}
		s.policies = append(s.policies, p)
	}
}

func (s *simulation) gap() time.Duration {
	if s.fleet.Every > 0 {
		return s.fleet.Every
	}
	return s.exponential(time.Duration(float64(time.Second) / s.fleet.Rate))
}

func (s *simulation) second() *Second {
	return &s.seconds[min(int(s.now/time.Second), len(s.seconds)-1)]
}

// happen begins a call at one of the processes, and arranges for the next.
func (s *simulation) happen(int) {
	if s.fleet.Until == 0 || s.now < s.fleet.Until {
		s.after(s.gap(), s, 0)
	}
	s.second().Calls++
	c := &call{simulation: s, run: s.policies[s.rand.IntN(len(s.policies))].Start(context.Background())}
	c.proceed(c.run.Admit())
}

// A call is one logical operation of one client.
type call struct {
	*simulation
	run *backoff.Run
	err error // of the attempt under way
}

const (
	sending = iota
	answered
)

func (c *call) happen(what int) {
	if what == sending {
		c.send()
	} else {
		c.answer()
	}
}

// proceed does what the policy decided.
func (c *call) proceed(pause time.Duration, again bool) {
	switch {
	case !again:
		c.fail()
	case pause == 0:
		c.send()
	default:
		c.after(pause, c, sending)
	}
}

func (c *call) send() {
	c.second().Attempts++
	latency, err := c.service.Serve(c.now, c.rand.Float64(), c.rand.ExpFloat64())
	c.err = err
	c.after(latency, c, answered)
}

func (c *call) answer() {
	pause, again := c.run.Retry(c.err)
	if c.err == nil {
		c.second().Good++
		return
	}
	if again {
		c.second().Asked++
	}
	c.proceed(pause, again)
}

func (c *call) fail() {
	c.second().Lost++
	if e, ok := c.run.Err().(*backoff.Error); ok && e.Reason == backoff.ReasonBudget {
		c.second().Refused++
		c.second().Asked++
	}
}

// Total adds up seconds.
func Total(seconds []Second) Second {
	var sum Second
	for _, s := range seconds {
		sum.Calls += s.Calls
		sum.Attempts += s.Attempts
		sum.Good += s.Good
		sum.Lost += s.Lost
		sum.Refused += s.Refused
		sum.Asked += s.Asked
	}
	return sum
}

// Recovery returns how long after the second from it took until at least share of
// rate was answered per second, and stayed so for 5 seconds; -1 if it never did.
func Recovery(seconds []Second, from int, rate, share float64) time.Duration {
	for i := from; i+5 <= len(seconds); i++ {
		steady := true
		for _, s := range seconds[i : i+5] {
			steady = steady && float64(s.Good) >= rate*share
		}
		if steady {
			return time.Duration(i-from) * time.Second
		}
	}
	return -1
}
