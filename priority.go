package backoff

import "context"

type patienceKey struct{}

// WithPatience returns a context for calls that matter more or less than others under the
// same policy. Their waits are multiplied by factor, which is above 0: with 0.25
// an emergency call waits a quarter, with 4 a background job four times as long. MaxDelay
// still bounds the result, and a server's hint is not shortened. A limit.Throttle
// refuses the patient rather than the impatient. A factor that is not above 0 counts as 1.
func WithPatience(ctx context.Context, factor float64) context.Context {
	if !(factor > 0) {
		factor = 1
	}
	return context.WithValue(ctx, patienceKey{}, factor)
}

func patience(ctx context.Context) float64 {
	if factor, ok := ctx.Value(patienceKey{}).(float64); ok {
		return factor
	}
	return 1
}
