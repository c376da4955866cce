package sim

import (
	"slices"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/limit/adaptive"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/presets"
)

// References returns the clients of the table for a model: "dip", "chain" or
// "ratelimit". For any other name it returns the three clients that are always
// shown: none, naive and default.
func References(model string) []Client {
	switch model {
	case "dip":
		return dipReferences()
	case "chain":
		return chainReferences()
	case "ratelimit":
		return rateLimitReferences()
	}
	return []Client{None(), Naive(), Default()}
}

// None returns a client that makes no retries.
func None() Client { return NewClient("no retries", backoff.Policy{MaxAttempts: 1}, nil, nil) }

// Naive returns a client that makes three retries without waiting.
func Naive() Client {
	return NewClient("naive 3 retries", backoff.Policy{Schedule: backoff.Constant(0)}, nil, nil)
}

// Default returns a client with the library's defaults: a zero Policy with a
// zero RetryBudget, inside a zero Breaker.
func Default() Client {
	return NewClient("default", backoff.Policy{}, retryBudget, newBreaker)
}

func retryBudget() backoff.Budget  { return new(backoff.RetryBudget) }
func newPacer() backoff.Budget     { return new(pace.Pacer) }
func newAdaptive() backoff.Budget  { return new(adaptive.Limit) }
func awsAdaptive() backoff.Budget  { return foreign.NewAWSAdaptive() }
func newBreaker() *backoff.Breaker { return new(backoff.Breaker) }

// withGuard returns c with its breakers guarding what g says.
func (c Client) withGuard(g Guard) Client {
	return c.With(func(_ Environment, p *Process) { p.Guard = g })
}

// fullJitter returns the reference's policy: full jitter on delays that double
// from 100 ms to 10 s.
func fullJitter() backoff.Policy {
	return backoff.Policy{Schedule: backoff.Exponential{Max: 10 * time.Second}}
}

// requestFunded returns token buckets that get a share of a token for each call
// that begins.
func requestFunded(ratio float64) func() backoff.Budget {
	return func() backoff.Budget { return &TokenBucket{Ratio: ratio, Capacity: 10} }
}

// successFunded returns token buckets that get a share of a token for each
// attempt that succeeds.
func successFunded(ratio float64) func() backoff.Budget {
	return func() backoff.Budget { return &TokenBucket{Ratio: ratio, Capacity: 10, PaidBySuccess: true} }
}

// aws500 returns the reference's quota 500-5-1. Retries after timeouts cost no
// more than others.
func aws500() backoff.Budget {
	return &presets.AWSQuota{Capacity: 500, Cost: 5, TimeoutCost: 5, ThrottleCost: 5, Increment: 1, FirstOnly: true}
}

// grpc returns the retry throttling of gRPC.
func grpc() backoff.Budget { return presets.NewGRPCThrottling() }

// throttles returns throttles that refuse at most a share of all attempts.
func throttles(maxReject float64) func() backoff.Budget {
	return func() backoff.Budget { return &ClassicThrottle{K: 2, MaxReject: maxReject} }
}

// rateBreaker returns the reference's breaker: it opens at a failure rate of 50
// % of at least 20 attempts in 10 s. Two details differ from the reference.
// When half-open, the reference admits ten probes and closes unless five fail,
// and this breaker decides by the first result. After a long time without
// failures, all successes since then count for some more seconds in the window
// of this breaker.
func rateBreaker(open time.Duration) func() *backoff.Breaker {
	return func() *backoff.Breaker {
		return &backoff.Breaker{ConsecutiveFailures: -1, OpenFor: backoff.Constant(open),
			Jitter: backoff.NoJitter, MaxProbes: 10, ProbeSuccesses: 1}
	}
}

func dipReferences() []Client {
	full, naive := fullJitter(), backoff.Policy{Schedule: backoff.Constant(0)}
	plain, long, decorrelated := full, full, full
	plain.Jitter = backoff.NoJitter
	long.Schedule = backoff.Exponential{Initial: time.Second, Max: 10 * time.Second}
	decorrelated.Jitter = backoff.DecorrelatedJitter(100*time.Millisecond, 10*time.Second)
	preset := func(name string, b func() backoff.Budget) Client { return NewClient(name, full, b, nil) }
	return slices.Concat([]Client{
		None(),
		Naive(),
		NewClient("exponential, no jitter", plain, nil, nil),
		NewClient("full jitter", full, nil, nil),
		NewClient("full jitter, base 1 s", long, nil, nil),
		NewClient("decorrelated jitter", decorrelated, nil, nil),
		NewClient("budget 10 %", full, requestFunded(0.1), nil),
		NewClient("naive + budget 10 %", naive, requestFunded(0.1), nil),
		NewClient("success-funded 10 %", full, successFunded(0.1), nil),
		NewClient("budget 20 %", full, requestFunded(0.2), nil),
		NewClient("500-5-1", full, aws500, nil),
		NewClient("gRPC 10/0.1", full, grpc, nil),
		NewClient("breaker 50 %/30 s", full, nil, rateBreaker(30*time.Second)).withGuard(GuardAttempts),
		NewClient("breaker 50 %/5 s", full, nil, rateBreaker(5*time.Second)).withGuard(GuardAttempts),
		NewClient("breaker on retries only", full, nil, rateBreaker(30*time.Second)).withGuard(GuardRetries),
		NewClient("budget 10 % + breaker 5 s", full, requestFunded(0.1),
			rateBreaker(5*time.Second)).withGuard(GuardAttempts),
		NewClient("adaptive K=2, 120 s", full, throttles(1), nil),
		preset("SRE budget", func() backoff.Budget { return foreign.NewSREBudget() }),
		preset("Finagle budget", func() backoff.Budget { return foreign.NewFinagle() }),
		preset("Linkerd budget", func() backoff.Budget { return foreign.NewLinkerd() }),
		preset("Envoy budget", func() backoff.Budget { return foreign.NewEnvoy() }),
		preset("AWS quota", func() backoff.Budget { return presets.NewAWSQuota() }),
		preset("AWS quota 2026", func() backoff.Budget { return presets.NewAWSQuota2026() }),
		preset(".NET budget", func() backoff.Budget { return foreign.NewDotNet() }),
		preset("Kubernetes budget", func() backoff.Budget { return foreign.NewKubernetes() }),
		preset("AWS adaptive", awsAdaptive),
	}, libraryClients(), []Client{throttled(), limited(), Hedging(), paced(), HTTPDefault()})
}

// throttled returns a client with the zero Policy, RetryBudget and Throttle.
func throttled() Client {
	return Client{Name: "RetryBudget + Throttle", New: func(env Environment) Process {
		budget := backoff.JoinBudgets(new(backoff.RetryBudget), &limit.Throttle{Rand: env.Rand})
		return Process{Policy: backoff.Policy{Budget: budget}}
	}}
}

// limited returns a client with the zero Policy, RetryBudget and Adaptive.
func limited() Client {
	return NewClient("RetryBudget + Adaptive", backoff.Policy{}, func() backoff.Budget {
		return backoff.JoinBudgets(new(backoff.RetryBudget), new(adaptive.Limit))
	}, nil)
}

// Hedging returns a client with a zero Hedge and no policy. It sends a second
// attempt when the first is slow.
func Hedging() Client {
	return Client{Name: "Hedge", New: func(Environment) Process { return Process{Hedge: new(hedge.Hedge)} }}
}

// libraryClients returns the combinations of the library's parts, from a budget
// alone to all of them.
func libraryClients() []Client {
	return []Client{
		NewClient("Throttle", backoff.Policy{}, func() backoff.Budget { return new(limit.Throttle) }, nil),
		NewClient("Adaptive", backoff.Policy{}, newAdaptive, nil),
		NewClient("Policy + RetryBudget", backoff.Policy{}, retryBudget, nil),
		NewClient("Policy + RetryBudget, Breaker inside", backoff.Policy{}, retryBudget,
			newBreaker).withGuard(GuardAttempts),
		Default(),
	}
}

// chainReferences returns clients without delays, because the calls of the
// model take no time either. Their layers do not show that they have given up,
// unless the name says so.
func chainReferences() []Client {
	atOnce := backoff.Policy{Schedule: backoff.Constant(0)}
	unmarked := func(name string, budget func() backoff.Budget) Client {
		return NewClient(name, atOnce, budget, nil).WithoutMarks()
	}
	guarded := func(g Guard, name string) Client {
		return NewClient(name, atOnce, nil, rateBreaker(30*time.Second)).withGuard(g).WithoutMarks()
	}
	return slices.Concat([]Client{
		None(),
		unmarked("4 attempts per layer", nil),
		unmarked("budget 10 % per layer", requestFunded(0.1)),
		unmarked("success-funded 10 %", successFunded(0.1)),
		unmarked("500-5-1", aws500),
		unmarked("gRPC 10/0.1", grpc),
		unmarked("adaptive K=2", throttles(1)),
		unmarked("adaptive K=2, reject <= 0.9", throttles(0.9)),
		guarded(GuardAttempts, "breaker 50 %/30 s"),
		guarded(GuardRetries, "breaker on retries only"),
		NewClient("retry at top layer only", atOnce, nil, nil).retryingAtTop(),
		NewClient("retry at bottom layer only", atOnce, nil, nil).retryingAtBottom(),
		NewClient("bottom only + budget 10 %", atOnce, requestFunded(0.1), nil).retryingAtBottom(),
		NewClient("mark on exhausted", atOnce, nil, nil),
		NewClient("mark + budget 10 %", atOnce, requestFunded(0.1), nil),
	}, libraryClientsInChain())
}

// libraryClientsInChain returns the combinations of the library's parts without
// delays, with and without the mark that shows that a layer has given up.
func libraryClientsInChain() []Client {
	atOnce := backoff.Policy{Schedule: backoff.Constant(0)}
	throttle := func() backoff.Budget { return new(limit.Throttle) }
	return []Client{
		NewClient("Throttle", atOnce, throttle, nil).WithoutMarks(),
		NewClient("RetryBudget, no mark", atOnce, retryBudget, nil).WithoutMarks(),
		NewClient("RetryBudget", atOnce, retryBudget, nil),
		NewClient("RetryBudget, Breaker inside, no mark", atOnce, retryBudget,
			newBreaker).withGuard(GuardAttempts).WithoutMarks(),
		NewClient("default, no mark", atOnce, retryBudget, newBreaker).WithoutMarks(),
		NewClient("default", atOnce, retryBudget, newBreaker),
		NewClient("default, Breaker at the top layer, no mark", atOnce, retryBudget,
			newBreaker).WithoutMarks().withBreakerAtTop(),
	}
}

// withBreakerAtTop returns c with breakers in the first layer only.
func (c Client) withBreakerAtTop() Client {
	return c.With(func(env Environment, p *Process) {
		if env.Layer > 1 {
			p.Breaker = nil
		}
	})
}

// retryingAtTop returns c with retries in the first layer only.
func (c Client) retryingAtTop() Client {
	return c.retryingIf(func(env Environment) bool { return env.Layer == 1 })
}

// retryingAtBottom returns c with retries in the last layer only.
func (c Client) retryingAtBottom() Client {
	return c.retryingIf(func(env Environment) bool { return env.Layer == env.Layers })
}

// retryingIf returns c with retries in some layers. A process of the others
// only makes one attempt.
func (c Client) retryingIf(retries func(Environment) bool) Client {
	return c.With(func(env Environment, p *Process) {
		if !retries(env) {
			*p = Process{Policy: backoff.Policy{MaxAttempts: 1}}
		}
	})
}

// strategy returns a client without a limit on attempts.
func strategy(name string, s backoff.Schedule, j backoff.Jitter) Client {
	return NewClient(name, backoff.Policy{MaxAttempts: -1, Schedule: s, Jitter: j}, nil, nil)
}

// HerdReferences returns the strategies of the reference, without a limit on
// attempts. The base of the reference is 100 ms, and the cap is 10 s.
func HerdReferences(base time.Duration) []Client {
	growing := backoff.Exponential{Initial: base, Max: 10 * time.Second}
	return []Client{
		strategy("immediate", backoff.Constant(0), backoff.NoJitter),
		strategy("constant 1 s", backoff.Constant(time.Second), backoff.NoJitter),
		strategy("exponential", growing, backoff.NoJitter),
		strategy("exponential ±50 %", growing, backoff.UniformJitter(0.5, 1.5)),
		strategy("equal jitter", growing, backoff.EqualJitter),
		strategy("full jitter", growing, backoff.FullJitter),
		strategy("decorrelated jitter", growing, backoff.DecorrelatedJitter(base, 10*time.Second)),
	}
}

// rateLimitReferences returns what calls a rate-limited API in practice.
func rateLimitReferences() []Client {
	return []Client{
		None(),
		Naive(),
		NewClient("full jitter", fullJitter(), nil, nil),
		NewClient("go-retryablehttp", presets.RetryableHTTP(), nil, nil),
		NewClient("AWS adaptive", fullJitter(), awsAdaptive, nil),
		NewClient("Policy + RetryBudget", backoff.Policy{}, retryBudget, nil),
		Default(),
		paced(),
		HTTPDefault(),
	}
}

// paced returns a client with a zero Policy and a zero Pacer.
func paced() Client { return NewClient("Policy + Pacer", backoff.Policy{}, newPacer, nil) }

// HTTPDefault returns a client with the defaults of a Transport of package
// backoffhttp for one host: a zero Policy with a zero Pacer, inside a zero
// Breaker.
func HTTPDefault() Client { return NewClient("HTTP default", backoff.Policy{}, newPacer, newBreaker) }
