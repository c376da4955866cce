// Package limit has the Budgets that shape traffic. A retry budget bounds the
// retries of a program. A limit bounds everything that the program sends, first
// attempts included, or what it keeps waiting:
//
//   - [Rate] makes attempts wait for the tokens of a rate limiter.
//   - [AdaptiveRate] does the same at a rate that it finds by itself.
//   - [Throttle] refuses attempts, the more of them the more the service
//     refuses.
//   - [Concurrency] refuses attempts while too many are under way.
//   - [Sleeping] refuses retries while too many calls wait between two
//     attempts.
//
// A limit bounds all policies that share it. It joins with a retry budget, and
// a [backoff.Budgets] keeps one per key. For a service that answers "too much"
// there is package [github.com/gobackoff/backoff/pace].
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
package limit
