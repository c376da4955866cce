package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/shape"
)

// A client is one way to call the service.
type client struct {
	name    string // for flags and data
	caption string // for the page
	about   string // its settings
	module  string // of a peer
	// calls makes one process of the client, over a transport of its own.
	calls func(http.RoundTripper, setup) call
	// model returns the same for the simulator, which applies the timeouts.
	model func(setup) sim.Client
}

func clientNamed(name string) *client {
	if i := slices.IndexFunc(clients, func(c client) bool { return c.name == name }); i >= 0 {
		return &clients[i]
	}
	return nil
}

// Where a library has waits of its own, they are used. The others wait as the
// simulator's references do.
const (
	firstWait = 100 * time.Millisecond
	maxWait   = 10 * time.Second
)

var clients = []client{
	{
		name: "backoffhttp", caption: "backoffhttp.Client", about: "this library, as it comes: budget and breaker",
		calls: func(base http.RoundTripper, s setup) call {
			policy := backoff.Policy{MaxAttempts: s.MaxAttempts, AttemptTimeout: s.Timeout}
			return gets(&http.Client{Transport: &backoffhttp.Transport{Base: base, Policy: policy}})
		},
		model: guarded,
	},
	{
		name: "policy", caption: "Policy + RetryBudget", about: "this library, without a breaker",
		calls: func(base http.RoundTripper, s setup) call {
			c := &http.Client{Transport: base}
			policy := backoff.Policy{MaxAttempts: s.MaxAttempts, AttemptTimeout: s.Timeout, Budget: new(backoff.RetryBudget)}
			return func(ctx context.Context) error {
				return policy.Do(ctx, func(ctx context.Context) error { return get(ctx, c) })
			}
		},
		model: func(s setup) sim.Client { return library(s, nil) },
	},
	{
		name: "stack", caption: "guard.Service", about: "this library, around a plain http.Client: a breaker around a policy with a RetryBudget",
		calls: func(base http.RoundTripper, s setup) call {
			c := &http.Client{Transport: base}
			guarded := guard.Service{Budget: new(backoff.RetryBudget)}
			service := guarded.With(backoff.Policy{MaxAttempts: s.MaxAttempts, AttemptTimeout: s.Timeout})
			return func(ctx context.Context) error {
				return service.Do(ctx, func(ctx context.Context) error { return get(ctx, c) })
			}
		},
		model: guarded,
	},
	{
		name: "failsafe", caption: "failsafe-go", about: "with its budget: of all that is under way a fifth may be retries, and three at least; waits of 100 ms, doubling, ±50 %",
		module: "github.com/failsafe-go/failsafe-go",
		calls: func(base http.RoundTripper, s setup) call {
			retries := failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(s.MaxAttempts-1).
				WithBackoff(firstWait, maxWait).WithJitterFactor(0.5).WithBudget(budget.New()).Build()
			return gets(&http.Client{Transport: failsafehttp.NewRoundTripper(base, retries, timeout.New[*http.Response](s.Timeout))})
		},
		model: func(s setup) sim.Client {
			policy := backoff.Policy{Schedule: backoff.Exponential{Initial: firstWait, Max: maxWait}, Jitter: backoff.UniformJitter(0.5, 1.5)}
			return model(s, policy, func() backoff.Budget { return &failsafeBudget{attempts: s.MaxAttempts} })
		},
	},
	{
		name: "cenkalti", caption: "cenkalti/backoff", about: "its waits: 500 ms, times 1.5, ±50 %",
		module: "github.com/cenkalti/backoff/v7",
		calls: func(base http.RoundTripper, s setup) call {
			c := &http.Client{Transport: base, Timeout: s.Timeout}
			return func(ctx context.Context) error {
				_, err := cenkalti.Retry(ctx, func() (struct{}, error) { return struct{}{}, get(ctx, c) },
					cenkalti.WithMaxTries(uint(s.MaxAttempts)))
				return err
			}
		},
		model: func(s setup) sim.Client {
			return model(s, backoff.Policy{Schedule: backoff.Exponential{Initial: 500 * time.Millisecond, Multiplier: 1.5}, Jitter: backoff.UniformJitter(0.5, 1.5)}, nil)
		},
	},
	{
		name: "avast", caption: "avast/retry-go", about: "its waits: 100 ms, doubling, and up to 100 ms more",
		module: "github.com/avast/retry-go/v5",
		calls: func(base http.RoundTripper, s setup) call {
			c := &http.Client{Transport: base, Timeout: s.Timeout}
			return func(ctx context.Context) error {
				return avast.New(avast.Attempts(uint(s.MaxAttempts)), avast.Context(ctx)).Do(func() error { return get(ctx, c) })
			}
		},
		model: func(s setup) sim.Client {
			return model(s, backoff.Policy{Jitter: shape.Added(100 * time.Millisecond)}, nil)
		},
	},
	{
		name: "retryablehttp", caption: "go-retryablehttp", about: "its waits: 1 s, doubling, no jitter",
		module: "github.com/hashicorp/go-retryablehttp",
		calls: func(base http.RoundTripper, s setup) call {
			c := retryablehttp.NewClient()
			c.HTTPClient = &http.Client{Transport: base, Timeout: s.Timeout}
			c.RetryMax, c.Logger = s.MaxAttempts-1, nil
			return func(ctx context.Context) error {
				req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, address, nil)
				if err != nil {
					return err
				}
				return finish(c.Do(req))
			}
		},
		model: func(s setup) sim.Client {
			return model(s, backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter}, nil)
		},
	},
	{
		name: "hand", caption: "by hand, full jitter", about: "a loop with waits of up to 100 ms, doubling",
		calls: func(base http.RoundTripper, s setup) call {
			c := &http.Client{Transport: base, Timeout: s.Timeout}
			return func(ctx context.Context) error { return byHand(ctx, s.MaxAttempts, c) }
		},
		model: func(s setup) sim.Client {
			return model(s, backoff.Policy{Schedule: backoff.Exponential{Initial: firstWait, Max: maxWait}}, nil)
		},
	},
	{
		name: "none", caption: "no retries", about: "one attempt",
		calls: func(base http.RoundTripper, s setup) call {
			return gets(&http.Client{Transport: base, Timeout: s.Timeout})
		},
		model: func(s setup) sim.Client { s.MaxAttempts = 1; return model(s, backoff.Policy{}, nil) },
	},
}

// gets makes each call by a client that retries by itself, or not at all.
func gets(client *http.Client) call {
	return func(ctx context.Context) error { return get(ctx, client) }
}

// byHand is what programs do that use no library.
func byHand(ctx context.Context, attempts int, c *http.Client) error {
	for n := 1; ; n++ {
		err := get(ctx, c)
		if err == nil || n == attempts {
			return err
		}
		limit := min(firstWait<<(n-1), maxWait)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rand.N(limit)):
		}
	}
}

// guarded returns this library with a breaker for the simulator.
func guarded(s setup) sim.Client {
	return library(s, func() *backoff.Breaker { return new(backoff.Breaker) })
}

// library returns this library for the simulator.
func library(s setup, breaker func() *backoff.Breaker) sim.Client {
	return sim.NewClient("", backoff.Policy{MaxAttempts: s.MaxAttempts}, func() backoff.Budget { return new(backoff.RetryBudget) }, breaker)
}

// model returns a client for the simulator without a breaker.
func model(s setup, p backoff.Policy, budget func() backoff.Budget) sim.Client {
	p.MaxAttempts = s.MaxAttempts
	return sim.NewClient("", p, budget, nil)
}

// failsafeBudget is the budget of failsafe-go for the simulator, for calls that
// only fail in ways that are retried: at least three retries at a time, and of
// all that is under way, a fifth. A call is under way until its end, also while
// it waits. A retry is asked for when its wait is over.
type failsafeBudget struct {
	backoff.BudgetDefaults

	attempts          int // of a call, at most
	underWay, retries int
}

// Reserve implements [backoff.Budget].
func (b *failsafeBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if a.First() {
		b.underWay++
	}
	return backoff.Ticket{Word: uint64(a.Number)}, 0, true
}

// Confirm implements [backoff.Budget].
func (b *failsafeBudget) Confirm(t backoff.Ticket) bool {
	if t.Word == 1 {
		return true
	}
	if b.retries >= 3 && float64(b.retries)/float64(b.underWay) > 0.2 {
		b.underWay-- // the call ends
		return false
	}
	b.retries++
	b.underWay++
	return true
}

// Done implements [backoff.Budget].
func (b *failsafeBudget) Done(t backoff.Ticket, r backoff.Result) {
	if r.NotSent {
		return
	}
	if t.Word > 1 {
		b.retries--
		b.underWay--
	}
	if !r.Failed || t.Word == uint64(b.attempts) {
		b.underWay-- // the call ends
	}
}
