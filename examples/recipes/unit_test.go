package recipes

import (
	"context"
	"errors"
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
		policy, began := backoff.Policy{Jitter: backoff.NoJitter}, time.Now()
		err := policy.Do(t.Context(), save) // fails twice
		if waited := time.Since(began); err != nil || waited != 300*time.Millisecond {
			t.Errorf("%v after %v", err, waited)
		}
	})
}
