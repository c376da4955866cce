// Package poll waits for something that others do: a deployment, a job, a
// record in the DNS. It looks again and again, until a look says that it is
// done.
//
//	deployment := backoff.Policy{
//		Name:       "deployment",
//		Schedule:   backoff.Constant(5 * time.Second),
//		MaxElapsed: 10 * time.Minute,
//	}
//	err := poll.Until(ctx, deployment, func(ctx context.Context) (done bool, err error) {
//		status, err := client.Status(ctx, id)
//		return status == "running", err
//	})
//
// Polling is not retrying. "Not yet" is an answer, and no failure: no budget
// has to pay for the next look, no breaker opens, and no observer hears of a
// retry. Looks that fail are retried by the policy. A name that does not exist
// is such a failure, because it may exist soon:
//
//	records := backoff.Policy{
//		Name:        "records",
//		Schedule:    backoff.Exponential{Initial: time.Second},
//		MaxElapsed:  5 * time.Minute,
//		MaxAttempts: -1, // failed looks
//	}
//	err := poll.Until(ctx, records, func(ctx context.Context) (done bool, err error) {
//		texts, err := net.DefaultResolver.LookupTXT(ctx, "_acme-challenge.example.com")
//		return slices.Contains(texts, token), err
//	})
package poll
