package recipes

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

var errLocked = errors.New("locked")

// The operation finds a lock three times, then a broken connection twice.
func TestALockIsTriedEvery50Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, began := t.Context(), time.Now()
		var at []time.Duration
		results := []error{errLocked, errLocked, errLocked, io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, nil}
		write := func(context.Context) error {
			at = append(at, time.Since(began)/time.Millisecond)
			return results[len(at)-1]
		}

		policy := backoff.Policy{Name: "write", MaxAttempts: 10} // 4 would be over after 150 ms
		policy.Jitter = backoff.NoJitter

		err := policy.Do(ctx, func(ctx context.Context) error {
			err := write(ctx)
			if errors.Is(err, errLocked) {
				return backoff.Pushback(err, 50*time.Millisecond)
			}
			return err
		})

		if want := []time.Duration{0, 50, 100, 150, 250, 450}; err != nil || !slices.Equal(at, want) {
			t.Errorf("%v, attempts after %d ms, want %d", err, at, want)
		}
	})
}
