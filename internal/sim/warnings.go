package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/timeouts"
	"github.com/gobackoff/backoff/presets"
	"github.com/gobackoff/backoff/preview"
)

// Warnings returns what can be told of a client in a scenario without running it, a line
// each. What would be so with any client is in [ServiceWarnings].
func Warnings(s Scenario, c Client) []string {
	w := warner{scenario: &s}
	place := Place{Layer: s.layers(), Layers: s.layers(), Rand: rand.New(rand.NewPCG(1, 1)).Float64}
	w.process = c.New(place)
	w.funding = fundingOf(&w.process)
	w.overload()
	w.fleet()
	w.window()
	w.layers(c, place)
	w.breaker()
	if timeout := w.timeout(); timeout != s.Timeout {
		w.queue(timeout)
	}
	w.deadline()
	return w.lines
}

// ServiceWarnings returns what can be told of the service and its traffic without running
// anything, whoever calls, a line each.
func ServiceWarnings(s Scenario) []string {
	w := warner{scenario: &s}
	if capacity := s.Server.Capacity(); !s.Failed && !math.IsInf(capacity, 1) && s.load() >= capacity {
		w.warn("the load is %s %% of capacity without any retry", amount(100*s.load()/capacity))
	}
	w.queue(s.Timeout)
	return w.lines
}

// amount writes a number with three digits, and all of those before the point.
func amount(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

type warner struct {
	scenario *Scenario
	process  Process
	funding  funding
	lines    []string
}

func (w *warner) warn(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// overload warns where retries can keep the service down that brought it down.
func (w *warner) overload() {
	s, f := w.scenario, w.funding
	capacity := s.Server.Capacity()
	load := s.load() / capacity
	if math.IsInf(capacity, 1) || !f.known || w.process.Breaker != nil || load >= 1 {
		return
	}
	if total := load * (1 + f.ratio); total >= 1 && f.ratio > 0 {
		w.warn("a load of %s %% x (1 + %s retries per call) = %s %% of capacity: an outage that is long enough does not end", amount(100*load), amount(f.ratio), amount(100*total))
	}
}

// fleet warns of what every process may do at the same time.
func (w *warner) fleet() {
	s, f := w.scenario, w.funding
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

// window warns where those who fail together come back together.
func (w *warner) window() {
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
	need := seconds(float64(herd) / s.Server.Capacity())
	if got := first.Max - first.Min; float64(got) < 0.95*float64(need) {
		w.warn("the first retries of %d calls that fail together come within %v, and the service needs %v for them", herd, got.Round(time.Millisecond), need.Round(time.Millisecond))
	}
}

// layers warns where attempts multiply: where a layer cannot know that the one below has given up
// for good, or that had only one attempt.
func (w *warner) layers(c Client, p Place) {
	product, hidden := 1.0, true
	for p.Layer = p.Layers; p.Layer > 0; p.Layer-- {
		made := c.New(p)
		n := float64(attempts(&made.Policy))
		if hidden {
			product *= n
		}
		product = max(product, n)
		hidden = made.Unmarked || n == 1
	}
	if p.Layers > 1 && product > 4 {
		w.warn("%d layers make up to %.0f attempts at the service for one call", p.Layers, product)
	}
}

// breaker warns where there are too few calls for a rate.
func (w *warner) breaker() {
	b, s := w.process.Breaker, w.scenario
	if b == nil || b.WindowCalls > 0 || b.Window < 0 || b.FailureRate < 0 {
		return
	}
	window, least := 10*time.Second, 20
	if b.Window > 0 {
		window = b.Window
	}
	if b.MinCalls != 0 {
		least = max(1, b.MinCalls)
	}
	calls := s.load() * window.Seconds()
	if s.Trace != nil {
		calls = min(calls, float64(s.Trace.calls()))
	}
	if calls /= float64(max(1, s.Processes)); calls >= float64(least) {
		return
	}
	otherwise := "; only failures in a row open it"
	if b.ConsecutiveFailures < 0 {
		otherwise = ", and there is no other rule: it never opens"
	}
	w.warn("its breaker: a process makes %s calls in %v, and the rate of failures wants %d%s", amount(calls), window, least, otherwise)
}

// timeout is how long an attempt at the service may take, with the policy's own limit.
func (w *warner) timeout() time.Duration {
	timeout := w.scenario.Timeout
	if d := timeouts.Of(&w.process.Policy); d != nil {
		if t := d.Delay(1); t > 0 && (timeout == 0 || t < timeout) {
			timeout = t
		}
	}
	return timeout
}

// queue warns where the server works for clients that have given up.
func (w *warner) queue(timeout time.Duration) {
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
		w.warn("in a full queue of %d attempts wait %v, and they time out after %v", s.Server.Limit, seconds(float64(s.Server.Limit)/capacity).Round(time.Millisecond), timeout)
	}
}

// deadline warns where there is no time for all attempts.
func (w *warner) deadline() {
	end, policy := w.scenario.Deadline, &w.process.Policy
	if end == 0 || policy.MaxAttempts < 0 {
		return
	}
	var schedule backoff.Schedule = backoff.Exponential{}
	if policy.Schedule != nil {
		schedule = policy.Schedule
	}
	var sum time.Duration
	for retry := 1; retry < attempts(policy) && sum <= end; retry++ {
		sum += min(max(0, schedule.Delay(retry)), forever-sum)
	}
	if sum > end {
		w.warn("the deadline of %v is shorter than the delays of its retries, %v and more", end, sum.Round(time.Millisecond))
	}
}

// attempts is how many a policy makes at most; a million where there is no limit.
func attempts(p *backoff.Policy) int {
	switch {
	case p.MaxAttempts < 0:
		return 1_000_000
	case p.MaxAttempts == 0:
		return 4
	}
	return p.MaxAttempts
}

// funding is what pays for retries.
type funding struct {
	ratio   float64 // retries per call, while all calls fail
	floor   float64 // retries per second in any case
	reserve float64 // retries saved up
	known   bool
}

func fundingOf(p *Process) funding {
	switch b := p.Policy.Budget.(type) {
	case nil:
		return funding{ratio: float64(min(attempts(&p.Policy), 1000) - 1), known: true}
	case *backoff.RetryBudget:
		return funding{reserve: 2, known: true} // the spare ones; the window's are its own successes
	case *TokenBucket:
		f := funding{ratio: b.Ratio, floor: b.Floor, reserve: b.Capacity, known: true}
		if b.PaidBySuccess {
			f.ratio = 0
		}
		return f
	case *presets.FinagleBudget:
		f := funding{ratio: b.PercentCanRetry, floor: float64(b.MinRetriesPerSec), known: true}
		if b.Deposits != presets.DepositAtStart {
			f.ratio = 0
		}
		return f
	case *presets.EnvoyBudget:
		share := min(0.99, b.BudgetPercent/100)
		return funding{ratio: share / (1 - share), known: true}
	case *presets.SREBudget:
		return funding{ratio: b.Ratio, floor: float64(b.MinRetries) / b.MinInterval.Seconds(), reserve: 0, known: true}
	case *presets.DotNetBudget:
		return funding{ratio: b.RetryRatio, floor: 1 / b.SamplingDuration.Seconds(), known: true}
	case *presets.KubernetesBudget:
		share := min(0.99, float64(b.Percent)/100)
		return funding{ratio: share / (1 - share), floor: float64(b.MinRetryCount) / b.MinRetryInterval.Seconds(), known: true}
	case *presets.AWSQuota:
		return funding{reserve: float64(b.Capacity) / float64(max(1, b.Cost)), known: true}
	case *presets.GRPCThrottling:
		return funding{reserve: float64(b.MaxTokens) / 2, known: true}
	}
	return funding{}
}
