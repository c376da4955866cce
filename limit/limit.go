// Package limit has the Budgets that bound everything that a program sends,
// first attempts included: a rate limit, a bulkhead and others.
//
//	search := backoff.Policy{
//		Name: "search",
//		Budget: backoff.JoinBudgets(
//			&backoff.RetryBudget{},
//			&limit.Rate{Limiter: rate.NewLimiter(100, 10)},
//			&limit.Concurrency{Max: 50},
//		),
//	}
//	err := search.Do(ctx, query)
//
// There are three of them:
//
//   - [Rate] makes attempts wait for the tokens of a rate limiter.
//   - [Throttle] refuses more attempts the more the service refuses.
//   - [Concurrency] refuses attempts while too many are running (a bulkhead).
//
// Package [github.com/gobackoff/backoff/limit/adaptive] has one that finds out by itself
// how many attempts may run.
//
// A limit bounds all policies that share it. It joins with a retry budget, and can
// be the Budget of a Service of package guard: make one for each Service. For a
// service that responds with "too much", such as HTTP 429, there is package
// [github.com/gobackoff/backoff/pace].
package limit
