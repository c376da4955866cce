package backoff_test

import (
	"context"
	"errors"
	"fmt"
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
			t.Run(name+", "+why.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
			wg.Go(func() {
				require.NoError(t, within(t, 2*time.Minute, func(ctx context.Context) error { return service.Do(ctx, o.call) }))
			})
		}
		wg.Wait()
		failed := slices.IndexFunc(o.at, func(at time.Duration) bool { return at > 0 })
		require.Less(t, failed, 3+runtime.GOMAXPROCS(0), "three calls fail, and only those under way besides")
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		require.Equal(t, 600*time.Millisecond, gave.Elapsed)
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
	for most, want := range map[int]int{0: 10_000, 5: 5, -1: 10_050} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				patience := &backoff.Patience{MaxWaiting: most}
				breakDown(t, backoff.Stack(patience, once))
				var refused atomic.Int64
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for range 10_050 {
					wg.Go(func() {
						err := patience.Do(ctx, okay)
						if !errors.Is(err, context.Canceled) {
							require.ErrorIs(t, err, backoff.ErrOpen)
							refused.Add(1)
						}
					})
				}
				synctest.Wait()
				require.Equal(t, 10_050-want, int(refused.Load()))
				cancel()
				wg.Wait()
				require.NoError(t, patience.Do(t.Context(), okay))
			})
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		require.Equal(t, 16, n)
		cancel()
		wg.Wait()
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
