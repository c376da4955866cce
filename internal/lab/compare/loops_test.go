package compare

import (
	"context"
	"errors"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/gobackoff/backoff"
)

var errDown = errors.New("down")

type operation = func(context.Context) error

// A loop runs an operation at most so many times, with the same delay in
// between and no jitter. Everything else is the library's default.
type loop func(ctx context.Context, attempts int, delay time.Duration, op operation) error

var loops = map[string]loop{
	ours:          oursLoop,
	"cenkalti":    cenkaltiLoop,
	"avast":       avastLoop,
	"sethvargo":   sethvargoLoop,
	"failsafe-go": failsafeLoop,
}

func oursLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	p := backoff.Policy{MaxAttempts: attempts, Schedule: backoff.Constant(delay), Jitter: backoff.NoJitter}
	return p.Do(ctx, op)
}

func cenkaltiLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	_, err := cenkalti.Retry(ctx, valueless(ctx, op), cenkalti.WithBackOff(cenkalti.NewConstantBackOff(delay)),
		cenkalti.WithMaxTries(uint(attempts)))
	return err
}

func avastLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	return avast.New(avast.Context(ctx), avast.Attempts(uint(attempts)), avast.Delay(delay),
		avast.DelayType(avast.FixedDelay)).Do(func() error { return op(ctx) })
}

func avastLastLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	return avast.New(avast.Context(ctx), avast.Attempts(uint(attempts)), avast.Delay(delay),
		avast.DelayType(avast.FixedDelay), avast.LastErrorOnly(true)).Do(func() error { return op(ctx) })
}

// In sethvargo's nothing is retried that is not marked, so everything is.
func sethvargoLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	return sethvargo.Do(ctx, sethvargo.WithMaxRetries(uint64(attempts-1), sethvargo.NewConstant(delay)), marked(op))
}

func failsafeLoop(ctx context.Context, attempts int, delay time.Duration, op operation) error {
	p := retrypolicy.NewBuilder[any]().WithMaxAttempts(attempts).WithDelay(delay).Build()
	return failsafe.With(p).WithContext(ctx).Run(func() error { return op(ctx) })
}

// valueless gives an operation the value that cenkalti's asks for.
func valueless(ctx context.Context, op operation) cenkalti.Operation[struct{}] {
	return func() (struct{}, error) { return struct{}{}, op(ctx) }
}

func marked(op operation) sethvargo.RetryFunc {
	return func(ctx context.Context) error { return sethvargo.RetryableError(op(ctx)) }
}

// failing counts its calls and always fails.
func failing(calls *int) operation {
	return func(context.Context) error {
		*calls++
		return errDown
	}
}
