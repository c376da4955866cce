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
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
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

// A quota that is used up is no rate.
func TestAWSQuotaThatIsExhaustedForHoursSlowsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer := new(pace.Pacer)
		r := plug.AWS(backoff.Policy{Budget: pacer})
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

// The SDK asks for a retry before it waits.
func TestAWSRetriesTakeNoTokenWhileTheyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &limit.Rate{Limiter: rate.NewLimiter(1, 10)}
		r := plug.AWS(backoff.Policy{MaxAttempts: 2, Budget: budget, Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter})
		began := time.Now()
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				// Calls that share a context may be taken for one another.
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				assert.NoError(t, sdk(ctx, r, false, func(attempt int) error {
					if attempt == 1 {
						return status(503)
					}
					return nil
				}))
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		assert.NoError(t, sdk(ctx, r, false, func(int) error { return nil }))
		require.Equal(t, time.Second, time.Since(began))
		calls.Wait()
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// A first attempt that waits holds no slot.
func TestAWSAttemptsThatWaitHoldNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &limit.Concurrency{Max: 1}
		r := plug.AWS(backoff.Policy{Budget: backoff.JoinBudgets(slots, &limit.Rate{Limiter: rate.NewLimiter(1, 1)})})
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() { assert.NoError(t, sdk(t.Context(), r, false, func(int) error { return nil })) })
		}
		calls.Wait()
		require.Zero(t, slots.Load())
	})
}

func TestAWSGivesBackTheSlotOfARetryThatHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, shared := &limit.Concurrency{Max: 1}, &limit.Concurrency{Max: 1}
		r := plug.AWS(backoff.Policy{MaxAttempts: 2, Budget: backoff.JoinBudgets(mine, shared), Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter})
		ctx, cancel := context.WithCancel(t.Context())
		other := make(chan backoff.Ticket, 1)
		require.Error(t, sdk(ctx, r, false, func(int) error {
			time.AfterFunc(time.Millisecond, func() {
				ticket, _, _ := shared.Reserve(backoff.Attempt{Number: 1})
				other <- ticket
			})
			return status(503)
		}))
		cancel()
		shared.Done(<-other, backoff.Result{})
		synctest.Wait()
		time.Sleep(time.Hour)
		require.Zero(t, mine.Load())
		require.NoError(t, sdk(t.Context(), r, false, func(int) error { return nil }))
	})
}
