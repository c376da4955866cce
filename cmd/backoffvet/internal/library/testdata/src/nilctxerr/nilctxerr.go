package nilctxerr

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
)

var policy = backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(2 * time.Second)}

func dial(ctx context.Context) error { return ctx.Err() }

func afterLoop(ctx context.Context) error {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		if dial(ctx) == nil {
			return nil
		}
	}
	return ctx.Err() // want `ctx.Err\(\) may be nil here, .* Return r.Err\(\), which says why`
}

func afterLoopWithMore(ctx context.Context) (int, error) {
	r := policy.Start(ctx)
attempts:
	for ctx := range r.Attempts() {
		if dial(ctx) == nil {
			break attempts
		}
	}
	fmt.Println("gave up")
	return 0, fmt.Errorf("dial: %w", ctx.Err()) // want `may be nil`
}

func cause(ctx context.Context) error {
	r := policy.Start(ctx)
	for range r.Attempts() {
	}
	return context.Cause(ctx) // want `context.Cause\(ctx\) may be nil`
}

func begin(ctx context.Context) error {
	r := policy.Start(ctx)
	attempt, ok := r.Begin(0)
	if !ok {
		return ctx.Err() // want `may be nil`
	}
	for {
		err := dial(attempt)
		if err == nil {
			return nil
		}
		pause, ok := r.Retry(err)
		if !ok {
			return ctx.Err() // want `may be nil`
		}
		if attempt, ok = r.Begin(pause); !ok {
			return ctx.Err() // want `may be nil`
		}
	}
}

func both(ctx context.Context) error {
	r := policy.Start(ctx)
	for {
		pause, ok := r.Retry(dial(ctx))
		if _, began := r.Begin(pause); !ok || !began {
			return ctx.Err() // want `may be nil`
		}
	}
}

func oneOfTwo(ctx context.Context, r *backoff.Run) error {
	if _, ok := r.Begin(0); ctx.Err() != nil || !ok {
		return ctx.Err() // want `may be nil`
	}
	return nil
}

func beginElse(ctx context.Context, r *backoff.Run) error {
	for {
		pause, _ := r.Retry(dial(ctx))
		if _, ok := r.Begin(pause); ok {
			continue
		} else {
			return ctx.Err() // want `may be nil`
		}
	}
}

func beginCase(ctx context.Context, r *backoff.Run) error {
	pause, _ := r.Retry(dial(ctx))
	switch _, ok := r.Begin(pause); {
	case !ok:
		return ctx.Err() // want `may be nil`
	default:
		return nil
	}
}

func loopOfBegin(ctx context.Context, r *backoff.Run) error {
	attempt, ok := r.Begin(0)
	for ok {
		pause, _ := r.Retry(dial(attempt))
		attempt, ok = r.Begin(pause)
	}
	return ctx.Err() // want `may be nil`
}

func do(ctx context.Context) error {
	if err := policy.Do(ctx, dial); err != nil {
		return ctx.Err() // want `Return err, which says why`
	}
	return nil
}

// Those below are right.

func why(ctx context.Context) error {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		r.Fail(dial(ctx))
	}
	return r.Err()
}

func asked(ctx context.Context) error {
	r := policy.Start(ctx)
	for range r.Attempts() {
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := r.Err(); err != nil {
		return err
	}
	return ctx.Err()
}

func askedByCondition(ctx context.Context, r *backoff.Run) error {
	if _, ok := r.Begin(0); !ok && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

func askedBoth(ctx context.Context, r *backoff.Run) error {
	if _, ok := r.Begin(0); ctx.Err() != nil || !ok {
		return cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	return nil
}

func waits(ctx context.Context, r *backoff.Run) error {
	for {
		pause, ok := r.Retry(dial(ctx))
		if !ok {
			return r.Err()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func beforeTheCall(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return policy.Do(ctx, dial)
}

func otherError(ctx context.Context) error {
	err := policy.Do(ctx, dial)
	if err == nil {
		err = dial(ctx)
	}
	if err != nil {
		return ctx.Err()
	}
	return nil
}

func otherLoop(ctx context.Context) error {
	for range 3 {
	}
	return ctx.Err()
}
