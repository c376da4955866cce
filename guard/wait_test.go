package guard_test

import (
	"context"
	"errors"
	"fmt"
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

// once is a policy whose calls do not wait after a failure of their own.
var once = backoff.Policy{MaxAttempts: 1}

// under is a service without a budget, nor a breaker if b is nil.
func under(b *backoff.Breaker) *guard.Service {
	return &guard.Service{NoBudget: true, Breaker: b, NoBreaker: b == nil}
}

// opensFor is a breaker that one failure opens for a time.
func opensFor(d time.Duration) *backoff.Breaker {
	return &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(d), Jitter: backoff.NoJitter}
}

// tripped is a service whose circuit is open for a time.
func tripped(d time.Duration) (*backoff.Breaker, *guard.Service) {
	b := opensFor(d)
	b.Trip()
	return b, under(b)
}

// outage is a service that is down for a while, and records when it was called.
type outage struct {
	began time.Time
	until time.Duration
	err   error

	mu sync.Mutex
	at []time.Duration
}

func newOutage(until time.Duration, err error) *outage {
	return &outage{began: time.Now(), until: until, err: err}
}

func (o *outage) call(context.Context) error {
	age := time.Since(o.began)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at = append(o.at, age); age < o.until {
		return o.err
	}
	return nil
}

// doWithin is d.Do under a context that ends after limit.
func doWithin(t *testing.T, d backoff.Doer, limit time.Duration, op func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return d.Do(ctx, op)
}

func okay(context.Context) error { return nil }

func boom(context.Context) error { return errBoom }

func TestACallWaitsForAServiceThatIsDown(t *testing.T) {
	for name, c := range map[string]struct {
		service *guard.Service
		inside  *backoff.Breaker
	}{
		"usual":          {service: new(guard.Service)},
		"with a breaker": {service: under(new(backoff.Breaker))},
		"alone":          {service: under(nil)},
		"breaker inside": {under(nil), opensFor(time.Second)},
	} {
		for _, why := range []error{syscall.ECONNREFUSED, errBoom} {
			bubble(t, name+", "+why.Error(), func(t *testing.T) {
				o := newOutage(20*time.Second, why)
				op := o.call
				if c.inside != nil {
					op = c.inside.Wrap(op)
				}
				require.NoError(t, doWithin(t, c.service.With(atOnce), time.Minute, op))
				require.Less(t, time.Since(o.began), 33*time.Second)
				require.Less(t, len(o.at), 70)
				require.NoError(t, c.service.Do(t.Context(), once, op), "and then it is as before")
				require.Zero(t, c.service.State().Waiting)
			})
		}
	}
}

// Who has no deadline waits for 5 seconds, or for MaxElapsed. A deadline ends that sooner.
func TestACallWaitsAsLongAsItsCallerHasTime(t *testing.T) {
	for name, c := range map[string]struct {
		elapsed, deadline, want time.Duration
		reason                  backoff.Reason
	}{
		"neither":             {0, 0, 5 * time.Second, backoff.ReasonAttempts},
		"MaxElapsed":          {20 * time.Second, 0, 20 * time.Second, backoff.ReasonElapsed},
		"a deadline":          {0, 30 * time.Second, 30 * time.Second, backoff.ReasonDeadline},
		"MaxElapsed is first": {10 * time.Second, 30 * time.Second, 10 * time.Second, backoff.ReasonElapsed},
		"the deadline is":     {40 * time.Second, 30 * time.Second, 30 * time.Second, backoff.ReasonDeadline},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, began := t.Context(), time.Now()
			if c.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			policy := atOnce
			policy.MaxElapsed = c.elapsed
			err := under(nil).Do(ctx, policy, boom)
			require.ErrorIs(t, err, errBoom)
			require.Equal(t, c.reason, gaveUp(t, err).Reason, err)
			require.InDelta(t, c.want, time.Since(began), float64(c.want)/5)
		})
	}
}

func TestWhatWaitingDoesNotMendIsReturnedAtOnce(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	byClass := map[backoff.Class]backoff.ClassLimits{backoff.ClassRetryable: {MaxAttempts: 2}}
	for name, c := range map[string]struct {
		ctx    context.Context
		policy backoff.Policy
		err    error
		want   error
	}{
		"a permanent error":    {nil, atOnce, backoff.Permanent(errBoom), errBoom},
		"by a classifier":      {nil, backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return false })}, errBoom, errBoom},
		"not idempotent":       {nil, backoff.Policy{Idempotency: backoff.NonIdempotent}, errBoom, errBoom},
		"not so, out of tries": {nil, backoff.Policy{Idempotency: backoff.NonIdempotent, MaxAttempts: 1}, errBoom, backoff.ErrExhausted},
		"do not retry":         {nil, atOnce, backoff.OfClass(errBoom, backoff.ClassOverloaded), errBoom},
		"throttled":            {nil, atOnce, errTooMany, errTooMany},
		"a quota is used up":   {nil, atOnce, backoff.RetryAfter(errBoom, time.Hour), backoff.ErrExhausted},
		"op was cancelled":     {nil, atOnce, context.Canceled, context.Canceled},
		"invalid":              {nil, backoff.Policy{Schedule: backoff.Constant(-1)}, nil, nil},
		"the caller left":      {canceled, atOnce, nil, context.Canceled},
		"another loop gave up": {nil, atOnce, gaveUpElsewhere{}, gaveUpElsewhere{}},
		"all its attempts":     {nil, backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(0)}, errBoom, backoff.ErrExhausted},
		"those of its class":   {nil, backoff.Policy{ByClass: byClass, Schedule: backoff.Constant(0)}, errBoom, backoff.ErrExhausted},
		"its caller says so":   {guard.WithFailFast(t.Context()), atOnce, errBoom, backoff.ErrExhausted},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, began := t.Context(), time.Now()
			if c.ctx != nil {
				ctx = c.ctx
			}
			err := under(nil).Do(ctx, c.policy, func(context.Context) error { return c.err })
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

// Another call is answered: the fault is that of the call.
func TestACallThatFailsWhileOthersAreServedIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := new(guard.Service), time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			err := doWithin(t, s.With(atOnce), time.Minute, boom)
			require.EqualError(t, err, "backoff: gave up after 4 attempts; waited 100ms for its turn: boom")
		})
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, s.Do(t.Context(), once, okay))
		all.Wait()
		require.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}

// However many attempts a policy has made while no other call was answered.
func TestManyAttemptsAreNoFaultOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		require.NoError(t, doWithin(t, under(nil).With(atOnce), 30*time.Minute, func(context.Context) error {
			if n++; n <= 30 {
				return errBoom
			}
			return nil
		}))
	})
}

func TestMaxAttemptsHoldsForACallThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := tripped(time.Second)
		policy, n := backoff.Policy{MaxAttempts: 2}, 0
		err := doWithin(t, s.With(policy), time.Minute, func(context.Context) error { n++; return errBoom })
		require.Equal(t, 2, n)
		require.Regexp(t, "^backoff: gave up after 2 attempts; waited [0-9.s]+ for the service to come back, 2 probes: boom$", err.Error())
	})
}

func TestWhatOneCallSendsIsTimedByItsPolicyAlsoAfterItWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := tripped(10 * time.Second)
		ends := time.Now().Add(15 * time.Second)
		err := s.Do(t.Context(), backoff.Policy{MaxElapsed: 15 * time.Second, AttemptTimeout: time.Hour}, func(ctx context.Context) error {
			end, _ := ctx.Deadline()
			require.Equal(t, ends, end)
			<-ctx.Done()
			return ctx.Err()
		})
		require.Equal(t, backoff.ReasonElapsed, gaveUp(t, err).Reason)
		require.Equal(t, ends, time.Now())
	})
}

// A call that cannot be served in its time ends now, as under a policy.
func TestACallThatHasNoTimeForTheCircuitEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Breaker{Name: "db", OpenFor: backoff.Constant(time.Minute)}
		b.Trip()
		began := time.Now()
		err := doWithin(t, under(b).With(once), 5*time.Second, okay)
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "backoff: not started: the next wait would pass the deadline: db: circuit open")
		require.ErrorIs(t, under(b).Do(t.Context(), once, okay), backoff.ErrOpen, "nor without a deadline")
		require.Zero(t, time.Since(began))
	})
}

func TestACallThatWaitedInVainSaysWhatForAndAllItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := func(context.Context) error { return fmt.Errorf("dial: %w", syscall.ECONNREFUSED) }
		search := func(b *backoff.Breaker) *guard.Client {
			return (&guard.Service{Name: "search", NoBudget: true, Breaker: b, NoBreaker: b == nil}).With(atOnce)
		}
		err := doWithin(t, search(nil), 150*time.Millisecond, refuse)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Equal(t, backoff.ReasonDeadline, gaveUp(t, err).Reason)
		require.EqualError(t, err, "backoff: search: gave up after 4 attempts: context deadline exceeded; waited 150ms for its turn: dial: connection refused")
		require.False(t, (&backoff.Policy{}).Retryable(err), "policies around do not retry it")

		b := opensFor(10 * time.Second)
		service := search(b)
		b.Trip()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(errors.New("shutting down")) })
		err = doWithin(t, doer(func(_ context.Context, op func(context.Context) error) error {
			return service.Do(deadline(ctx, time.Minute), op)
		}), time.Minute, refuse)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, backoff.ErrOpen, "it was not made")
		require.EqualError(t, err, "backoff: search: not started: shutting down; waited 100ms for the circuit: circuit open")

		err = doWithin(t, service, 15*time.Second, refuse)
		require.EqualError(t, err, "backoff: search: gave up after 1 attempt: the next wait would pass the deadline; waited 9.9s for the service to come back, 1 probe: dial: connection refused")
	})
}

// deadline is a context that ends after a time, and that nobody cancels.
func deadline(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// doer is a Doer of one function.
type doer func(ctx context.Context, op func(context.Context) error) error

func (d doer) Do(ctx context.Context, op func(context.Context) error) error { return d(ctx, op) }

// The last attempt may take its time.
func TestTheErrorCountsItsWaitsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		err := doWithin(t, under(nil).With(atOnce), 20*time.Second, func(ctx context.Context) error {
			if calls++; calls == 6 {
				<-ctx.Done()
				return ctx.Err()
			}
			return errBoom
		})
		require.Equal(t, 6, gaveUp(t, err).Attempts)
		require.Regexp(t, `waited (1(\.\d+)?s|\d\d\dms) for`, err.Error(), "and not for the 19 s of the last attempt")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, errBoom, backoff.Cause(err), "and not the end of the context")
	})
}

// The last thing that a server said is not lost where a circuit refuses later, nor
// where too many others wait by then.
func TestARefusalDoesNotHideTheLastFailure(t *testing.T) {
	for _, limit := range []time.Duration{3 * time.Second, time.Minute} {
		bubble(t, limit.String(), func(t *testing.T) {
			b := new(backoff.Breaker)
			defer b.Reset()
			err := doWithin(t, under(b).With(backoff.Policy{MaxAttempts: 4, Schedule: backoff.Constant(0)}), limit, func(context.Context) error {
				b.Force(backoff.ModeForcedOpen)
				return backoff.ErrOpen
			})
			require.ErrorIs(t, err, backoff.ErrOpen)
		})
	}
}

func TestMaxWaitingBoundsTheLine(t *testing.T) {
	for most, want := range map[int]int{0: 10_000, 5: 5, -1: 11_000} {
		calls := min(50+want, 11_000)
		bubble(t, fmt.Sprint(most), func(t *testing.T) {
			_, s := tripped(time.Second)
			s.MaxWaiting = most
			var refused atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range calls {
				all.Go(func() {
					if err := s.Do(ctx, once, okay); !errors.Is(err, context.Canceled) {
						require.EqualError(t, err, "backoff: circuit open")
						refused.Add(1)
					}
				})
			}
			synctest.Wait()
			require.Equal(t, calls-want, int(refused.Load()))
			require.Equal(t, want, s.State().Waiting)
			cancel()
			all.Wait()
			require.NoError(t, s.Do(t.Context(), once, okay))
		})
	}
}

func TestAFailureBeyondMaxWaitingIsReturnedAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := under(nil)
		s.MaxWaiting = 1
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() { require.Error(t, doWithin(t, s.With(atOnce), time.Second, boom)) })
		synctest.Wait()
		require.EqualError(t, s.Do(t.Context(), atOnce, boom), "backoff: gave up after 4 attempts: boom")
		require.Zero(t, time.Since(began))
		all.Wait()
	})
}

// sliced is a context that cannot be compared.
type sliced struct {
	context.Context
	_ []int
}

func TestAContextNeedNotBeComparable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := under(nil).Do(sliced{Context: deadline(t.Context(), time.Second)}, atOnce, boom)
		require.ErrorIs(t, err, errBoom)
	})
}

func TestAnObserverHearsOnceOfTheEndOfACallThatWaitsAndOfEachAttempt(t *testing.T) {
	for name, until := range map[string]time.Duration{"served": 3 * time.Second, "in vain": time.Hour} {
		bubble(t, name, func(t *testing.T) {
			heard, ended := map[backoff.EventKind]int{}, 0
			policy := backoff.Policy{Observer: func(_ context.Context, e backoff.Event) {
				heard[e.Kind]++
				if e.Kind != backoff.EventGiveUp || !e.Waiting {
					ended++
				}
				require.Equal(t, ended, e.Attempt, "%v", e)
			}}
			service := newOutage(until, errBoom)
			err := doWithin(t, new(guard.Service).With(policy), 20*time.Second, service.call)
			require.Len(t, service.at, ended)
			require.Equal(t, 1, heard[backoff.EventSuccess]+heard[backoff.EventGiveUp], "%v: %v", heard, err)
			require.Equal(t, err == nil, heard[backoff.EventGiveUp] == 0)
		})
	}
}

func TestACallSaysWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guard.Service{Budget: &limit.Concurrency{Max: 1}}
		release := make(chan struct{})
		go s.Do(t.Context(), once, func(context.Context) error { <-release; return nil })
		synctest.Wait()
		err := doWithin(t, s.With(once), time.Second, okay)
		require.EqualError(t, err, "backoff: not started: context deadline exceeded; waited 1s for room in the budget: budget refused")
		close(release)

		down := guard.Service{NoBudget: true, NoBreaker: true}
		asks := func(context.Context) error { return backoff.RetryAfter(errBoom, 20*time.Second) }
		require.Error(t, down.Do(guard.WithFailFast(t.Context()), once, asks))
		require.Error(t, doWithin(t, down.With(once), time.Minute, asks))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		err = down.Do(deadline(ctx, time.Minute), atOnce, boom)
		require.EqualError(t, err, "backoff: gave up after 4 attempts: context canceled; waited 5s as the service asked: boom")
	})
}

func TestAnObserverHearsHowManyAttemptsACallMayMakeThatHasWaited(t *testing.T) {
	for set, want := range map[int]int{0: -1, 7: 7} {
		synctest.Test(t, func(t *testing.T) {
			_, s := tripped(time.Second)
			var heard []int
			p := backoff.Policy{MaxAttempts: set, Observer: func(_ context.Context, e backoff.Event) {
				heard = append(heard, e.MaxAttempts)
			}}
			require.Error(t, doWithin(t, s.With(p), time.Minute, boom))
			require.Greater(t, len(heard), 2)
			require.Equal(t, []int{want, want}, heard[len(heard)-2:])
		})
	}
}

func TestAnEventSaysHowLongTheWholeCallHasTaken(t *testing.T) {
	for name, c := range map[string]struct {
		service func() *guard.Service
		events  int // at least
	}{
		"down": {func() *guard.Service { return new(guard.Service) }, 5},
		"open": {func() *guard.Service { _, s := tripped(time.Minute); return s }, 1},
		"full": {func() *guard.Service { return &guard.Service{Budget: refusing{}} }, 1},
	} {
		bubble(t, name, func(t *testing.T) {
			s, began, heard := c.service(), time.Now(), 0
			p := backoff.Policy{Observer: func(_ context.Context, e backoff.Event) {
				heard++
				require.Equal(t, time.Since(began), e.Elapsed, "%v", e)
			}}
			ctx, cancel := context.WithCancel(deadline(t.Context(), time.Hour))
			time.AfterFunc(2500*time.Millisecond, cancel)
			require.ErrorIs(t, s.Do(ctx, p, boom), context.Canceled)
			require.Equal(t, 2500*time.Millisecond, time.Since(began))
			require.GreaterOrEqual(t, heard, c.events)
		})
	}
}
