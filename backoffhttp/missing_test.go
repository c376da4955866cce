package backoffhttp_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// A crawler meets many names that do not exist, and its requests have time. A program
// that waits for a server has set no limit of attempts.
func TestOnlyAPolicyThatWaitsTakesANameAsNotThereYet(t *testing.T) {
	missing := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
	for name, row := range map[string]struct {
		policy backoff.Policy
		want   int
	}{
		"few attempts":            {backoff.Policy{}, 1},
		"any number":              {backoff.Policy{MaxAttempts: -1}, 3},
		"its own word":            {backoff.Policy{MaxAttempts: -1, Classify: backoffhttp.Classify}, 1},
		"of its own, but silent":  {backoff.Policy{MaxAttempts: -1, Classify: func(error) backoff.Class { return backoff.ClassUnknown }}, 3},
		"few, though it has time": {backoff.Policy{MaxElapsed: time.Minute}, 1},
	} {
		for _, guarded := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				base := attempts(step(func(req *http.Request) (*http.Response, error) {
					if n < 3 {
						return nil, missing
					}
					return answer(200)(req)
				}), &n)
				var transport http.RoundTripper = &backoffhttp.Unguarded{Base: base, Policy: row.policy}
				if guarded {
					transport = &backoffhttp.Transport{Base: base, Policy: row.policy}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				resp, err := transport.RoundTrip(newRequest(t, "POST", "http://a.test/", nil).WithContext(ctx))
				require.Equal(t, row.want, n, "%s, guarded %v", name, guarded)
				if row.want == 1 {
					require.ErrorIs(t, err, missing, name)
					return
				}
				require.NoError(t, err, name)
				resp.Body.Close()
			})
		}
	}
}
