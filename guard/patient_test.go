package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
)

// once is a policy whose failures are the call's.
var once = backoff.Policy{MaxAttempts: 1}

// patient is a patient service without a budget, nor a breaker if b is nil.
func patient(b *backoff.Breaker) *guard.Service {
	return &guard.Service{Patient: true, NoBudget: true, Breaker: b, NoBreaker: b == nil}
}

// svc is a patient service around a policy.
func svc(b *backoff.Breaker, p backoff.Policy) *guard.Client { return patient(b).With(p) }

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

// doer is a Doer of one function.
type doer func(ctx context.Context, op func(context.Context) error) error

func (d doer) Do(ctx context.Context, op func(context.Context) error) error { return d(ctx, op) }

// doWithin is d.Do under a context that ends after limit.
func doWithin(t *testing.T, d backoff.Doer, limit time.Duration, op func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return d.Do(ctx, op)
}

// breakDown makes three calls that fail, and so shows a patient service that it is
// down.
func breakDown(t *testing.T, service backoff.Doer) {
	for range 3 {
		require.Error(t, doWithin(t, service, time.Millisecond, func(context.Context) error { return syscall.ECONNREFUSED }))
	}
}

func TestAPatientCallWaitsForAServiceThatIsDown(t *testing.T) {
	for name, c := range map[string]struct {
		service *guard.Client
		inside  *backoff.Breaker
	}{
		"with a breaker": {service: svc(&backoff.Breaker{}, backoff.Policy{})},
		"usual":          {service: (&guard.Service{Patient: true}).With(backoff.Policy{})},
		"alone":          {service: svc(nil, once)},
		"breaker inside": {svc(nil, backoff.Policy{Budget: &backoff.RetryBudget{}}), &backoff.Breaker{OpenFor: backoff.Constant(time.Second)}},
	} {
		for _, why := range []error{syscall.ECONNREFUSED, errBoom} {
			bubble(t, name+", "+why.Error(), func(t *testing.T) {
				o := newOutage(20*time.Second, why)
				op := o.call
				if c.inside != nil {
					op = c.inside.Wrap(op)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				v, err := backoff.DoValue(ctx, c.service, func(ctx context.Context) (int, error) { return 7, op(ctx) })
				require.NoError(t, err)
				require.Equal(t, 7, v)
				require.Less(t, time.Since(o.began), 28*time.Second)
				require.Less(t, len(o.at), 70)
				require.NoError(t, c.service.Do(t.Context(), op), "and then it is as before")
			})
		}
	}
}

func TestWhatWaitingDoesNotMendIsReturnedAtOnce(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		policy backoff.Policy
		err    error
		want   error
	}{
		"a permanent error":    {nil, backoff.Policy{}, backoff.Permanent(errBoom), errBoom},
		"by a classifier":      {nil, backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return false })}, errBoom, errBoom},
		"not idempotent":       {nil, backoff.Policy{Idempotency: backoff.NonIdempotent}, errBoom, errBoom},
		"not so, out of tries": {nil, backoff.Policy{Idempotency: backoff.NonIdempotent, MaxAttempts: 1}, errBoom, backoff.ErrExhausted},
		"do not retry":         {nil, backoff.Policy{}, backoff.OfClass(errBoom, backoff.ClassOverloaded), errBoom},
		"a quota is used up":   {nil, backoff.Policy{}, backoff.RetryAfter(errBoom, time.Hour), backoff.ErrExhausted},
		"op was cancelled":     {nil, backoff.Policy{}, context.Canceled, context.Canceled},
		"invalid":              {nil, backoff.Policy{Schedule: backoff.Constant(-1)}, nil, nil},
		"the caller left":      {canceled, backoff.Policy{}, nil, context.Canceled},
		"another loop gave up": {nil, backoff.Policy{}, gaveUpElsewhere{}, gaveUpElsewhere{}},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, began := t.Context(), time.Now()
			if c.ctx != nil {
				ctx = c.ctx
			}
			err := svc(nil, c.policy).Do(ctx, func(context.Context) error { return c.err })
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
		service := svc(nil, once)
		o := newOutage(time.Minute, syscall.ECONNREFUSED)
		var wg sync.WaitGroup
		for range 100 {
			synctest.Wait() // or all could be under way when the service is found to be down
			wg.Go(func() {
				require.NoError(t, doWithin(t, service, 2*time.Minute, o.call))
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
		service := svc(&backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(10 * time.Second), Jitter: backoff.NoJitter}, once)
		o := newOutage(15*time.Second, syscall.ECONNREFUSED)
		require.NoError(t, doWithin(t, service, time.Minute, o.call))
		require.Equal(t, msec(0, 10_000, 20_000), o.at)
	})
}

// A call that cannot be served in its time ends now, as under a policy.
func TestACallThatHasNoTimeForTheCircuitEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := &backoff.Breaker{Name: "db", OpenFor: backoff.Constant(time.Minute)}
		service := svc(breaker, once)
		require.Error(t, doWithin(t, service, time.Second, func(context.Context) error { breaker.Trip(); return errBoom }))
		began := time.Now()
		for range 2 {
			err := doWithin(t, service, 5*time.Second, okay)
			require.ErrorIs(t, err, backoff.ErrOpen)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, errBoom, "which happened to another call")
			require.EqualError(t, err, "backoff: not started: the next wait would pass the deadline: db: circuit open")
		}
		require.Zero(t, time.Since(began))
	})
}

func okay(context.Context) error { return nil }

// The usual number in flight is 2, as 20 calls a second take 100 ms each.
func TestAfterAnOutageCallsFollowByTheNumberInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := svc(nil, once)
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
	policy := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
	for name, do := range map[string]func(context.Context, *guard.Service, func(context.Context) error) error{
		"Do": func(ctx context.Context, s *guard.Service, op func(context.Context) error) error {
			return s.Do(ctx, policy, op)
		},
		"Around": func(ctx context.Context, s *guard.Service, op func(context.Context) error) error {
			var turn guard.Turn
			return s.Around(ctx, &policy, &turn, func(ctx context.Context) error {
				r := policy.Start(ctx)
				wait, again := time.Duration(0), true
				for again {
					turn.Asleep(func() { ctx, again = r.Begin(wait) })
					if again {
						wait, again = r.Retry(op(ctx))
					}
				}
				return r.Err()
			})
		},
	} {
		bubble(t, name, func(t *testing.T) {
			service := patient(nil)
			breakDown(t, service.With(once))
			began := time.Now()
			var wg sync.WaitGroup
			for range 200 {
				wg.Go(func() {
					n := 0
					require.NoError(t, do(t.Context(), service, func(context.Context) error {
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
		search := func() *guard.Client {
			return (&guard.Service{Name: "search", Patient: true, NoBudget: true, NoBreaker: true}).With(backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)})
		}
		service := search()
		refuse := func(context.Context) error { return fmt.Errorf("dial: %w", syscall.ECONNREFUSED) }
		err := doWithin(t, service, 600*time.Millisecond, refuse)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		gave := gaveUp(t, err)
		require.Equal(t, backoff.ReasonDeadline, gave.Reason)
		require.Positive(t, gave.Attempts)
		require.Zero(t, gave.Attempts%2)
		require.Regexp(t, "^backoff: search: gave up after [246] attempts: context deadline exceeded; waited 600ms for its turn: gave up after 2 attempts: dial: connection refused$", err.Error())
		require.False(t, (&backoff.Policy{}).Retryable(err), "policies around do not retry it")

		service = search()
		breakDown(t, service)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(errors.New("shutting down")) })
		err = service.Do(ctx, refuse)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, backoff.ErrOpen, "it was not made")
		require.NotErrorIs(t, err, syscall.ECONNREFUSED, "which happened to others")
		require.EqualError(t, err, "backoff: search: not started: shutting down; waited 100ms for its turn: search: circuit open: connection refused")

		err = doWithin(t, service, 260*time.Millisecond, refuse)
		require.ErrorContains(t, err, "; waited 260ms for the service to come back, 1 probe: ")
		err = doWithin(t, service, time.Minute, refuse)
		require.Regexp(t, "context deadline exceeded; waited 1m0s for the service to come back, [0-9]+ probes: gave up after 2 attempts: dial", err.Error())
	})
}

// The last thing that a server said is not lost where a circuit refuses later.
func TestARefusalDoesNotHideTheLastFailureOfAPatientCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{3 * time.Second, time.Minute} {
			breaker := &backoff.Breaker{}
			service := svc(breaker, once)
			err := doWithin(t, service, limit, func(context.Context) error {
				breaker.Force(backoff.ModeForcedOpen)
				return errBoom
			})
			require.ErrorIs(t, err, errBoom)
			require.ErrorIs(t, err, backoff.ErrOpen)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
}

// Nor where too many others wait by then.
func TestTheLastFailureIsNotLostWhereTooManyWait(t *testing.T) {
	busy := fmt.Errorf("%w: all places are taken", backoff.ErrBudget)
	invalid := &backoff.Error{Reason: backoff.ReasonInvalid}
	for refusal, why := range map[error]backoff.Reason{
		&backoff.OpenError{State: backoff.BreakerHalfOpen}: backoff.ReasonOpen,
		busy: backoff.ReasonBudget,
		&backoff.Error{Reason: backoff.ReasonBudget}:                           backoff.ReasonBudget,
		&backoff.Error{Reason: backoff.ReasonOpen, Attempts: 1, Last: errBoom}: backoff.ReasonOpen,
		invalid: backoff.ReasonInvalid,
		&backoff.Error{Attempts: 0, Reason: backoff.ReasonPermanent}: backoff.ReasonBudget,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := patient(nil)
			s.MaxWaiting = 1
			var wg sync.WaitGroup
			n := 0
			err := s.Around(t.Context(), &once, new(guard.Turn), func(context.Context) error {
				if n++; n == 1 {
					return errBoom
				}
				wg.Go(func() { // takes the only place in the line
					_ = doWithin(t, s.With(once), time.Second, func(context.Context) error { return errBoom })
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
			s := patient(nil)
			s.MaxWaiting = most
			service := s.With(once)
			breakDown(t, service)
			var refused atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range calls {
				wg.Go(func() {
					err := service.Do(ctx, okay)
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
			require.NoError(t, service.Do(t.Context(), okay))
		})
	}
}

func TestAFailureBeyondMaxWaitingIsTheCallsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := patient(nil)
		s.MaxWaiting = 1
		var wg sync.WaitGroup
		var early atomic.Int64
		for range 2 {
			wg.Go(func() {
				began := time.Now()
				err := doWithin(t, s.With(once), time.Second, func(context.Context) error { return errBoom })
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
		service := svc(nil, once)
		breakDown(t, service)
		var wg sync.WaitGroup
		var order []backoff.Priority
		for _, p := range []backoff.Priority{backoff.PriorityBackground, backoff.PriorityNormal, backoff.PriorityHigh, backoff.PriorityBackground, backoff.PriorityHigh} {
			wg.Go(func() {
				require.NoError(t, service.Do(backoff.WithPriority(t.Context(), p), func(context.Context) error {
					order = append(order, p)
					return nil
				}))
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, []backoff.Priority{backoff.PriorityHigh, backoff.PriorityHigh, backoff.PriorityNormal, backoff.PriorityBackground, backoff.PriorityBackground}, order)
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
			service := svc(nil, once)
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
		service := svc(&backoff.Breaker{}, backoff.Policy{Budget: &limit.Concurrency{Max: 10}})
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
		service := svc(nil, once)
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

		err := doWithin(t, service, time.Second, func(context.Context) error { return backoff.RetryAfter(errBoom, 5*time.Second) })
		require.ErrorIs(t, err, errBoom)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err = service.Do(ctx, func(context.Context) error { return backoff.RetryAfter(errBoom, 5*time.Second) })
		require.ErrorIs(t, err, context.Canceled)
		wg.Wait()
	})
}

// Others may still have theirs.
func TestAQuotaThatIsUsedUpHoldsNoOtherCall(t *testing.T) {
	throttled := func(context.Context) error {
		return backoff.RetryAfter(backoff.OfClass(errBoom, backoff.ClassThrottled), time.Hour)
	}
	byClient := patient(nil)
	for name, service := range map[string]doer{
		"with a breaker": svc(&backoff.Breaker{}, backoff.Policy{}).Do,
		"without":        svc(nil, backoff.Policy{}).Do,
		"one attempt":    svc(nil, once).Do,
		"by a client": func(ctx context.Context, op func(context.Context) error) error {
			return byClient.Around(ctx, &once, new(guard.Turn), op)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			for range 10 {
				require.Error(t, doWithin(t, service, time.Minute, throttled))
				time.Sleep(time.Second)
			}
			began := time.Now()
			require.NoError(t, doWithin(t, service, time.Minute, okay))
			require.Zero(t, time.Since(began))
		})
	}
}

// So one response does not end the work of a day.
func TestAServiceThatAsksForHoursIsTriedAfterFiveMinutes(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		service := svc(nil, backoff.Policy{})
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

// What is wrong with a call itself costs the service a few attempts, and no more.
func TestACallWhoseFaultIsItsOwnIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := svc(nil, backoff.Policy{})
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
		service := svc(nil, backoff.Policy{MaxAttempts: 20})
		n := 0
		require.NoError(t, doWithin(t, service, 30*time.Minute, func(context.Context) error {
			if n++; n <= 50 {
				return errBoom
			}
			return nil
		}))
	})
}

// keyed is a policy whose key the service makes, for all attempts and turns.
var keyed = backoff.Policy{Idempotency: backoff.Keyed, MaxAttempts: 2}

// One that is not made here is that of every time, too.
func TestAPatientCallHasOneKey(t *testing.T) {
	for _, policy := range []backoff.Policy{keyed, {MaxAttempts: 1, Idempotency: madeElsewhere{backoff.Idempotent}}} {
		synctest.Test(t, func(t *testing.T) {
			var keys []string
			require.NoError(t, svc(nil, policy).Do(t.Context(), func(ctx context.Context) error {
				if keys = append(keys, backoff.IdempotencyKey(ctx)); len(keys) < 7 {
					return errBoom
				}
				return nil
			}))
			require.NotEmpty(t, keys[0])
			require.Equal(t, slices.Repeat(keys[:1], 7), keys)
			require.Equal(t, policy.MaxAttempts == 1, keys[0] == "made")
		})
	}
}

// everyOther is a budget that lets every other attempt go, when its wait is over.
type everyOther struct {
	backoff.BudgetDefaults
	asked int
}

func (*everyOther) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, true
}

func (b *everyOther) Confirm(backoff.Ticket) bool { b.asked++; return b.asked%2 == 1 }

// A retry policy that gave up between two attempts has asked already whether the
// operation may be repeated.
func TestACallThatABudgetEndedBetweenTwoAttemptsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		service := svc(nil, backoff.Policy{Idempotency: backoff.NonIdempotent, Budget: new(everyOther)})
		require.NoError(t, doWithin(t, service, time.Minute, func(context.Context) error {
			if n++; n < 3 {
				return syscall.ECONNREFUSED
			}
			return nil
		}))
		require.Equal(t, 3, n)
	})
}

var errTooMany = backoff.OfClass(errors.New("too many requests"), backoff.ClassThrottled)

// How long a call may take is not known from one call.
func TestOneSlowCallDoesNotKeepCallsWithLessTimeFromTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := svc(nil, once)
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
		p := svc(nil, once)
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
		p := svc(nil, once)
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
			p := patient(nil)
			service := &comingBack{takes: 5 * time.Millisecond}
			slow := p.With(backoff.Policy{MaxAttempts: 6, Schedule: backoff.Constant(2 * time.Second)})
			quick := p.With(once)
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
		p := patient(nil)
		service := &comingBack{takes: time.Second}
		loop := p.With(backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(10 * time.Second)})
		cut := make(chan struct{})
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				attempts := 0
				_ = loop.Do(t.Context(), func(context.Context) error {
					if attempts++; attempts > 1 {
						return nil
					}
					<-cut
					return errDown
				})
			})
		}
		synctest.Wait()
		for range 100 {
			all.Go(func() { _ = p.Do(t.Context(), once, service.call) })
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
		service := svc(nil, once)
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
		service := svc(nil, once)
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
		service := svc(nil, once)
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
		p := svc(nil, once)
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
		synctest.Test(t, func(t *testing.T) {
			step := backoff.Policy{MaxAttempts: 1, Idempotency: backoff.Keyed}
			var keys []string
			ctx := backoff.WithIdempotencyKey(t.Context(), "call")
			require.NoError(t, svc(nil, keyed).Do(ctx, func(ctx context.Context) error {
				keys = append(keys, backoff.IdempotencyKey(ctx))
				return step.Do(ofStep(ctx), func(context.Context) error {
					if len(keys) < 7 {
						return syscall.ECONNREFUSED
					}
					return nil
				})
			}))
			require.Equal(t, slices.Repeat([]string{"call"}, 7), keys)
		})
	}
}

// madeElsewhere is the Idempotency of a call whose key somebody else has made.
type madeElsewhere struct{ backoff.Idempotency }

func (madeElsewhere) MadeKey() string { return "made" }

// A further call would send another key.
func TestWhatSentAKeyThatTheServiceDoesNotKnowIsNotMadeAgain(t *testing.T) {
	for _, idempotency := range []backoff.Idempotency{backoff.Keyed, madeElsewhere{backoff.Idempotent}} {
		synctest.Test(t, func(t *testing.T) {
			inside, calls := backoff.Policy{MaxAttempts: 2, Idempotency: idempotency}, 0
			err := svc(nil, backoff.Policy{}).Do(t.Context(), func(ctx context.Context) error {
				return inside.Do(ctx, func(context.Context) error { calls++; return errBoom })
			})
			require.EqualError(t, err, "backoff: gave up after 2 attempts: boom")
			require.Equal(t, 2, calls)
		})
	}
}

// carelessError panics when it is asked.
type carelessError struct{}

func (carelessError) Error() string             { return "careless" }
func (carelessError) RetryAfter() time.Duration { panic("careless") }

func TestACallWhoseErrorPanicsHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := svc(nil, once)
		for range 3 {
			time.Sleep(time.Second)
			require.Panics(t, func() { _ = p.Do(t.Context(), func(context.Context) error { return carelessError{} }) })
		}
		began := time.Now()
		require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
		require.Positive(t, time.Since(began), "the service was taken for down, and the call for a probe")
	})
}
