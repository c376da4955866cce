package plug_test

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/plug"
)

// awsCode is an error of the SDK with the code of a service.
type awsCode string

func (c awsCode) Error() string     { return string(c) }
func (c awsCode) ErrorCode() string { return string(c) }

func isPaced(p *pace.Pacer) bool {
	perSecond, _ := p.Limit()
	return !math.IsInf(perSecond, 1)
}

func TestAWSThrottlingSlowsCallsDown(t *testing.T) {
	for _, throttled := range []error{awsCode("ThrottlingException"), awsCode("SlowDown"), status(429)} {
		for _, attempts := range []int{1, 2} { // the first attempt, or a retry, is throttled
			synctest.Test(t, func(t *testing.T) {
				pacer := new(pace.Pacer)
				r := plug.AWS(&backoff.Policy{MaxAttempts: attempts, Budget: pacer})
				require.Error(t, sdk(t.Context(), r, false, func(attempt int) error {
					if attempt < attempts {
						return status(503)
					}
					return throttled
				}))
				require.True(t, isPaced(pacer), "%v", throttled)
			})
		}
	}
}

// A quota that is used up is no rate.
func TestAWSQuotaThatIsExhaustedForHoursSlowsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer := new(pace.Pacer)
		r := plug.AWS(&backoff.Policy{Budget: pacer})
		resp := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"3600"}}}
		require.Error(t, sdk(t.Context(), r, false, func(int) error { return tooMany{status(429), &wrapped{resp}} }))
		require.False(t, isPaced(pacer))
		require.Error(t, sdk(t.Context(), r, false, func(int) error { return status(429) }))
		require.True(t, isPaced(pacer))
	})
}

// tooMany is an error with its response, as the SDK has it.
type tooMany struct {
	status
	resp *wrapped
}

func (e tooMany) HTTPResponse() *wrapped { return e.resp }

// Calls wait for their turn as they do under the policy itself.
func TestAWSCallsGoAtThePaceOfAPacer(t *testing.T) {
	took := func(call func(context.Context, *backoff.Policy) error) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			pacer := new(pace.Pacer)
			pacer.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
			began := time.Now()
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() { assert.NoError(t, call(t.Context(), &backoff.Policy{Budget: pacer})) })
			}
			all.Wait()
			took = time.Since(began)
		})
		return took
	}
	direct := took(func(ctx context.Context, p *backoff.Policy) error {
		return p.Do(ctx, func(context.Context) error { return nil })
	})
	through := took(func(ctx context.Context, p *backoff.Policy) error {
		return sdk(ctx, plug.AWS(p), false, func(int) error { return nil })
	})
	require.InDelta(t, direct.Seconds(), through.Seconds(), 0.1)
}
