package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// A world is a service, and the calls that are made to it.
type world struct {
	Scenario
	service Service // in place of the scenario's Server; nil for none
}

// success returns the share of the calls of a world that succeed, in percent,
// over some seeds. A limit of attempts of 0 is the default.
func (w world) success(processes, attempts int, budget func() backoff.Budget, seeds uint64) float64 {
	s := w.Scenario
	s.Processes = processes
	good, calls := 0, 0
	for seed := range seeds {
		service := w.service
		if service == nil {
			service = newServerState(s.Server, s.Fault)
		}
		t, err := simulate(&s, NewClient("", backoff.Policy{MaxAttempts: attempts}, budget, nil), service, seed+1)
		if err != nil {
			panic(err)
		}
		good, calls = good+t.good, calls+t.calls
	}
	return 100 * float64(good) / float64(calls)
}

// A roomy service answers any number of attempts at once.
type roomy struct {
	latency func(now time.Duration, r *rand.Rand) time.Duration
	errors  float64       // the share of attempts that fail
	failure time.Duration // after which they do; 0 means after the latency
	hung    float64       // the share that are never answered
	healthy time.Duration // at first; those calls do not count
}

// Serve implements [Service].
func (s roomy) Serve(now, _ time.Duration, r *rand.Rand) (time.Duration, error) {
	latency := s.latency(now, r)
	switch {
	case now < s.healthy:
		return latency, nil
	case r.Float64() < s.hung:
		return forever, nil
	case r.Float64() >= s.errors:
		return latency, nil
	case s.failure > 0:
		return s.failure, ErrFault
	}
	return latency, ErrFault
}

// always returns latencies of a distribution.
func always(d Distribution) func(time.Duration, *rand.Rand) time.Duration {
	return func(_ time.Duration, r *rand.Rand) time.Duration { return d.Draw(r) }
}

// around returns the log-normal distribution with a median and a sigma.
func around(median time.Duration, sigma float64) Distribution {
	mu := math.Log(median.Seconds())
	return Distribution{kind: shapeLogNormal, mean: seconds(math.Exp(mu + sigma*sigma/2)), mu: mu, sigma: sigma}
}

// slowly returns latencies of two kinds, of which a share is the slow one.
func slowly(quick, slow time.Duration, share float64) func(time.Duration, *rand.Rand) time.Duration {
	return func(_ time.Duration, r *rand.Rand) time.Duration {
		if r.Float64() < share {
			return slow
		}
		return quick
	}
}

// room returns a world of one process with so many calls a second, for an hour
// or some 20,000 calls.
func room(s roomy, rate float64) world {
	horizon := time.Duration(min(max(200, 20_000/rate), 3600)) * time.Second
	return world{Scenario{Rate: rate, Timeout: time.Second, From: s.healthy, To: horizon, Horizon: horizon}, s}
}

// warm is how long a world is well before its fault.
const warm = time.Minute

// failing returns a world in which a share of the attempts fails, after its full
// service, for 60 of the 90 seconds that count. load is that of first attempts.
func failing(s Server, errors, load float64) world {
	return world{Scenario: Scenario{
		Rate: load * s.Capacity(), Timeout: time.Second, Server: s,
		Fault: Fault{From: warm, For: time.Minute, Errors: errors},
		From:  warm - 15*time.Second, To: warm + 75*time.Second, Horizon: warm + 75*time.Second,
	}}
}

// shedding returns a world whose capacity falls for good, to less than the first
// attempts need, so that the server rejects what does not fit into its queue.
func shedding(s Server, queue int, cost, load float64, counts time.Duration) world {
	s.Limit, s.RejectCost = queue, cost
	return world{Scenario: Scenario{
		Rate: 0.8 * s.Capacity(), Timeout: time.Second, Server: s,
		Fault: Fault{From: warm, For: time.Hour, Capacity: 0.8 / load},
		From:  warm, To: warm + counts, Horizon: warm + counts,
	}}
}

// slowing returns a world whose capacity falls for ten seconds.
func slowing(s Server, load, capacity float64, timeout time.Duration) world {
	return world{Scenario: Scenario{
		Rate: load * s.Capacity(), Timeout: timeout, Server: s,
		Fault: Fault{From: warm, For: 10 * time.Second, Capacity: capacity},
		From:  warm, To: warm + 210*time.Second, Horizon: warm + 210*time.Second,
	}}
}

// A want is a figure of the reference, over a number of seeds.
type want struct {
	mean, se float64
	seeds    int
}

// agree requires that a figure over a number of seeds agrees with the reference
// within the standard errors, 2 % and slack.
func agree(t *testing.T, w want, got Figure, seeds int, slack float64, what string, args ...any) {
	t.Helper()
	se := max(got.SE, w.se*math.Sqrt(float64(w.seeds)/float64(seeds)))
	require.InDelta(t, w.mean, got.Mean, 3*math.Hypot(se, w.se)+0.02*math.Abs(w.mean)+slack, fmt.Sprintf(what, args...))
}

// run simulates clients that must be valid.
func run(t *testing.T, s Scenario, seeds int, clients ...Client) []Result {
	t.Helper()
	results, err := Compare(s, clients, Options{Seeds: seeds})
	require.NoError(t, err)
	return results
}

// named returns the client with a name.
func named(t *testing.T, clients []Client, name string) Client {
	t.Helper()
	i := slices.IndexFunc(clients, func(c Client) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, "no client %q", name)
	return clients[i]
}

// capped returns a function that makes a copy of b for each process.
func capped(b *TokenBucket) func() backoff.Budget {
	return func() backoff.Budget { made := *b; return &made }
}

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
