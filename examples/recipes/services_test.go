package recipes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

// A service that is up after some time.
func upAfter(d time.Duration) func(context.Context) error {
	began := time.Now()
	return func(context.Context) error {
		if time.Since(began) < d {
			return errors.New("connection refused")
		}
		return nil
	}
}

func TestAProgramWaitsForAllItsServices(t *testing.T) {
	policy := backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(700 * time.Millisecond), Jitter: backoff.NoJitter}
	misspelt := func(context.Context) error { // gives up after 9.3 s, since its next attempt would be at 10 s
		time.Sleep(300 * time.Millisecond)
		return &net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}
	}
	password := func(context.Context) error {
		time.Sleep(100 * time.Millisecond)
		return backoff.Permanent(errPassword)
	}
	for _, row := range []struct {
		checks []func(context.Context) error // nil is up after 9.8 s
		want   []string                      // in the error
		least  time.Duration
	}{
		{checks: []func(context.Context) error{nil, nil}, least: 9800 * time.Millisecond},
		{checks: []func(context.Context) error{nil, misspelt}, want: []string{"1: ", "no such host"}, least: 9800 * time.Millisecond},
		{checks: []func(context.Context) error{nil, password}, want: []string{"0: stopped while it failed: ", "connection refused", "1: ", "wrong password"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var all []dependency
			for i, check := range row.checks {
				if check == nil {
					check = upAfter(9800 * time.Millisecond)
				}
				all = append(all, dependency{fmt.Sprint(i), check})
			}
			began := time.Now()
			err := waitForAll(ctx, policy, all)
			said, took := fmt.Sprint(err), time.Since(began)
			if len(strings.Split(said, "\n")) != max(1, len(row.want)/2) || (err == nil) != (row.want == nil) || took < row.least {
				t.Errorf("%v after %v", err, took)
			}
			for _, want := range row.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q has no %q", said, want)
				}
			}
		})
	}
}

func TestTheErrorNamesTheServicesThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, policy := t.Context(), backoff.Policy{}
		ping := func(context.Context) error { return nil }
		health := func(context.Context) error {
			time.Sleep(time.Second)
			return backoff.Permanent(errPassword)
		}

		err := waitForAll(ctx, policy, []dependency{{"database", ping}, {"search", health}})

		if err == nil || err.Error() != "search: wrong password" {
			t.Error(err)
		}
	})
}
