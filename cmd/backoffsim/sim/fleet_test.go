package sim

import (
	"math/rand/v2"
	"time"

	"github.com/gobackoff/backoff"
)

// A Fleet is a number of processes that share a load, each with the same policy
// and a budget of its own. A Fleet runs once, against a service of any kind,
// and returns only counts: it is for tests of budgets.
type Fleet struct {
	Processes int
	Policy    backoff.Policy
	Budget    func() backoff.Budget
	Rate      float64
	Every     time.Duration
	Timeout   time.Duration
}

// A Second counts what happened in one second of a simulation.
type Second struct {
	Calls    int // started
	Attempts int // sent
	Good     int // calls that succeeded
	Lost     int // calls that failed
	Refused  int // calls that failed because the budget refused a retry
	Asked    int // retries that the budget was asked for
}

// Run simulates the fleet calling v until the horizon, and returns the counts
// of each second. It panics if the policy is invalid.
func (f Fleet) Run(seed uint64, v Service, horizon time.Duration) []Second {
	s := &Scenario{Rate: f.Rate, Every: f.Every, Processes: f.Processes, Timeout: f.Timeout, Horizon: horizon}
	t, err := simulate(s, NewClient("fleet", f.Policy, f.Budget, nil), v, seed)
	if err != nil {
		panic(err)
	}
	seconds := make([]Second, len(t.seconds))
	for i, n := range t.seconds {
		seconds[i] = Second{Calls: n.calls, Attempts: t.hops[0][i], Good: n.good, Lost: n.lost, Refused: n.refused, Asked: n.asked}
	}
	return seconds
}

// Faulty is a service that succeeds at once, or fails after Latency.
type Faulty struct {
	// Failing is the probability of a failure at a time.
	Failing func(at time.Duration) float64
	// Latency is how long a failure takes.
	Latency time.Duration
}

// Serve implements [Service].
func (s *Faulty) Serve(now, _ time.Duration, r *rand.Rand) (time.Duration, error) {
	if r.Float64() < s.Failing(now) {
		return s.Latency, ErrFault
	}
	return 0, nil
}

// Always returns a constant probability for [Faulty].
func Always(p float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return p }
}

// Within returns a probability for [Faulty] that is p from one time to another,
// and 0 otherwise.
func Within(from, to time.Duration, p float64) func(time.Duration) float64 {
	return func(at time.Duration) float64 {
		if at >= from && at < to {
			return p
		}
		return 0
	}
}

// Total returns the sum of the counts.
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

// ClosedDip is Dip with users who think for the given mean time between calls.
// There are as many users as make about 800 calls a second.
func ClosedDip(think time.Duration) Scenario {
	s := Dip()
	s.Name, s.Rate, s.Think = "closed dip", 0, think
	s.Users = int(800 * (think.Seconds() + 0.005)) // a call takes 5 ms before the dip
	return s
}

// Lying returns Dip with a server that answers "too much" when it is overloaded:
// when 200 attempts wait. A rejection costs it 0.3 of the work for an attempt.
func Lying() Scenario {
	s := Dip()
	s.Name = "lying"
	s.Server.Limit, s.Server.RejectCost, s.Server.Throttles = 200, 0.3, true
	return s
}
