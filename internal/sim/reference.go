package sim

import (
	"slices"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/presets"
)

// References returns the clients of the reference's table for a model: "dip" or "chain";
// for any other name the three that are always shown: none, naive and default.
func References(model string) []Client {
	switch model {
	case "dip":
		return dipReferences()
	case "chain":
		return chainReferences()
	}
	return []Client{None(), Naive(), Default()}
}

// None makes no retries.
func None() Client { return Under("no retries", backoff.Policy{MaxAttempts: 1}, nil, nil) }

// Naive makes three retries, at once.
func Naive() Client {
	return Under("naive 3 retries", backoff.Policy{Schedule: backoff.Constant(0)}, nil, nil)
}

// Default is the library's own: the zero Policy, RetryBudget and Breaker, the breaker
// around the policy.
func Default() Client {
	return Under("default", backoff.Policy{}, retryBudget, newBreaker)
}

func retryBudget() backoff.Budget  { return new(backoff.RetryBudget) }
func newBreaker() *backoff.Breaker { return new(backoff.Breaker) }

// guarding puts the breaker of a client elsewhere.
func guarding(c Client, g Guard) Client {
	made := c.New
	c.New = func(p Place) Process {
		process := made(p)
		process.Guard = g
		return process
	}
	return c
}

// unmarked hides from the layers above that a client has given up.
func unmarked(c Client) Client {
	made := c.New
	c.New = func(p Place) Process {
		process := made(p)
		process.Unmarked = true
		return process
	}
	return c
}

// fullJitter is the backoff of the reference: full jitter on 100 ms, doubling, to 10 s.
func fullJitter() backoff.Policy {
	return backoff.Policy{Schedule: backoff.Exponential{Max: 10 * time.Second}}
}

// byRequests and bySuccess are token buckets: a share of a token for each call that begins, or
// attempt that succeeds, and a token for a retry.
func byRequests(ratio float64) func() backoff.Budget {
	return func() backoff.Budget { return &TokenBucket{Ratio: ratio, Capacity: 10} }
}

func bySuccess(ratio float64) func() backoff.Budget {
	return func() backoff.Budget { return &TokenBucket{Ratio: ratio, Capacity: 10, PaidBySuccess: true} }
}

// aws500 is the quota 500-5-1 of the reference. It knows no extra price for timeouts.
func aws500() backoff.Budget {
	return &presets.AWSQuota{Capacity: 500, Cost: 5, TimeoutCost: 5, ThrottleCost: 5, Increment: 1, FirstOnly: true}
}

func grpc() backoff.Budget { return presets.NewGRPCThrottling() }

func adaptive(mostReject float64) func() backoff.Budget {
	return func() backoff.Budget { return &ClassicThrottle{K: 2, MaxReject: mostReject} }
}

// halfOpen is the reference's breaker: 50 % of at least 20 in ten seconds. Its half-open
// state differs: the reference admits ten and closes unless five fail, this one by the
// first answer. So does its window after a long time without failures, in which all successes
// since then count for some seconds.
func halfOpen(open time.Duration) func() *backoff.Breaker {
	return func() *backoff.Breaker {
		return &backoff.Breaker{ConsecutiveFailures: -1, OpenFor: backoff.Constant(open), Jitter: backoff.NoJitter, MaxProbes: 10, ProbeSuccesses: 1}
	}
}

func dipReferences() []Client {
	full, naive := fullJitter(), backoff.Policy{Schedule: backoff.Constant(0)}
	plain, long, decorrelated := full, full, full
	plain.Jitter = backoff.NoJitter
	long.Schedule = backoff.Exponential{Initial: time.Second, Max: 10 * time.Second}
	decorrelated.Jitter = backoff.DecorrelatedJitter(100*time.Millisecond, 10*time.Second)
	preset := func(name string, b func() backoff.Budget) Client { return Under(name, full, b, nil) }
	return slices.Concat([]Client{
		None(),
		Naive(),
		Under("exponential, no jitter", plain, nil, nil),
		Under("full jitter", full, nil, nil),
		Under("full jitter, base 1 s", long, nil, nil),
		Under("decorrelated jitter", decorrelated, nil, nil),
		Under("budget 10 %", full, byRequests(0.1), nil),
		Under("naive + budget 10 %", naive, byRequests(0.1), nil),
		Under("success-funded 10 %", full, bySuccess(0.1), nil),
		Under("budget 20 %", full, byRequests(0.2), nil),
		Under("500-5-1", full, aws500, nil),
		Under("gRPC 10/0.1", full, grpc, nil),
		guarding(Under("breaker 50 %/30 s", full, nil, halfOpen(30*time.Second)), GuardAttempts),
		guarding(Under("breaker 50 %/5 s", full, nil, halfOpen(5*time.Second)), GuardAttempts),
		guarding(Under("breaker on retries only", full, nil, halfOpen(30*time.Second)), GuardRetries),
		guarding(Under("budget 10 % + breaker 5 s", full, byRequests(0.1), halfOpen(5*time.Second)), GuardAttempts),
		Under("adaptive K=2, 120 s", full, adaptive(1), nil),
		preset("SRE budget", func() backoff.Budget { return presets.NewSREBudget() }),
		preset("Finagle budget", func() backoff.Budget { return presets.NewFinagleBudget() }),
		preset("Linkerd budget", func() backoff.Budget { return presets.NewLinkerdBudget() }),
		preset("Envoy budget", func() backoff.Budget { return presets.NewEnvoyBudget() }),
		preset("AWS quota", func() backoff.Budget { return presets.NewAWSQuota() }),
		preset("AWS quota 2026", func() backoff.Budget { return presets.NewAWSQuota2026() }),
		preset(".NET budget", func() backoff.Budget { return presets.NewDotNetBudget() }),
		preset("Kubernetes budget", func() backoff.Budget { return presets.NewKubernetesBudget() }),
		preset("AWS adaptive", func() backoff.Budget { return presets.NewAWSAdaptive() }),
	}, ours(), []Client{Hedging()})
}

// Hedging sends an attempt a second time where the first is slow, and makes no retries but for that.
func Hedging() Client {
	return Client{Name: "Hedge", New: func(Place) Process { return Process{Hedge: new(backoff.Hedge)} }}
}

// ours are the library's own, from the budget alone to all of it.
func ours() []Client {
	return []Client{
		Under("Throttle", backoff.Policy{}, func() backoff.Budget { return new(limit.Throttle) }, nil),
		Under("Policy + RetryBudget", backoff.Policy{}, retryBudget, nil),
		guarding(Under("Policy + RetryBudget, Breaker inside", backoff.Policy{}, retryBudget, newBreaker), GuardAttempts),
		Default(),
	}
}

// chainReferences have no delays, as the calls of the model take no time either, and errors that do
// not say that a layer has given up, unless it is their subject.
func chainReferences() []Client {
	at := backoff.Policy{Schedule: backoff.Constant(0)}
	guard := func(g Guard, name string) Client {
		return unmarked(guarding(Under(name, at, nil, halfOpen(30*time.Second)), g))
	}
	return slices.Concat([]Client{
		None(),
		unmarked(Under("4 attempts per layer", at, nil, nil)),
		unmarked(Under("budget 10 % per layer", at, byRequests(0.1), nil)),
		unmarked(Under("success-funded 10 %", at, bySuccess(0.1), nil)),
		unmarked(Under("500-5-1", at, aws500, nil)),
		unmarked(Under("gRPC 10/0.1", at, grpc, nil)),
		unmarked(Under("adaptive K=2", at, adaptive(1), nil)),
		unmarked(Under("adaptive K=2, reject <= 0.9", at, adaptive(0.9), nil)),
		guard(GuardAttempts, "breaker 50 %/30 s"),
		guard(GuardRetries, "breaker on retries only"),
		only(Under("retry at top layer only", at, nil, nil), 1),
		only(Under("retry at bottom layer only", at, nil, nil), -1),
		only(Under("bottom only + budget 10 %", at, byRequests(0.1), nil), -1),
		Under("mark on exhausted", at, nil, nil),
		Under("mark + budget 10 %", at, byRequests(0.1), nil),
	}, oursInChain())
}

// oursInChain are the library's own without delays, in processes that hide that they have given
// up, and in such that do not.
func oursInChain() []Client {
	at := backoff.Policy{Schedule: backoff.Constant(0)}
	throttle := func() backoff.Budget { return new(limit.Throttle) }
	return []Client{
		unmarked(Under("Throttle", at, throttle, nil)),
		unmarked(Under("RetryBudget, no mark", at, retryBudget, nil)),
		Under("RetryBudget", at, retryBudget, nil),
		unmarked(guarding(Under("RetryBudget, Breaker inside, no mark", at, retryBudget, newBreaker), GuardAttempts)),
		unmarked(Under("default, no mark", at, retryBudget, newBreaker)),
		Under("default", at, retryBudget, newBreaker),
		edge(unmarked(Under("default, Breaker at the top layer, no mark", at, retryBudget, newBreaker))),
	}
}

// edge leaves the breaker to the layer that the user calls.
func edge(c Client) Client {
	made := c.New
	c.New = func(p Place) Process {
		process := made(p)
		if p.Layer > 1 {
			process.Breaker = nil
		}
		return process
	}
	return c
}

// only lets a single layer retry: the first, or the last for -1.
func only(c Client, layer int) Client {
	made := c.New
	c.New = func(p Place) Process {
		if layer == p.Layer || layer < 0 && p.Layer == p.Layers {
			return made(p)
		}
		return Process{Policy: backoff.Policy{MaxAttempts: 1}}
	}
	return c
}
