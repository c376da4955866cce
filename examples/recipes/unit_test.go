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

func TestSaveIsTriedAgain(t *testing.T) {
	failures := 2
	save := func(context.Context) error {
		if failures--; failures >= 0 {
			return errors.New("down")
		}
		return nil
	}

	synctest.Test(t, func(t *testing.T) { // inside, time passes at once
		policy := backoff.Policy{Jitter: backoff.NoJitter}
		began, at := time.Now(), []string{}
		err := policy.Do(t.Context(), func(ctx context.Context) error {
			at = append(at, time.Since(began).String())
			return save(ctx) // fails twice
		})
		if err != nil || !slices.Equal(at, []string{"0s", "100ms", "300ms"}) {
			t.Errorf("%v, attempts at %v", err, at)
		}
	})
}
