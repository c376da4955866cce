package percall

import (
	"context"
	"net/http"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/poll"
)

func op(ctx context.Context) error              { return ctx.Err() }
func fetch(ctx context.Context) (string, error) { return "", ctx.Err() }
func done(context.Context) (bool, error)        { return true, nil }

func budget(ctx context.Context) error {
	policy := backoff.Policy{
		Name:   "fetch",
		Budget: &backoff.RetryBudget{}, // want `this RetryBudget is made for each call, and so it knows of no call before`
	}
	policy.MaxAttempts = 3
	return policy.Do(ctx, op)
}

func joined(ctx context.Context) (string, error) {
	b := new(backoff.RetryBudget) // want `this RetryBudget`
	var policy backoff.Policy
	policy.Budget = backoff.JoinBudgets(b)
	return backoff.DoValue(ctx, policy, fetch)
}

func breaker(ctx context.Context) error {
	b := backoff.Breaker{Name: "search"} // want `this Breaker`
	return b.Do(ctx, op)
}

func allow() error {
	var b backoff.Breaker // want `this Breaker`
	done, err := b.Allow()
	if err == nil {
		done(nil)
	}
	return err
}

func stacked(ctx context.Context, policy backoff.Policy) error {
	s := guard.Service{Breaker: new(backoff.Breaker)} // want `this guard.Service` `this Breaker`
	return s.Do(ctx, policy, op)
}

func serviceAround(ctx context.Context, policy backoff.Policy) error {
	return new(guard.Service).With(policy).Do(ctx, op) // want `this guard.Service`
}

func keyed(ctx context.Context, host string, policy backoff.Policy) error {
	var services guard.Services // want `this guard.Services`
	return services.For(host).Do(ctx, policy, op)
}

func hedged(ctx context.Context) (string, error) {
	return hedge.Value(ctx, &hedge.Hedge{Name: "fetch"}, fetch, nil) // want `this hedge.Hedge`
}

func client(url string) (*http.Response, error) {
	c := backoffhttp.Client(backoff.Policy{}) // want `this client is made for each call`
	return c.Get(url)
}

func transport(url string) (*http.Response, error) {
	c := &http.Client{Transport: &backoffhttp.Transport{}} // want `this backoffhttp.Transport`
	return c.Get(url)
}

func handle(mux *http.ServeMux) {
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c := backoffhttp.WrapClient(nil, backoff.Policy{}) // want `this client`
		if resp, err := c.Get("https://example.com"); err == nil {
			resp.Body.Close()
		}
	})
}

func inLoop(ctx context.Context, hosts []string) {
	for range hosts {
		b := &backoff.Breaker{} // want `this Breaker`
		_ = b.Do(ctx, op)
	}
}

func inOperation(ctx context.Context, policy backoff.Policy) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		b := &backoff.Breaker{} // want `this Breaker`
		return b.Do(ctx, op)
	})
}

// Those below are right.

var (
	shared = backoff.Policy{Budget: &backoff.RetryBudget{}}
	hosts  = new(guard.Services)
)

type service struct {
	breaker *backoff.Breaker
	client  *http.Client
}

func newService(ctx context.Context) (*service, error) {
	s := &service{breaker: &backoff.Breaker{}, client: backoffhttp.Client(shared)}
	b := &backoff.Breaker{}
	if err := b.Do(ctx, op); err != nil {
		return nil, err
	}
	s.breaker = b
	return s, nil
}

func forAll(ctx context.Context, hosts []string) {
	policy := backoff.Policy{Budget: new(backoff.RetryBudget)}
	for range hosts {
		_ = policy.Do(ctx, op)
	}
}

func handler() http.HandlerFunc {
	b := &backoff.Breaker{}
	return func(w http.ResponseWriter, r *http.Request) { _ = b.Do(r.Context(), op) }
}

func passedOn(ctx context.Context) {
	p := backoff.Policy{Budget: new(backoff.RetryBudget)}
	use(ctx, p)
	b := &backoff.Breaker{}
	go func() { _ = b.Do(ctx, op) }()
	_ = b.Do(ctx, op)
}

func use(ctx context.Context, p backoff.Policy) { _ = p.Do(ctx, op) }

// A Supervisor runs for long, and a poll checks often.
func longLived(ctx context.Context) error {
	s := backoff.Supervisor{Policy: backoff.Policy{Budget: new(backoff.RetryBudget)}}
	if err := s.Run(ctx, op); err != nil {
		return err
	}
	return poll.Until(ctx, backoff.Policy{Budget: new(backoff.RetryBudget)}, done)
}

func unguarded(url string) (*http.Response, error) {
	c := &http.Client{Transport: &backoffhttp.Unguarded{}}
	return c.Get(url)
}

func sharing(url string) (*http.Response, error) {
	c := &http.Client{Transport: &backoffhttp.Transport{Services: hosts}}
	return c.Get(url)
}

func data(ctx context.Context) error {
	policy := backoff.Policy{Budget: shared.Budget}
	return policy.Do(ctx, op)
}
