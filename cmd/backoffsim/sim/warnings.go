package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/preview"
	"github.com/gobackoff/backoff/internal/timeouts"
	"github.com/gobackoff/backoff/presets"
)

// Warnings returns a line for each problem of a client in a scenario that can
// be found without a simulation. [ServiceWarnings] has the problems that do not
// depend on the client.
func Warnings(s Scenario, c Client) []string {
	w := warner{scenario: &s}
	env := Environment{Layer: s.layers(), Layers: s.layers(), Rand: rand.New(rand.NewPCG(1, 1)).Float64}
	w.process = c.New(env)
	w.allowance = allowanceOf(&w.process)
	w.checkOverload()
	w.checkFleet()
	w.checkFirstWait()
	w.checkLayers(c, env)
	w.checkBreaker()
	if timeout := w.timeout(); timeout != s.Timeout {
		w.checkQueue(timeout)
	}
	return w.lines
}

// ServiceWarnings returns a line for each problem of the service and its
// traffic that can be found without a simulation and does not depend on the
// client.
func ServiceWarnings(s Scenario) []string {
	w := warner{scenario: &s}
	if capacity := s.Server.Capacity(); !s.Failed && !math.IsInf(capacity, 1) && s.load() >= capacity {
		w.warn("the load is %s %% of capacity without any retry", amount(100*s.load()/capacity))
	}
	w.checkQueue(s.Timeout)
	return w.lines
}

// amount formats a number with three digits, or with all digits before the
// point.
func amount(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// A warner collects warnings.
type warner struct {
	scenario  *Scenario
	process   Process // of the layer that calls the service
	allowance allowance
	lines     []string
}

func (w *warner) warn(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// checkOverload warns if retries alone can keep the service overloaded.
func (w *warner) checkOverload() {
	s, f := w.scenario, w.allowance
	capacity := s.Server.Capacity()
	load := s.load() / capacity
	if math.IsInf(capacity, 1) || !f.known || w.process.Breaker != nil || load >= 1 {
		return
	}
	if total := load * (1 + f.ratio); total >= 1 && f.ratio > 0 {
		w.warn("a load of %s %% x (1 + %s retries per call) = %s %% of capacity: an outage that is long enough does not end", amount(100*load), amount(f.ratio), amount(100*total))
	}
}

// checkFleet warns if the retries that all processes may make at the same time
// exceed the spare capacity.
func (w *warner) checkFleet() {
	s, f := w.scenario, w.allowance
	n, spare := float64(max(1, s.Processes)), s.Server.Capacity()-s.load()
	if math.IsInf(spare, 1) || spare <= 0 {
		return
	}
	if floor := n * f.floor; floor > 0 && floor >= spare {
		w.warn("its budget always grants some: %s processes x %s retries per second = %s per second, and %s are spare", amount(n), amount(f.floor), amount(floor), amount(spare))
	}
	if reserve := n * f.reserve; reserve >= 60*spare {
		w.warn("its budget saves some up: %s processes x %s retries = %s attempts, a minute or more of the %s per second that are spare", amount(n), amount(f.reserve), amount(reserve), amount(spare))
	}
}

// checkFirstWait warns if calls that fail together come back too close
// together.
func (w *warner) checkFirstWait() {
	s := w.scenario
	herd := s.Users
	for _, a := range s.Trace {
		if a.For == 0 {
			herd = max(herd, a.Count)
		}
	}
	policy := w.process.Policy
	if herd < 2 || policy.MaxAttempts == 1 {
		return
	}
	first := preview.Of(policy, 1).Waits[0]
	needed := seconds(float64(herd) / s.Server.Capacity())
	if spread := first.Max - first.Min; float64(spread) < 0.95*float64(needed) {
		w.warn("the first retries of %d calls that fail together come within %v, and the service needs %v for them", herd, spread.Round(time.Millisecond), needed.Round(time.Millisecond))
	}
}

// checkLayers warns if attempts multiply. They do if a layer does not learn
// that the layer below has given up, or if the layer below had only one
// attempt.
func (w *warner) checkLayers(c Client, env Environment) {
	product, hidden := 1.0, true
	for env.Layer = env.Layers; env.Layer > 0; env.Layer-- {
		made := c.New(env)
		n := float64(attempts(made.Policy))
		if hidden {
			product *= n
		}
		product = max(product, n)
		hidden = made.Unmarked || n == 1
	}
	if env.Layers > 1 && product > 4 {
		w.warn("%d layers make up to %.0f attempts at the service for one call", env.Layers, product)
	}
}

// checkBreaker warns if there are too few calls for the failure rate.
func (w *warner) checkBreaker() {
	b, s := w.process.Breaker, w.scenario
	if b == nil || b.WindowCalls > 0 || b.Window < 0 || b.FailureRate < 0 {
		return
	}
	window, least := cmp.Or(b.Window, 10*time.Second), max(1, cmp.Or(b.MinCalls, 20))
	calls := s.load() * window.Seconds()
	if s.Trace != nil {
		calls = min(calls, float64(s.Trace.calls()))
	}
	if calls /= float64(max(1, s.Processes)); calls >= float64(least) {
		return
	}
	otherRule := "; only consecutive failures open it"
	if b.ConsecutiveFailures < 0 {
		otherRule = ", and there is no other rule: it never opens"
	}
	w.warn("its breaker: a process makes %s calls in %v, and the rate of failures wants %d%s", amount(calls),
		window, least, otherRule)
}

// timeout returns how long the first attempt at the service may take: the
// scenario's limit or the policy's, whichever is shorter.
func (w *warner) timeout() time.Duration {
	timeout := w.scenario.Timeout
	if d := timeouts.Of(&w.process.Policy); d != nil {
		if t := d.Delay(1); t > 0 && (timeout == 0 || t < timeout) {
			timeout = t
		}
	}
	return timeout
}

// checkQueue warns if the server can work for clients that have given up.
func (w *warner) checkQueue(timeout time.Duration) {
	s := w.scenario
	capacity := s.Server.Capacity()
	if timeout == 0 || s.Server.DropExpired || math.IsInf(capacity, 1) {
		return
	}
	enough := capacity * timeout.Seconds()
	switch {
	case s.Server.Limit == 0:
		w.warn("the queue of the service has no limit: with more than %s in it, the service works for attempts that have timed out after %v", amount(enough), timeout)
	case float64(s.Server.Limit) > enough:
		w.warn("in a full queue of %d attempts wait %v, and they time out after %v", s.Server.Limit,
			seconds(float64(s.Server.Limit)/capacity).Round(time.Millisecond), timeout)
	}
}

// attempts returns how many attempts a policy makes at most, and a million if
// there is no limit.
func attempts(p backoff.Policy) int {
	if n := preview.MaxAttempts(p); n > 0 {
		return n
	}
	return 1_000_000
}

// An allowance is how many retries a budget allows.
type allowance struct {
	ratio   float64 // retries per call, while all calls fail
	floor   float64 // retries per second in any case
	reserve float64 // retries saved up
	known   bool    // false for budgets that are not known here
}

func allowanceOf(p *Process) allowance {
	switch b := p.Policy.Budget.(type) {
	case nil:
		most := attempts(p.Policy)
		for class := range p.Policy.ByClass {
			most = max(most, attempts(preview.ForClass(p.Policy, class)))
		}
		return allowance{ratio: float64(min(most, 1000) - 1), known: true}
	case *backoff.RetryBudget:
		return allowance{reserve: 1, known: true} // the spare one; others are paid by successes, or made once in a life
	case *TokenBucket:
		f := allowance{ratio: b.Ratio, reserve: b.Capacity, known: true}
		if b.PaidBySuccess {
			f.ratio = 0
		}
		return f
	}
	return presetAllowance(p.Policy.Budget)
}

// presetAllowance returns the allowance of the budget of another system.
func presetAllowance(budget backoff.Budget) allowance {
	switch b := budget.(type) {
	case *foreign.Finagle:
		f := allowance{ratio: b.PercentCanRetry, floor: float64(b.MinRetriesPerSec), known: true}
		if b.PaidBySuccess {
			f.ratio = 0
		}
		return f
	case *foreign.Envoy:
		share := min(0.99, b.BudgetPercent/100)
		return allowance{ratio: share / (1 - share), known: true}
	case *foreign.SREBudget:
		return allowance{ratio: b.Ratio, floor: float64(b.MinRetries) / b.MinInterval.Seconds(), known: true}
	case *foreign.DotNet:
		return allowance{ratio: float64(b.RetryPercent) / 100, floor: 1 / b.SamplingDuration.Seconds(), known: true}
	case *foreign.Kubernetes:
		share := min(0.99, float64(b.Percent)/100)
		return allowance{ratio: share / (1 - share),
			floor: float64(b.MinRetryCount) / b.MinRetryInterval.Seconds(), known: true}
	case *presets.AWSQuota:
		return allowance{reserve: float64(b.Capacity) / float64(max(1, b.Cost)), known: true}
	case *presets.GRPCThrottling:
		return allowance{reserve: float64(b.MaxTokens) / 2, known: true}
	}
	return allowance{}
}
