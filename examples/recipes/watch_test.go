package recipes

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

func follow(ctx context.Context, policy backoff.Policy, longPoll func(context.Context, int) (change, next int, err error), apply func(int)) error {
	index := 0 // outlives the failures, so that no change is missed
	watch := func(ctx context.Context) error {
		for {
			change, next, err := longPoll(ctx, index)
			if err != nil {
				return err // the supervisor waits
			}
			apply(change)
			index = next // and the next poll begins at once
		}
	}
	return backoff.Supervisor{Policy: policy}.Run(ctx, watch)
}

// The service answers three polls at once, fails three times, answers one
// after five minutes, and fails again. Then the program stops.
func TestAWatchGoesOnAtOnceAfterAnAnswerAndBacksOffAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		var at []time.Duration
		answers := "aaafffAf"
		longPoll := func(context.Context, int) (change, next int, err error) {
			at = append(at, time.Since(began))
			if len(at) > len(answers) {
				stop()
				return 0, 0, ctx.Err()
			}
			switch answers[len(at)-1] {
			case 'f':
				return 0, 0, errors.New("down")
			case 'A':
				time.Sleep(5 * time.Minute)
			}
			return len(at), len(at), nil
		}
		var applied []int
		apply := func(change int) { applied = append(applied, change) }
		policy := backoff.Policy{Name: "watch", Jitter: backoff.NoJitter}

		follow(ctx, policy, longPoll, apply)

		const ms, minute = time.Millisecond, time.Minute
		want := []time.Duration{0, 0, 0, 0, 100 * ms, 300 * ms, 700 * ms, 5*minute + 700*ms, 5*minute + 800*ms}
		if !slices.Equal(at, want) || !slices.Equal(applied, []int{1, 2, 3, 7}) {
			t.Errorf("polls after %v, want %v; applied %d", at, want, applied)
		}
	})
}
