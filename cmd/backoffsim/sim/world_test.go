package sim

import (
	"math"
	"math/rand/v2"
	"time"

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
