package plug

import "time"

// Gax makes a [backoff.Run] the Retryer of gax-go, for all of Google's generated
// clients, one for each call:
//
//	resp, err := client.Get(ctx, req, gax.WithRetry(func() gax.Retryer {
//		return plug.Gax(policy.Start(ctx).Tried)
//	}))
//
// gax makes the attempts and sleeps between them, and asks after each failure only. So
// no attempt has the policy's AttemptTimeout or its idempotency key. MaxElapsed counts
// from the first failure. A Budget is asked for the first attempt when that has failed,
// hears of no success, and its Pace is not called: neither a Pacer nor a HoldOff of
// package pace slows these calls down. For that, and for a breaker, switch gax's loop off
// by gax.WithRetry(nil), and make the call under a guard.Service. Everything else of the
// policy holds. An invalid policy ends the call after its first attempt.
type Gax func(err error) (pause time.Duration, shouldRetry bool)

// Retry implements gax.Retryer. A nil Gax does not retry.
func (g Gax) Retry(err error) (pause time.Duration, shouldRetry bool) {
	if g == nil {
		return 0, false
	}
	return g(err)
}
