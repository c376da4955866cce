// Package poll polls: it waits for something that happens elsewhere, such as a
// deployment, a job or a DNS record. It calls a function again and again until
// the function says that it is done.
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
// Polling is not retrying. "Not yet" is a result and not a failure: no budget
// has to pay for the next check, no breaker opens, and no observer gets a
// retry. To share a guard.Service with other calls, use its Do in the function, with
// MaxAttempts 1: the Service sees each check as a call, and "not yet" as a success.
// Checks that fail are retried by the policy. A name that does not exist is such a
// failure, because it may exist soon:
//
//	records := backoff.Policy{
//		Name:        "records",
//		Schedule:    backoff.Exponential{Initial: time.Second},
//		MaxElapsed:  5 * time.Minute,
//		MaxAttempts: -1, // failed checks
//	}
//	err := poll.Until(ctx, records, func(ctx context.Context) (done bool, err error) {
//		texts, err := net.DefaultResolver.LookupTXT(ctx, "_acme-challenge.example.com")
//		return slices.Contains(texts, token), err
//	})
package poll
