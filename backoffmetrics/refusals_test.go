package backoffmetrics_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
)

type operation = func(context.Context) error

// waiting is an operation for whose circuit the policy around it waits.
func waiting(op operation) operation {
	return func(ctx context.Context) error {
		err := op(ctx)
		if errors.Is(err, backoff.ErrOpen) {
			return backoff.OfClass(err, backoff.ClassRetryable)
		}
		return err
	}
}

// refusedCalls returns how many calls failed because a circuit was open.
func refusedCalls(t *testing.T, m *backoffmetrics.Metrics, operation string) float64 {
	t.Helper()
	return scrape(t, m)["backoff_failures_total{"+operation+`,reason="open"}`]
}

// A refused call is a call that failed, wherever the breaker is. Each composition gets
// 20 calls that fail, after which its breaker is open, and 30 more.
func TestRefusedCallsAreCallsInEveryComposition(t *testing.T) {
	type guards struct {
		service       guard.Service // has orders
		orders, stock *backoff.Breaker
		policy        backoff.Policy
	}
	for name, c := range map[string]struct {
		call             func(g *guards, ctx context.Context, op operation) error
		refuse, attempts int
	}{
		"breaker outside":    {func(g *guards, ctx context.Context, op operation) error { return g.service.Do(ctx, g.policy, op) }, 30, 40},
		"breaker inside":     {func(g *guards, ctx context.Context, op operation) error { return g.policy.Do(ctx, g.orders.Wrap(op)) }, 40, 20},
		"another one inside": {func(g *guards, ctx context.Context, op operation) error { return g.policy.Do(ctx, g.stock.Wrap(op)) }, 40, 20},
		"both": {func(g *guards, ctx context.Context, op operation) error {
			return g.service.Do(ctx, g.policy, g.stock.Wrap(op))
		}, 40, 20},
		"inside, which waits": {func(g *guards, ctx context.Context, op operation) error {
			return g.policy.Do(ctx, waiting(g.orders.Wrap(op)))
		}, 0, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m backoffmetrics.Metrics
				breaker := func(name string) *backoff.Breaker {
					return &backoff.Breaker{Name: name, Observer: m.Observe, MinCalls: 20, ConsecutiveFailures: -1, OpenFor: backoff.Constant(time.Hour)}
				}
				policy := backoff.Policy{Name: "orders", Observer: m.Observe, MaxAttempts: 2, Schedule: backoff.Constant(time.Millisecond), MaxElapsed: 2 * time.Hour}
				g := &guards{orders: breaker("orders"), stock: breaker("stock"), policy: policy}
				g.service.Breaker, g.service.NoBudget = g.orders, true
				refused, attempts := 0, 0
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					err := c.call(g, ctx, func(context.Context) error { attempts++; return errDown })
					cancel()
					if errors.Is(err, backoff.ErrOpen) {
						refused++
					}
				}
				require.Equal(t, c.attempts, attempts)
				require.EqualValues(t, c.refuse, refusedCalls(t, &m, `operation="orders"`))
				if c.refuse > 0 {
					require.Equal(t, c.refuse, refused)
				}
				requireSeries(t, &m, map[string]float64{
					`backoff_calls_total{operation="orders",outcome="failed"}`: 50, `backoff_attempts_per_call_count{operation="orders"}`: 50,
					`backoff_attempts_total{operation="orders"}`: float64(attempts),
				})
			})
		})
	}
}

func TestRefusedCallsBelongToTheEndpointOfTheirContext(t *testing.T) {
	var m backoffmetrics.Metrics
	a, b := &endpoint.Endpoint{Name: "GET a"}, &endpoint.Endpoint{Name: "GET b"}
	breaker := &backoff.Breaker{Name: "orders", Observer: m.Observe}
	breaker.Trip()
	policy := backoff.Policy{Name: "orders", Observer: m.Observe}
	service := guard.Service{Breaker: breaker}
	for _, to := range []*endpoint.Endpoint{a, b} {
		require.NoError(t, policy.Do(endpoint.With(t.Context(), to), failing(0)))
	}
	for range 3 {
		require.Error(t, service.Do(endpoint.With(t.Context(), b), policy, failing(0)))
	}
	require.Zero(t, refusedCalls(t, &m, `operation="orders",endpoint="GET a"`))
	require.EqualValues(t, 3, refusedCalls(t, &m, `operation="orders",endpoint="GET b"`))
}

// A Transport reports its refused calls itself, and so may its breakers.
func TestARefusedRequestIsOneCall(t *testing.T) {
	for name, services := range map[string]func(m *backoffmetrics.Metrics) *guard.Services{
		"its own": func(*backoffmetrics.Metrics) *guard.Services { return nil },
		"with an observer": func(m *backoffmetrics.Metrics) *guard.Services {
			return &guard.Services{New: func(string) *guard.Service { return &guard.Service{Name: "search", Observer: m.Observe} }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.NotFoundHandler())
			server.Close() // a refused connection
			var m backoffmetrics.Metrics
			policy := backoff.Policy{Name: "search", MaxAttempts: 1, Observer: m.Observe}
			transport := &backoffhttp.Transport{Policy: policy, Services: services(&m)}
			client := &http.Client{Transport: transport}
			refused := 0
			for range 30 {
				_, err := client.Get(server.URL)
				require.Error(t, err)
				if errors.Is(err, backoff.ErrOpen) {
					refused++
				}
			}
			require.Positive(t, refused)
			at := `operation="search",endpoint="GET ` + strings.TrimPrefix(server.URL, "http://") + `"`
			require.EqualValues(t, refused, refusedCalls(t, &m, at))
			requireSeries(t, &m, map[string]float64{`backoff_calls_total{` + at + `,outcome="failed"}`: 30})
			for _, breaker := range []string{server.URL, "search"} {
				if of, ok := scrape(t, &m)[`backoff_breaker_refusals_total{breaker="`+breaker+`"}`]; ok {
					require.EqualValues(t, refused, of, "the breaker has refused them")
				}
			}
		})
	}
}
