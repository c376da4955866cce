package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/poll"
)

// calling is how a call is made under a struct of settings.
type calling = func(ctx context.Context, op func(context.Context) error) error

// edgy returns structs of settings, and how a call is made under each.
func edgy() map[any]calling {
	policy, polled, supervisor := new(backoff.Policy), new(backoff.Policy), new(backoff.Supervisor)
	breaker, service, services := new(backoff.Breaker), new(guard.Service), new(guard.Services)
	budget, pacer, holdOff, hedged := new(backoff.RetryBudget), new(pace.Pacer), new(pace.HoldOff), new(hedge.Hedge)
	return map[any]calling{
		policy:     func(ctx context.Context, op func(context.Context) error) error { return policy.Do(ctx, op) },
		supervisor: func(ctx context.Context, op func(context.Context) error) error { return supervisor.Run(ctx, op) },
		breaker:    breaker.Do,
		service:    func(ctx context.Context, op func(context.Context) error) error { return service.Do(ctx, *policy, op) },
		services: func(ctx context.Context, op func(context.Context) error) error {
			return services.For("x").Do(ctx, *policy, op)
		},
		budget:  backoff.Policy{Budget: budget}.Do,
		pacer:   backoff.Policy{Budget: pacer}.Do,
		holdOff: backoff.Policy{Budget: holdOff}.Do,
		hedged: func(ctx context.Context, op func(context.Context) error) error {
			_, err := hedge.Value(ctx, hedged, func(ctx context.Context) (int, error) { return 0, op(ctx) }, nil)
			return err
		},
		polled: func(ctx context.Context, op func(context.Context) error) error {
			return poll.Until(ctx, *polled, func(ctx context.Context) (bool, error) { return false, op(ctx) })
		},
	}
}

// setNumber sets a field that is a time, a schedule of times, or a count, and reports whether
// it is one.
func setNumber(f reflect.Value, n int64) bool {
	switch {
	case !f.CanSet():
		return false
	case f.Type() == reflect.TypeFor[backoff.Schedule]():
		f.Set(reflect.ValueOf(backoff.Constant(n)))
	case f.Type() == reflect.TypeFor[time.Duration]():
		f.SetInt(n)
	case f.Type() == reflect.TypeFor[int]():
		f.SetInt(int64(int(n)))
	default:
		return false
	}
	return true
}

func TestNoSettingAtTheEdgeOfItsNumbersMakesACallSpinOrHang(t *testing.T) {
	nightly.Long(t)
	for _, edge := range []int64{math.MinInt64, math.MinInt64 + 1, math.MinInt32, -1, 1, math.MaxInt32, math.MaxInt64 - 1, math.MaxInt64} {
		for _, asked := range []time.Duration{0, time.Second, math.MaxInt64} { // by the server
			for field := range 40 {
				synctest.Test(t, func(t *testing.T) {
					for settings, do := range edgy() {
						v := reflect.ValueOf(settings).Elem()
						if field >= v.NumField() || !setNumber(v.Field(field), edge) {
							continue
						}
						name := fmt.Sprint(v.Type(), ".", v.Type().Field(field).Name, " ", edge, " ", asked)
						ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
						began := time.Now()
						var calls atomic.Int64 // a hedge makes several at once
						for range 3 {
							_ = do(ctx, func(context.Context) error {
								n := calls.Add(1)
								require.Less(t, n, int64(100_000), name)
								time.Sleep(100 * time.Millisecond)
								if n%5 == 0 {
									return nil
								}
								return backoff.RetryAfter(backoff.OfClass(errors.New("busy"), backoff.ClassThrottled), asked)
							})
						}
						require.LessOrEqual(t, time.Since(began), time.Hour+time.Second, name)
						cancel()
					}
					time.Sleep(time.Second) // hedges that lost end, too
				})
			}
		}
	}
}
