package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/limit"
)

// once is a policy whose failures are the call's.
var once = &backoff.Policy{MaxAttempts: 1}

// outage is a service that is down for a while, and records when it was called.
type outage struct {
	began time.Time
	until time.Duration
	err   error
	takes time.Duration

	mu sync.Mutex
	at []time.Duration
}

func newOutage(until time.Duration, err error) *outage {
	return &outage{began: time.Now(), until: until, err: err}
}

func (o *outage) call(context.Context) error {
	age := time.Since(o.began)
	o.mu.Lock()
	o.at = append(o.at, age)
	o.mu.Unlock()
	if age < o.until {
		return o.err
	}
	time.Sleep(o.takes)
	return nil
}

// within runs do under a context that ends after limit.
func within(t *testing.T, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return do(ctx)
}

// breakDown makes three calls that fail, and so shows a Patience that the
// service is down.
func breakDown(t *testing.T, service backoff.Doer) {
	for range 3 {
		require.Error(t, within(t, time.Millisecond, func(ctx context.Context) error {
			return service.Do(ctx, func(context.Context) error { return syscall.ECONNREFUSED })
		}))
	}
}

func TestAPatientCallWaitsForAServiceThatIsDown(t *testing.T) {
	for name, service := range map[string]backoff.Doer{
		"usual stack":   backoff.Stack(&backoff.Patience{}, &backoff.Breaker{}, &backoff.Policy{}),
		"nested":        backoff.Stack(&backoff.Patience{}, backoff.Stack(&backoff.Breaker{}, backoff.Policy{})),
		"breaker alone": backoff.Stack(&backoff.Patience{}, &backoff.Breaker{}),
		"alone":         &backoff.Patience{},
		"Stack of one":  backoff.Stack(&backoff.Patience{}),
		"breaker inside": backoff.Stack(&backoff.Patience{}, &backoff.Policy{Budget: &backoff.RetryBudget{}},
			&backoff.Breaker{OpenFor: backoff.Constant(time.Second)}),
	} {
		for _, why := range []error{syscall.ECONNREFUSED, errBoom} {
			bubble(t, name+", "+why.Error(), func(t *testing.T) {
				o := newOutage(20*time.Second, why)
				require.NoError(t, within(t, time.Minute, func(ctx context.Context) error {
					v, err := backoff.DoValue(ctx, service, func(ctx context.Context) (int, error) { return 7, o.call(ctx) })
					require.Equal(t, 7, v)
					return err
				}))
				require.Less(t, time.Since(o.began), 28*time.Second)
				require.Less(t, len(o.at), 70)
				require.NoError(t, service.Do(t.Context(), o.call), "and then it is as before")
			})
		}
	}
}

func TestWhatWaitingDoesNotMendIsReturnedAtOnce(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		policy *backoff.Policy
		err    error
		want   error
	}{
		"a definitive answer":  {nil, &backoff.Policy{}, backoff.Permanent(errBoom), errBoom},
		"by a classifier":      {nil, &backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return false })}, errBoom, errBoom},
		"not idempotent":       {nil, &backoff.Policy{Idempotency: backoff.NonIdempotent}, errBoom, errBoom},
		"not so, out of tries": {nil, &backoff.Policy{Idempotency: backoff.NonIdempotent, MaxAttempts: 1}, errBoom, backoff.ErrExhausted},
		"do not retry":         {nil, &backoff.Policy{}, backoff.OfClass(errBoom, backoff.ClassOverloaded), errBoom},
		"so, without a policy": {nil, nil, backoff.OfClass(errBoom, backoff.ClassOverloaded), errBoom},
		"a quota is used up":   {nil, &backoff.Policy{}, backoff.RetryAfter(errBoom, time.Hour), backoff.ErrExhausted},
		"op was cancelled":     {nil, &backoff.Policy{}, context.Canceled, context.Canceled},
		"invalid":              {nil, &backoff.Policy{Schedule: backoff.Constant(-1)}, nil, nil},
		"the caller left":      {canceled, &backoff.Policy{}, nil, context.Canceled},
		"another loop gave up": {nil, &backoff.Policy{}, gaveUpElsewhere{}, gaveUpElsewhere{}},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, began, patience := t.Context(), time.Now(), &backoff.Patience{}
			if c.ctx != nil {
				ctx = c.ctx
			}
			service := backoff.Stack(patience)
			if c.policy != nil {
				service = backoff.Stack(patience, c.policy)
			}
			err := service.Do(ctx, func(context.Context) error { return c.err })
			require.Error(t, err)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			require.Zero(t, time.Since(began))
		})
	}
}

// gaveUpElsewhere is what a loop of the AWS SDK gave up on.
type gaveUpElsewhere struct{}

func (gaveUpElsewhere) Error() string        { return "exceeded maximum number of attempts" }
func (gaveUpElsewhere) RetryableError() bool { return false }
func (gaveUpElsewhere) Is(target error) bool { return target == gaveUpElsewhere{} }
func (gaveUpElsewhere) CanceledError() bool  { return false }

func TestWhileTheServiceIsDownOneProbeGoesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(&backoff.Patience{}, once)
		o := newOutage(time.Minute, syscall.ECONNREFUSED)
		var wg sync.WaitGroup
		for range 100 {
			synctest.Wait() // or all could be under way when the service is found to be down
			wg.Go(func() {
				require.NoError(t, within(t, 2*time.Minute, func(ctx context.Context) error { return service.Do(ctx, o.call) }))
			})
		}
		wg.Wait()
		failed := slices.IndexFunc(o.at, func(at time.Duration) bool { return at > 0 })
		require.Equal(t, 3, failed, "three calls fail, and no other one goes")
		probes, gap := 0, 250*time.Millisecond
		for before := time.Duration(0); before < time.Minute; probes++ {
			at := o.at[failed+probes]
			require.InDelta(t, gap, at-before, 0.2*float64(gap)+1, "probe %d", probes)
			before, gap = at, min(gap*6/5, 5*time.Second)
		}
		require.InDelta(t, 23, probes, 3)
		require.Len(t, o.at, failed+probes+99, "the last probe succeeds")
	})
}

func TestNoProbeGoesBeforeTheCircuitMayBeTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(&backoff.Patience{}, &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(10 * time.Second), Jitter: backoff.NoJitter}, once)
		o := newOutage(15*time.Second, syscall.ECONNREFUSED)
		require.NoError(t, within(t, time.Minute, func(ctx context.Context) error { return service.Do(ctx, o.call) }))
		require.Equal(t, msec(0, 10_000, 20_000), o.at)
	})
}

// A call that cannot be served in its time ends now, as under a policy.
func TestACallThatHasNoTimeForTheCircuitEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := &backoff.Breaker{Name: "db", OpenFor: backoff.Constant(time.Minute)}
		service := backoff.Stack(&backoff.Patience{}, breaker, once)
		require.Error(t, within(t, time.Second, func(ctx context.Context) error {
			return service.Do(ctx, func(context.Context) error { breaker.Trip(); return errBoom })
		}))
		began := time.Now()
		for range 2 {
			err := within(t, 5*time.Second, func(ctx context.Context) error { return service.Do(ctx, okay) })
			require.ErrorIs(t, err, backoff.ErrOpen)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, errBoom, "which happened to another call")
			require.EqualError(t, err, "backoff: did not wait: the next wait would pass the deadline: db: circuit open")
		}
		require.Zero(t, time.Since(began))
	})
}

func okay(context.Context) error { return nil }

// The usual number in flight is 2, as 20 calls a second take 100 ms each.
func TestAfterAnOutageCallsFollowByTheNumberInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(&backoff.Patience{}, once)
		var down atomic.Bool
		var inFlight, most, served atomic.Int64
		op := func(context.Context) error {
			if down.Load() {
				return syscall.ECONNREFUSED
			}
			n := inFlight.Add(1)
			defer inFlight.Add(-1)
			for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			time.Sleep(100 * time.Millisecond)
			served.Add(1)
			return nil
		}
		var wg sync.WaitGroup
		calls := func(n int, every time.Duration) {
			for range n {
				wg.Go(func() { require.NoError(t, service.Do(t.Context(), op)) })
				time.Sleep(every)
			}
		}
		calls(400, 50*time.Millisecond)
		wg.Wait()
		down.Store(true)
		calls(200, 50*time.Millisecond)
		most.Store(0)
		down.Store(false)
		served.Store(0)
		calls(20, 50*time.Millisecond) // new calls stand behind
		wg.Wait()
		require.Equal(t, int64(220), served.Load())
		require.LessOrEqual(t, most.Load(), int64(6))
		require.GreaterOrEqual(t, most.Load(), int64(2))
	})
}

// A call that waits between its attempts leaves its place to others. Counted by
// calls, 10 places for calls that sleep 900 of 1000 ms would serve 10 a second.
func TestACallThatSleepsBetweenItsAttemptsHoldsNoPlace(t *testing.T) {
	policy := &backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
	for name, do := range map[string]func(*backoff.Patience, context.Context, func(context.Context) error) error{
		"Stack": func(p *backoff.Patience, ctx context.Context, op func(context.Context) error) error {
			return backoff.Stack(p, policy).Do(ctx, op)
		},
		"Do around Do": func(p *backoff.Patience, ctx context.Context, op func(context.Context) error) error {
			return p.Do(ctx, func(ctx context.Context) error { return policy.Do(ctx, op) })
		},
		"Do around a range loop": func(p *backoff.Patience, ctx context.Context, op func(context.Context) error) error {
			return p.Do(ctx, func(ctx context.Context) error {
				r := policy.Start(ctx)
				for ctx := range r.Attempts() {
					err := op(ctx)
					if err == nil {
						return nil
					}
					r.Fail(err)
				}
				return r.Err()
			})
		},
	} {
		bubble(t, name, func(t *testing.T) {
			patience := &backoff.Patience{}
			breakDown(t, patience)
			began := time.Now()
			var wg sync.WaitGroup
			for range 200 {
				wg.Go(func() {
					n := 0
					require.NoError(t, do(patience, t.Context(), func(context.Context) error {
						time.Sleep(10 * time.Millisecond)
						if n++; n == 1 {
							return errBoom
						}
						return nil
					}))
				})
			}
			wg.Wait()
			require.Less(t, time.Since(began), 12*time.Second)
		})
	}
}

func TestAPatientCallThatEndsSaysWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(&backoff.Patience{Name: "search"}, &backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)})
		refuse := func(context.Context) error { return fmt.Errorf("dial: %w", syscall.ECONNREFUSED) }
		err := within(t, 600*time.Millisecond, func(ctx context.Context) error { return service.Do(ctx, refuse) })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		gave := gaveUp(t, err)
		require.Equal(t, backoff.ReasonDeadline, gave.Reason)
		require.Zero(t, gave.Elapsed, "how long the call took before it waited is not known")
		require.Positive(t, gave.Attempts)
		require.Zero(t, gave.Attempts%2)
		require.EqualError(t, err, "backoff: search: waited 600ms for its turn: context deadline exceeded: gave up after 2 attempts: dial: connection refused")
		require.False(t, (&backoff.Policy{}).Retryable(err), "policies around do not retry it")

		service = backoff.Stack(&backoff.Patience{Name: "search"}, &backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)})
		breakDown(t, service)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(errors.New("shutting down")) })
		err = service.Do(ctx, refuse)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, backoff.ErrOpen, "it was not made")
		require.NotErrorIs(t, err, syscall.ECONNREFUSED, "which happened to others")
		require.EqualError(t, err, "backoff: search: waited 100ms for its turn: shutting down: search: circuit open: connection refused")

		err = within(t, 260*time.Millisecond, func(ctx context.Context) error { return service.Do(ctx, refuse) })
		require.True(t, strings.HasPrefix(err.Error(), "backoff: search: waited 260ms for the service to come back, 1 probe: "), err)
		err = within(t, time.Minute, func(ctx context.Context) error { return service.Do(ctx, refuse) })
		require.Regexp(t, "waited 1m0s for the service to come back, [0-9]+ probes: context deadline exceeded: gave up after 2 attempts: dial", err.Error())
	})
}

// The last thing that a server said is not lost where a circuit refuses later.
func TestARefusalDoesNotHideTheLastFailureOfAPatientCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{3 * time.Second, time.Minute} {
			breaker := &backoff.Breaker{}
			service := backoff.Stack(&backoff.Patience{}, breaker, once)
			err := within(t, limit, func(ctx context.Context) error {
				return service.Do(ctx, func(context.Context) error {
					breaker.Force(backoff.ModeForcedOpen)
					return errBoom
				})
			})
			require.ErrorIs(t, err, errBoom)
			require.ErrorIs(t, err, backoff.ErrOpen)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
}

func TestTheContextMayCutTheLastAttemptOfAPatientCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := within(t, time.Second, func(ctx context.Context) error {
			return backoff.Stack(&backoff.Patience{}, once).Do(ctx, func(ctx context.Context) error {
				if n++; n == 1 {
					return errBoom
				}
				<-ctx.Done()
				return ctx.Err()
			})
		})
		require.ErrorIs(t, err, errBoom)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, errBoom, backoff.Cause(err))
	})
}

// So it is where too many others wait by then.
func TestTheLastFailureIsNotLostWhereTooManyWait(t *testing.T) {
	busy := fmt.Errorf("%w: all places are taken", backoff.ErrBudget)
	invalid := &backoff.Error{Reason: backoff.ReasonInvalid}
	for refusal, why := range map[error]backoff.Reason{
		&backoff.OpenError{State: backoff.BreakerHalfOpen}: backoff.ReasonOpen,
		busy: backoff.ReasonBudget,
		&backoff.Error{Reason: backoff.ReasonBudget}:                           backoff.ReasonBudget,
		&backoff.Error{Reason: backoff.ReasonOpen, Attempts: 1, Last: errBoom}: backoff.ReasonOpen,
		invalid: backoff.ReasonInvalid,
	} {
		synctest.Test(t, func(t *testing.T) {
			patience := &backoff.Patience{MaxWaiting: 1}
			var wg sync.WaitGroup
			n := 0
			err := patience.Do(t.Context(), func(context.Context) error {
				if n++; n == 1 {
					return errBoom
				}
				wg.Go(func() { // takes the only place in the line
					_ = within(t, time.Second, func(ctx context.Context) error {
						return patience.Do(ctx, func(context.Context) error { return errBoom })
					})
				})
				synctest.Wait()
				return refusal
			})
			gave := gaveUp(t, err)
			require.Equal(t, why, gave.Reason, err)
			require.ErrorIs(t, err, errBoom)
			require.ErrorIs(t, err, refusal)
			wg.Wait()
		})
	}
}

func TestMaxWaitingBoundsTheLine(t *testing.T) {
	for most, want := range map[int]int{0: 10_000, 5: 5, -1: 11_000} {
		calls := min(50+want, 11_000)
		bubble(t, fmt.Sprint(most), func(t *testing.T) {
			patience := &backoff.Patience{MaxWaiting: most}
			breakDown(t, backoff.Stack(patience, once))
			var refused atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range calls {
				wg.Go(func() {
					err := patience.Do(ctx, okay)
					if !errors.Is(err, context.Canceled) {
						require.ErrorIs(t, err, backoff.ErrOpen)
						refused.Add(1)
					}
				})
			}
			synctest.Wait()
			require.Equal(t, calls-want, int(refused.Load()))
			cancel()
			wg.Wait()
			require.NoError(t, patience.Do(t.Context(), okay))
		})
	}
}

func TestAFailureBeyondMaxWaitingIsTheCallsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patience := &backoff.Patience{MaxWaiting: 1}
		var wg sync.WaitGroup
		var early atomic.Int64
		for range 2 {
			wg.Go(func() {
				began := time.Now()
				err := within(t, time.Second, func(ctx context.Context) error {
					return backoff.Stack(patience, once).Do(ctx, func(context.Context) error { return errBoom })
				})
				if time.Since(began) == 0 {
					early.Add(1)
					require.EqualError(t, err, "backoff: gave up after 1 attempt: boom")
				}
			})
		}
		wg.Wait()
		require.Equal(t, int64(1), early.Load())
	})
}

func TestCallsThatMatterMoreGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patience := &backoff.Patience{}
		breakDown(t, patience)
		var wg sync.WaitGroup
		var order []backoff.Priority
		for _, p := range []backoff.Priority{backoff.PriorityBackground, backoff.PriorityNormal, backoff.PriorityCritical, backoff.PriorityHigh, backoff.PriorityBackground, backoff.PriorityCritical} {
			wg.Go(func() {
				require.NoError(t, patience.Do(backoff.WithPriority(t.Context(), p), func(context.Context) error {
					order = append(order, p)
					return nil
				}))
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, []backoff.Priority{backoff.PriorityCritical, backoff.PriorityCritical, backoff.PriorityHigh, backoff.PriorityNormal, backoff.PriorityBackground, backoff.PriorityBackground}, order)
	})
}

// The place of a probe that ends in no usual way is not lost.
func TestAnotherProbeFollowsOneThatPanicsExitsOrHangs(t *testing.T) {
	for name, op := range map[string]func(context.Context) error{
		"panic":  func(context.Context) error { panic("bug") },
		"Goexit": func(context.Context) error { runtime.Goexit(); return nil },
		"hang":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"cancel": func(ctx context.Context) error { return context.Canceled },
	} {
		bubble(t, name, func(t *testing.T) {
			patience := &backoff.Patience{}
			service := backoff.Stack(patience, once)
			breakDown(t, service)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := time.Now()
			var second time.Duration
			var wg sync.WaitGroup
			wg.Go(func() {
				require.NoError(t, service.Do(t.Context(), okay))
				second = time.Since(began)
			})
			synctest.Wait()
			go func() {
				defer func() { _ = recover() }()
				_ = service.Do(ctx, op)
			}()
			wg.Wait()
			require.Less(t, second, 6*time.Second)
			require.Greater(t, second, 400*time.Millisecond)
		})
	}
}

// A bulkhead is no outage: others pass, and each success makes room.
func TestACallThatABulkheadRefusesWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(&backoff.Patience{}, &backoff.Breaker{}, &backoff.Policy{Budget: &limit.Concurrency{Max: 10}})
		began := time.Now()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				require.NoError(t, service.Do(t.Context(), func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil }))
			})
		}
		wg.Wait()
		require.LessOrEqual(t, time.Since(began), 4*time.Second, "2 s if all ten places are always taken")
	})
}

func TestAPatientCallObeysTheWaitThatItsServerAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(&backoff.Patience{}, once)
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 100 { // others succeed
				require.NoError(t, service.Do(t.Context(), okay))
				time.Sleep(100 * time.Millisecond)
			}
		})
		n := 0
		require.NoError(t, service.Do(t.Context(), func(context.Context) error {
			if n++; n == 1 {
				return backoff.RetryAfter(errBoom, 5*time.Second)
			}
			return nil
		}))
		require.GreaterOrEqual(t, time.Since(began), 5*time.Second)

		err := within(t, time.Second, func(ctx context.Context) error {
			return service.Do(ctx, func(context.Context) error { return backoff.RetryAfter(errBoom, 5*time.Second) })
		})
		require.ErrorIs(t, err, errBoom)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err = service.Do(ctx, func(context.Context) error { return backoff.RetryAfter(errBoom, 5*time.Second) })
		require.ErrorIs(t, err, context.Canceled)
		wg.Wait()
	})
}

// What is wrong with a call itself costs the service a few attempts, and no
// more.
// Others may still have theirs.
func TestAQuotaThatIsUsedUpHoldsNoOtherCall(t *testing.T) {
	throttled := func(context.Context) error {
		return backoff.RetryAfter(backoff.OfClass(errBoom, backoff.ClassThrottled), time.Hour)
	}
	for name, inner := range map[string][]backoff.Doer{
		"usual stack": {&backoff.Breaker{}, &backoff.Policy{}},
		"policy":      {&backoff.Policy{}},
		"alone":       {},
	} {
		bubble(t, name, func(t *testing.T) {
			service := backoff.Stack(append([]backoff.Doer{&backoff.Patience{}}, inner...)...)
			for range 10 {
				require.Error(t, within(t, time.Minute, func(ctx context.Context) error { return service.Do(ctx, throttled) }))
				time.Sleep(time.Second)
			}
			began := time.Now()
			require.NoError(t, within(t, time.Minute, func(ctx context.Context) error { return service.Do(ctx, okay) }))
			require.Zero(t, time.Since(began))
		})
	}
}

// So one response does not end the work of a day.
func TestAServiceThatAsksForHoursIsTriedAfterFiveMinutes(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		service := backoff.Stack(&backoff.Patience{}, &backoff.Policy{})
		for range 3 {
			require.Error(t, service.Do(t.Context(), func(context.Context) error {
				time.Sleep(time.Second)
				return backoff.RetryAfter(errBoom, 10*time.Hour)
			}))
		}
		began := time.Now()
		require.NoError(t, service.Do(t.Context(), okay))
		require.Equal(t, 5*time.Minute, time.Since(began))
	})
}

func TestACallWhoseFaultIsItsOwnIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(&backoff.Patience{}, &backoff.Policy{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = service.Do(ctx, okay)
				time.Sleep(10 * time.Millisecond)
			}
		})
		n := 0
		err := service.Do(t.Context(), func(context.Context) error { n++; return errBoom })
		require.EqualError(t, err, "backoff: gave up after 4 attempts: boom")
		require.Equal(t, 4+16, n)
		cancel()
		wg.Wait()
	})
}

// However many attempts a policy has made while no other call was answered.
func TestManyAttemptsAreNoFaultOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(&backoff.Patience{}, &backoff.Policy{MaxAttempts: 20})
		n := 0
		require.NoError(t, within(t, 30*time.Minute, func(ctx context.Context) error {
			return service.Do(ctx, func(context.Context) error {
				if n++; n <= 50 {
					return errBoom
				}
				return nil
			})
		}))
	})
}

func TestAPatientCallKeepsTheKeyThatItsPolicyMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		service := backoff.Stack(&backoff.Patience{}, &backoff.Policy{Idempotency: backoff.Keyed, MaxAttempts: 2})
		require.NoError(t, service.Do(t.Context(), func(ctx context.Context) error {
			if keys = append(keys, backoff.IdempotencyKey(ctx)); len(keys) < 7 {
				return errBoom
			}
			return nil
		}))
		require.NotEmpty(t, keys[0])
		for _, key := range keys {
			require.Equal(t, keys[0], key)
		}
	})
}

// A retry policy that gave up between two attempts has asked already whether the
// operation may be repeated.
func TestACallThatABudgetEndedBetweenTwoAttemptsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		service := backoff.Stack(&backoff.Patience{}, &backoff.Policy{Idempotency: backoff.NonIdempotent, Budget: &clerk{depart: func(n int) bool { return n%2 == 1 }}})
		require.NoError(t, within(t, time.Minute, func(ctx context.Context) error {
			return service.Do(ctx, func(context.Context) error {
				if n++; n < 3 {
					return syscall.ECONNREFUSED
				}
				return nil
			})
		}))
		require.Equal(t, 3, n)
	})
}

// Each of ten loops in an operation sleeps, and the operation has one place.
func TestLoopsThatSleepAtTheSameTimeGiveOnePlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patience := &backoff.Patience{}
		policy := &backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		for range 3 {
			require.NoError(t, patience.Do(t.Context(), func(ctx context.Context) error {
				var wg sync.WaitGroup
				for range 10 {
					wg.Go(func() { _ = policy.Do(ctx, func(context.Context) error { return errBoom }) })
				}
				wg.Wait()
				return nil
			}))
		}
		breakDown(t, patience)
		require.NoError(t, patience.Do(t.Context(), okay))
	})
}

var errTooMany = backoff.OfClass(errors.New("too many requests"), backoff.ClassThrottled)

// doWithin is p.Do under a context that ends after limit.
func doWithin(t *testing.T, p backoff.Doer, limit time.Duration, op func(context.Context) error) error {
	return within(t, limit, func(ctx context.Context) error { return p.Do(ctx, op) })
}

// How long a call may take is not known from one call.
func TestOneSlowCallDoesNotKeepCallsWithLessTimeFromTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		breakDown(t, p)
		require.NoError(t, p.Do(t.Context(), func(context.Context) error { // the probe
			time.Sleep(40 * time.Second)
			return nil
		}))
		breakDown(t, p) // and the service is back at once
		for range 100 {
			require.NoError(t, doWithin(t, p, time.Minute, func(context.Context) error { return nil }))
			time.Sleep(time.Second)
		}
	})
}

// A call that was refused once for want of room is soon let go, whatever a slow
// call took.
func TestOneSlowCallDoesNotEndCallsThatWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		afterARefusal := func(takes time.Duration) func(context.Context) error {
			refused := false
			return func(context.Context) error {
				if !refused {
					refused = true
					return backoff.ErrBudget
				}
				time.Sleep(takes)
				return nil
			}
		}
		require.NoError(t, p.Do(t.Context(), afterARefusal(40*time.Second)))
		served := 0
		for range 100 {
			if doWithin(t, p, time.Minute, afterARefusal(0)) == nil {
				served++
			}
			time.Sleep(time.Second)
		}
		require.Greater(t, served, 90)
	})
}

// The probe must have time for an answer. The newest call may have none.
func TestAProbeIsACallThatHasTime(t *testing.T) {
	for _, limit := range []time.Duration{time.Hour, 4 * time.Second} {
		testProbesHaveTime(t, limit)
	}
}

// testProbesHaveTime makes calls that have limit beside others that have too
// little time.
func testProbesHaveTime(t *testing.T, limit time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		var up atomic.Bool
		op := func(ctx context.Context) error {
			if !up.Load() {
				return syscall.ECONNREFUSED
			}
			select {
			case <-time.After(300 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var calls sync.WaitGroup
		var served atomic.Int64
		for i := range 3000 { // in a minute
			calls.Go(func() { _ = doWithin(t, p, 200*time.Millisecond, op) })
			if i%100 == 0 {
				calls.Go(func() {
					if doWithin(t, p, limit, op) == nil {
						served.Add(1)
					}
				})
			}
			if i == 50 {
				up.Store(true)
			}
			time.Sleep(20 * time.Millisecond)
		}
		calls.Wait()
		require.GreaterOrEqual(t, served.Load(), int64(25), "of 30")
	})
}

// comingBack is a service that is down until it is up, and counts the calls that it
// serves now.
type comingBack struct {
	up    atomic.Bool
	takes time.Duration
	now   atomic.Int64
}

func (s *comingBack) call(context.Context) error {
	if !s.up.Load() {
		return syscall.ECONNREFUSED
	}
	s.now.Add(1)
	time.Sleep(s.takes)
	s.now.Add(-1)
	return nil
}

// A connection that is cut off does not answer for minutes.
func TestCallsThatHangFromAnOutageDoNotSlowTheOthersAfterIt(t *testing.T) {
	for _, asleep := range []int{0, 60} { // calls whose policies sleep between two attempts
		synctest.Test(t, func(t *testing.T) {
			p := new(backoff.Patience)
			service := &comingBack{takes: 5 * time.Millisecond}
			slow := backoff.Stack(p, &backoff.Policy{MaxAttempts: 6, Schedule: backoff.Constant(2 * time.Second)})
			quick := backoff.Stack(p, &backoff.Policy{MaxAttempts: 1})
			var calls, old sync.WaitGroup
			service.up.Store(true)
			for range 2000 {
				calls.Go(func() { _ = quick.Do(t.Context(), service.call) })
				time.Sleep(time.Millisecond)
			}
			calls.Wait()
			service.up.Store(false)
			cut := make(chan struct{})
			for range 40 {
				old.Go(func() { _ = slow.Do(t.Context(), func(context.Context) error { <-cut; return nil }) })
			}
			for range asleep {
				old.Go(func() { _ = slow.Do(t.Context(), service.call) })
			}
			synctest.Wait()
			for range 500 {
				calls.Go(func() { _ = quick.Do(t.Context(), service.call) })
			}
			time.Sleep(time.Second)
			service.up.Store(true)
			began := time.Now()
			calls.Wait()
			require.Less(t, time.Since(began), 10*time.Second)
			close(cut)
			old.Wait()
		})
	}
}

// A loop that goes to sleep gives back the place that it took, and no other.
func TestLoopsThatGoToSleepLetNoStampedeGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		service := &comingBack{takes: time.Second}
		loop := &backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(10 * time.Second)}
		cut := make(chan struct{})
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				attempts := 0
				_ = p.Do(t.Context(), func(ctx context.Context) error {
					return loop.Do(ctx, func(context.Context) error {
						if attempts++; attempts > 1 {
							return nil
						}
						<-cut
						return errDown
					})
				})
			})
		}
		synctest.Wait()
		for range 100 {
			all.Go(func() { _ = p.Do(t.Context(), service.call) })
		}
		time.Sleep(2 * time.Second)
		service.up.Store(true)
		for service.now.Load() == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(1100 * time.Millisecond) // the first ones were served
		before := service.now.Load()
		close(cut)
		time.Sleep(10 * time.Millisecond)
		require.Less(t, service.now.Load(), before+10)
		all.Wait()
	})
}

// A response that throttles may be about one caller.
func TestAThrottledCallerDoesNotKeepTheOthersWaitingAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(new(backoff.Patience), &backoff.Policy{MaxAttempts: 1})
		ctx, stop := context.WithCancel(t.Context())
		var down atomic.Bool
		var worst, throttled atomic.Int64
		var all sync.WaitGroup
		client := func(answer error, every, has time.Duration) {
			call := func() {
				ctx, cancel := context.WithTimeout(ctx, has)
				defer cancel()
				began := time.Now()
				_ = service.Do(ctx, func(context.Context) error {
					time.Sleep(5 * time.Millisecond)
					if down.Load() {
						return syscall.ECONNREFUSED
					}
					if answer != nil {
						throttled.Add(1)
					}
					return answer
				})
				if answer == nil {
					worst.Store(max(worst.Load(), int64(time.Since(began))))
				}
			}
			all.Go(func() {
				for ; ctx.Err() == nil; time.Sleep(every) {
					all.Go(call)
				}
			})
		}
		client(nil, 100*time.Millisecond, 2*time.Minute)
		client(errTooMany, 20*time.Millisecond, time.Minute)
		time.Sleep(30 * time.Second)
		down.Store(true)
		time.Sleep(20 * time.Second)
		down.Store(false)
		time.Sleep(2 * time.Minute)
		worst.Store(0)
		throttled.Store(0)
		time.Sleep(time.Minute)
		require.Less(t, time.Duration(worst.Load()), 5*time.Second)
		require.Less(t, throttled.Load(), int64(60*50*10), "a call is throttled once, and some ten times more in its minute")
		stop()
		all.Wait()
	})
}

// A gateway may throttle one caller while the service behind it is down.
func TestAThrottledCallerDoesNotEndTheJobsOfOthersInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(new(backoff.Patience), &backoff.Policy{MaxAttempts: 1})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var failed atomic.Int64
		for range 20 {
			all.Go(func() {
				_ = service.Do(ctx, func(context.Context) error {
					time.Sleep(5 * time.Millisecond)
					failed.Add(1)
					return backoff.OfClass(errDown, backoff.ClassRetryable)
				})
				require.Error(t, ctx.Err(), "it was given up")
			})
		}
		time.Sleep(10 * time.Second)
		failed.Store(0)
		for range 6000 { // in ten minutes
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				_ = service.Do(ctx, func(context.Context) error {
					time.Sleep(5 * time.Millisecond)
					return errTooMany
				})
			})
			time.Sleep(100 * time.Millisecond)
		}
		require.Less(t, failed.Load(), int64(600))
		stop()
		all.Wait()
	})
}

// A service that is back may be full: it throttles, and nobody is served yet.
func TestAServiceThatThrottlesEverybodyAfterAnOutageIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(new(backoff.Patience), &backoff.Policy{MaxAttempts: 1})
		var answer atomic.Pointer[error]
		set := func(err error) { answer.Store(&err) }
		set(syscall.ECONNREFUSED)
		var all sync.WaitGroup
		var sent, served atomic.Int64
		for range 2000 {
			all.Go(func() {
				if service.Do(t.Context(), func(context.Context) error {
					time.Sleep(5 * time.Millisecond)
					sent.Add(1)
					return *answer.Load()
				}) == nil {
					served.Add(1)
				}
			})
		}
		time.Sleep(20 * time.Second)
		set(errTooMany)
		time.Sleep(30 * time.Second)
		sent.Store(0)
		time.Sleep(time.Minute)
		require.Less(t, sent.Load(), int64(60))
		set(nil)
		time.Sleep(30 * time.Second)
		require.Equal(t, int64(2000), served.Load())
		all.Wait()
	})
}

func TestACallThatWasThrottledOnceIsNotKeptByCallsThatAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		ctx, stop := context.WithCancel(t.Context())
		var all, calls sync.WaitGroup
		all.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
				_ = p.Do(ctx, func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil })
			}
		})
		time.Sleep(5 * time.Minute)
		for range 20 {
			all.Go(func() { _ = p.Do(ctx, func(context.Context) error { time.Sleep(2 * time.Minute); return nil }) })
		}
		time.Sleep(time.Second)
		for range 10 {
			calls.Go(func() {
				throttled := false
				require.NoError(t, doWithin(t, p, 30*time.Second, func(context.Context) error {
					if !throttled {
						throttled = true
						return errTooMany
					}
					return nil
				}))
			})
		}
		calls.Wait()
		stop()
		all.Wait()
	})
}

// The key of a step is not that of the call.
func TestAPatientCallKeepsItsOwnKey(t *testing.T) {
	for _, ofStep := range []func(context.Context) context.Context{
		func(ctx context.Context) context.Context { return backoff.WithIdempotencyKey(ctx, "step") },
		func(context.Context) context.Context { return context.Background() },
	} {
		for _, idempotency := range []backoff.Idempotency{backoff.Keyed, backoff.Idempotent} {
			synctest.Test(t, func(t *testing.T) {
				p, step := new(backoff.Patience), &backoff.Policy{MaxAttempts: 1, Idempotency: idempotency}
				var keys []string
				ctx := backoff.WithIdempotencyKey(t.Context(), "call")
				require.NoError(t, p.Do(ctx, func(ctx context.Context) error {
					keys = append(keys, backoff.IdempotencyKey(ctx))
					return step.Do(ofStep(ctx), func(context.Context) error {
						if len(keys) < 3 {
							return syscall.ECONNREFUSED
						}
						return nil
					})
				}))
				require.Equal(t, []string{"call", "call", "call"}, keys)
			})
		}
	}
}

// madeElsewhere is the Idempotency of a call whose key somebody else has made.
type madeElsewhere struct{ backoff.Idempotency }

func (madeElsewhere) MadeKey() string { return "made" }

func TestAPatientCallKeepsTheKeyThatWasMadeElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &backoff.Policy{MaxAttempts: 2, Idempotency: madeElsewhere{backoff.Idempotent}}
		var keys []string
		require.NoError(t, new(backoff.Patience).Do(t.Context(), func(ctx context.Context) error {
			keys = append(keys, backoff.IdempotencyKey(ctx))
			return policy.Do(ctx, func(context.Context) error {
				if len(keys) < 3 {
					return syscall.ECONNREFUSED
				}
				return nil
			})
		}))
		require.Equal(t, []string{"", "made", "made"}, keys)
	})
}

// carelessError panics when it is asked.
type carelessError struct{}

func (carelessError) Error() string             { return "careless" }
func (carelessError) RetryAfter() time.Duration { panic("careless") }

func TestACallWhoseErrorPanicsHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		for range 3 {
			time.Sleep(time.Second)
			require.Panics(t, func() { _ = p.Do(t.Context(), func(context.Context) error { return carelessError{} }) })
		}
		began := time.Now()
		require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
		require.Positive(t, time.Since(began), "the service was taken for down, and the call for a probe")
	})
}

// queueing is a service that serves one attempt after the other, each 5 ms
// later besides. It also serves those whose callers have left.
type queueing struct {
	rate  func(age time.Duration) float64 // attempts a second; 0: it hangs, less: connections are refused
	fails float64                         // the share of answers that are failures
	room  time.Duration                   // of work that it takes in

	began     time.Time
	mu        sync.Mutex
	busy      time.Time
	worst     time.Duration // work that waited
	whileDown int           // attempts
}

func (s *queueing) serve(ctx context.Context) error {
	wait, err := s.enqueue()
	if err != nil {
		return err
	}
	select {
	case <-time.After(wait + 5*time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	if rand.Float64() < s.fails {
		return errors.New("status 503")
	}
	return nil
}

// enqueue takes an attempt in, and returns when it will be served.
func (s *queueing) enqueue() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	rate := s.rate(now.Sub(s.began))
	if s.busy.Before(now) {
		s.busy = now
	}
	switch {
	case rate < 0:
		s.whileDown++
		return 0, syscall.ECONNREFUSED
	case rate == 0:
		return time.Hour, nil
	case s.busy.Sub(now) > s.room:
		return 0, errors.New("queue is full")
	}
	s.busy = s.busy.Add(time.Duration(float64(time.Second) / rate))
	s.worst = max(s.worst, s.busy.Sub(now))
	return s.busy.Sub(now), nil
}

// load is calls to a service.
type load struct {
	perSecond float64
	lasts     time.Duration
	limit     time.Duration // of each call
	processes int

	calls, good [100]atomic.Int64 // in each two seconds
}

// run makes the calls. Each process has a Doer of its own.
func (l *load) run(s *queueing, doer func() backoff.Doer) {
	s.began = time.Now()
	var wg sync.WaitGroup
	for range max(1, l.processes) {
		wg.Go(func() {
			d := doer()
			for time.Since(s.began) < l.lasts {
				slot := time.Since(s.began) / (2 * time.Second)
				l.calls[slot].Add(1)
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), l.limit)
					defer cancel()
					if d.Do(ctx, s.serve) == nil {
						l.good[slot].Add(1)
					}
				})
				time.Sleep(time.Duration(2 * rand.Float64() * float64(time.Second) / l.perSecond * float64(max(1, l.processes))))
			}
		})
	}
	wg.Wait()
}

// share returns the share of calls that succeeded, of those that began from one
// time to another.
func (l *load) share(from, to time.Duration) float64 {
	var calls, good int64
	for slot := from / (2 * time.Second); slot < to/(2*time.Second); slot++ {
		calls, good = calls+l.calls[slot].Load(), good+l.good[slot].Load()
	}
	return float64(good) / float64(calls)
}

// A server that restarts every 30 seconds loses no patient call, and hears little
// of them meanwhile.
func TestPatientCallsSurviveRestarts(t *testing.T) {
	for _, rate := range nightly.Size([]float64{10}, []float64{10, 1000}) {
		for _, spare := range []float64{1.25, 2} {
			for _, down := range []time.Duration{1, 3, 8} {
				bubble(t, fmt.Sprintf("%v a second, %v times that, %v s", rate, spare, int(down)), func(t *testing.T) {
					s := &queueing{room: time.Hour, rate: func(age time.Duration) float64 {
						if age%(30*time.Second) >= (30-down)*time.Second && age < 2*time.Minute {
							return -1
						}
						return rate * spare
					}}
					l := load{perSecond: rate, lasts: 2 * time.Minute, limit: 30 * time.Second}
					l.run(s, func() backoff.Doer {
						return backoff.Stack(&backoff.Patience{MaxWaiting: -1}, &backoff.Breaker{}, &backoff.Policy{Budget: &backoff.RetryBudget{}})
					})
					least := 0.995
					if spare < 2 && down == 8 {
						least = 0.98 // the service has 2.5 % to spare
					}
					require.GreaterOrEqual(t, l.share(0, 2*time.Minute), least)
					require.LessOrEqual(t, s.worst, 2*time.Second)
					if rate == 10 && spare == 2 {
						require.LessOrEqual(t, s.whileDown, 200)
					}
				})
			}
		}
	}
}

// The service fails less than half of its answers. At a half the breaker may open,
// by its rule, while the budget of a new client still learns: it did in 29 of 1,000
// runs, of which 12 lost calls.
func TestPatienceTakesNothingWhereAnswersFailByChance(t *testing.T) {
	for _, rate := range nightly.Size([]float64{10}, []float64{10, 100}) {
		for _, fails := range nightly.Size([]float64{.1, .3}, []float64{.1, .2, .3}) {
			t.Run(fmt.Sprintf("%v a second, %v", rate, fails), func(t *testing.T) {
				share := func(layers ...backoff.Doer) (share float64) {
					synctest.Test(t, func(t *testing.T) {
						s := &queueing{room: time.Hour, fails: fails, rate: func(time.Duration) float64 { return 4 * rate }}
						l := load{perSecond: rate, lasts: 2 * time.Minute, limit: 30 * time.Second}
						l.run(s, func() backoff.Doer { return backoff.Stack(layers...) })
						share = l.share(0, 2*time.Minute)
					})
					return share
				}
				alone := share(&backoff.Breaker{}, &backoff.Policy{Budget: &backoff.RetryBudget{}})
				patient := share(&backoff.Patience{}, &backoff.Breaker{}, &backoff.Policy{Budget: &backoff.RetryBudget{}})
				require.GreaterOrEqual(t, patient, alone)
				require.GreaterOrEqual(t, patient, 0.999)
			})
		}
	}
}

// A service that loses its capacity for a minute has it back soon: patient calls
// do not come back as one load. Without patience and without retries the queue of
// this service never becomes shorter again.
func TestPatientCallsDoNotKeepAServiceDown(t *testing.T) {
	for _, left := range nightly.Size([]float64{0, 0.2}, []float64{0, 0.1, 0.2}) {
		for _, processes := range nightly.Size([]int{20}, []int{1, 20}) {
			for _, limit := range nightly.Size([]time.Duration{30 * time.Second}, []time.Duration{5 * time.Second, 30 * time.Second}) {
				t.Run(fmt.Sprintf("%v left, %v processes, %v", left, processes, limit), func(t *testing.T) {
					share := func(doer func() backoff.Doer) (whole, after float64) {
						synctest.Test(t, func(t *testing.T) {
							s := &queueing{room: 10 * time.Second, rate: func(age time.Duration) float64 {
								if age >= 20*time.Second && age < 80*time.Second {
									return 100 * left
								}
								return 100
							}}
							l := load{perSecond: 80, lasts: 2 * time.Minute, limit: limit, processes: processes}
							l.run(s, doer)
							whole, after = l.share(0, 2*time.Minute), l.share(108*time.Second, 2*time.Minute)
						})
						return whole, after
					}
					policy := func() *backoff.Policy {
						return &backoff.Policy{AttemptTimeout: time.Second, Budget: &backoff.RetryBudget{}}
					}
					none, _ := share(func() backoff.Doer { return &backoff.Policy{AttemptTimeout: time.Second, MaxAttempts: 1} })
					patient, after := share(func() backoff.Doer { return backoff.Stack(&backoff.Patience{}, &backoff.Breaker{}, policy()) })
					if limit == 30*time.Second {
						require.GreaterOrEqual(t, patient, none+0.05)
					}
					require.GreaterOrEqual(t, patient, none-0.15) // the circuit is open for 10 of 120 s more
					require.GreaterOrEqual(t, after, 0.9)
				})
			}
		}
	}
}
