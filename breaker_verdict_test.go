package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/fault"
	"github.com/gobackoff/backoff/internal/inbound"
	"github.com/gobackoff/backoff/internal/nightly"
)

func TestBreakerVerdicts(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("fetch: %w", err) }
	synctest.Test(t, func(t *testing.T) {
		refused := openBreaker(t).Do(context.Background(), nil)
		for _, c := range []struct {
			name              string
			err               error
			good, bad, streak int
		}{
			{"success", nil, 1, 0, 0},
			{"failure", errOutage, 0, 1, 1},
			{"unsent", backoff.OfClass(errOutage, backoff.ClassNotSent), 0, 1, 1},
			{"permanent error", backoff.Permanent(errOutage), 1, 0, 0},
			{"throttled", backoff.OfClass(errOutage, backoff.ClassThrottled), 0, 0, 0},
			{"overloaded", backoff.OfClass(errOutage, backoff.ClassOverloaded), 0, 0, 0},
			{"timeout", context.DeadlineExceeded, 0, 1, 1},
			{"cancelled by the operation, which says to retry", backoff.OfClass(context.Canceled, backoff.ClassRetryable), 0, 1, 1},
			{"cancelled by the operation", wrap(context.Canceled), 0, 0, 0},
			{"another breaker", wrap(refused), 0, 0, 0},
			{"another breaker's sentinel", wrap(backoff.ErrOpen), 0, 0, 0},
			{"a budget's sentinel", wrap(backoff.ErrBudget), 0, 0, 0},
			{"a policy gave up", policyError("", errOutage), 0, 1, 1},
			{"a policy gave up, wrapped", wrap(policyError("", errOutage)), 0, 1, 1},
			{"a policy gave up, with a hint", backoff.RetryAfter(policyError("", errOutage), 0), 0, 1, 1},
			{"a policy gave up throttled", policyError("", backoff.OfClass(errOutage, backoff.ClassThrottled)), 0, 0, 0},
			{"a policy found it permanent", policyError("classifier", errOutage), 0, 1, 1},
			{"a policy passed on what is permanent", policyError("", backoff.Permanent(errOutage)), 1, 0, 0},
			{"a policy passed on an answer", policyError("", &httpStatus{404, errOutage}), 1, 0, 0},
			{"a policy passed on an answer, wrapped", wrap(policyError("", &httpStatus{404, errOutage})), 1, 0, 0},
			{"a policy's classifier found an answer permanent", policyError("classifier", &httpStatus{404, errOutage}), 1, 0, 0},
			{"a policy passed on a cancellation by the operation", policyError("", context.Canceled), 0, 0, 0},
			{"a policy's budget refused a retry", policyError("budget", errOutage), 0, 1, 1},
			{"a policy's budget refused the first attempt", policyError("refused", errOutage), 0, 0, 0},
			{"a policy's context ended before", policyError("ended", errOutage), 0, 0, 0},
			{"a policy's deadline was over before", policyError("expired", errOutage), 0, 0, 0},
			{"a policy was cancelled", policyError("cancelled", errOutage), 0, 0, 0},
			{"a policy met an open circuit", policyError("", refused), 0, 0, 0},
			{"overruled by a mark", backoff.Permanent(policyError("", errOutage)), 1, 0, 0},
			{"overruled by a mark for the worse", backoff.OfClass(policyError("", backoff.Permanent(errOutage)), backoff.ClassRetryable), 0, 1, 1},
			{"overruled by a mark that it was not sent", backoff.OfClass(&backoff.Error{Last: backoff.Permanent(errOutage)}, backoff.ClassNotSent), 0, 1, 1},
			{"a hint overrules nothing", backoff.RetryAfter(&backoff.Error{Last: backoff.Permanent(errOutage)}, 0), 1, 0, 0},
			{"joined: one failed", errors.Join(policyError("", errOutage), backoff.Permanent(errOutage)), 0, 1, 1},
			{"joined: one was refused", errors.Join(refused, backoff.Permanent(errOutage)), 1, 0, 0},
			{"joined by hand", errorTree{refused, nil, errOutage}, 0, 1, 1},
		} {
			b := rateBreaker()
			feed(b, 1, c.err)
			s := b.Stats()
			require.Equal(t, []int{c.good, c.bad, c.streak}, []int{int(s.Successes), int(s.Failures), s.ConsecutiveFailures}, c.name)
		}
	})
}

func TestBudgetAndBreakerHearTheSameOfAFailure(t *testing.T) {
	again := backoff.RetryIf(func(error) bool { return true })
	for _, c := range []struct {
		err       error
		told      string
		number    int // of the retry
		good, bad uint64
	}{
		{&httpStatus{404, errOutage}, "permanent", 1, 1, 0},
		{fault.As(errOutage, fault.Answered), "permanent", 1, 1, 0},
		{fault.As(backoff.OfClass(errOutage, backoff.ClassThrottled), fault.Answered), "throttled", 2, 0, 0},
		{fault.As(errOutage, fault.Own), "not sent", 2, 0, 0},
		{fault.As(errOutage, fault.Left), "canceled", 2, 0, 0},
		{fmt.Errorf("get: %w", &net.DNSError{IsNotFound: true}), "failed", 2, 0, 1},
		{fmt.Errorf("get: %w", context.Canceled), "failed", 2, 0, 1},
	} {
		var inner, outer clerk
		p := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0), Classify: again, Budget: &inner}
		b := rateBreaker()
		b.Classify = again
		around := backoff.Policy{Budget: &outer}
		err := around.Do(t.Context(), b.Wrap(p.Wrap(func(context.Context) error { return c.err })))
		require.ErrorIs(t, err, c.err)
		require.Equal(t, []string{c.told, c.told}, inner.told)
		require.Equal(t, c.number, inner.asked[1].Number, c.told)
		require.Equal(t, []uint64{c.good, c.bad}, []uint64{b.Stats().Successes, b.Stats().Failures}, "%T: %[1]v", c.err)
		if c.good > 0 || c.told == "not sent" {
			require.Equal(t, []string{c.told}, outer.told, "it is the same to who is around")
		}
	}
	sentinel := errors.New("sentinel")
	require.Same(t, sentinel, backoff.Cause(fault.As(sentinel, fault.Own)))
}

// policyError returns what a policy returns for an operation that fails with
// err, and ends for reason.
func policyError(reason string, err error) error {
	p := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)}
	op := func(context.Context) error { return err }
	switch reason {
	case "classifier":
		p.Classify = func(error) backoff.Class { return backoff.ClassPermanent }
	case "budget":
		p.Budget = refusing(2)
	case "refused":
		p.Budget = refusing(1)
	case "cancelled":
		p.Schedule, p.Jitter = backoff.Constant(time.Hour), backoff.NoJitter
		ctx, cancel := context.WithCancel(context.Background())
		return p.Do(ctx, func(context.Context) error { time.AfterFunc(time.Second, cancel); return err })
	case "ended":
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return p.Do(ctx, op)
	case "expired":
		ctx, cancel := context.WithTimeout(context.Background(), 0)
		defer cancel()
		return p.Do(ctx, op)
	}
	return p.Do(context.Background(), op)
}

// errorTree is a tree that somebody made with a nil in it.
type errorTree []error

func (errorTree) Error() string     { return "joined" }
func (j errorTree) Unwrap() []error { return j }

func TestBreakerAsksItsOwnClassifier(t *testing.T) {
	b := rateBreaker()
	b.Classify = func(err error) backoff.Class {
		if errors.Is(err, errOutage) {
			return backoff.ClassRetryable
		}
		return backoff.ClassUnknown
	}
	p := backoff.Policy{Classify: func(error) backoff.Class { return backoff.ClassPermanent }}
	feed(layers(b, &p), 3, errOutage)
	require.EqualValues(t, 3, b.Stats().Failures, "the policy's opinion is about retrying")
}

// An API of 100 calls a second gets 770 and refuses 87 %.
func TestBreakerStaysClosedWhileAThrottledServiceServesSomebody(t *testing.T) {
	for name, settings := range map[string]func(*backoff.Breaker){
		"zero":            func(*backoff.Breaker) {},
		"window of calls": func(b *backoff.Breaker) { b.WindowCalls = 100 },
		"every failure": func(b *backoff.Breaker) {
			b.FailureRate, b.MinCalls, b.SlowCall = 0.01, 1, time.Nanosecond
			b.TripIf = func(s backoff.BreakerStats) bool { return s.Failures+s.Slow > 0 }
		},
	} {
		for _, class := range []backoff.Class{backoff.ClassThrottled, backoff.ClassOverloaded} {
			bubble(t, fmt.Sprint(name, ", ", class), func(t *testing.T) {
				var b backoff.Breaker
				settings(&b)
				tooMuch := backoff.Pushback(backoff.OfClass(errOutage, class), time.Minute)
				for range 200 {
					require.Equal(t, 67, feed(&b, 67, tooMuch))
					require.Equal(t, 10, feed(&b, 10, nil))
					time.Sleep(100 * time.Millisecond)
				}
				s := b.Stats()
				require.Zero(t, s.Failures+s.Slow)
				require.Zero(t, s.ConsecutiveFailures)
				require.Positive(t, s.Successes)

				require.Equal(t, backoff.BreakerOpen, stateAfter(&b, 2000, errOutage))
				require.Less(t, b.Stats().RetryAfter, 7*time.Second, "what they asked for is forgotten")
			})
		}
	}
}

func TestBreakerOpensWhenAServiceThrottlesEverybody(t *testing.T) {
	tooMuch := backoff.OfClass(errOutage, backoff.ClassThrottled)
	bubble(t, "for a whole window", func(t *testing.T) {
		b := rateBreaker()
		feed(b, 1000, nil)
		for range 10 {
			require.Equal(t, 2, feed(b, 2, tooMuch))
			time.Sleep(time.Second)
		}
		require.Equal(t, 1, feed(b, 2, tooMuch))
		require.Equal(t, backoff.BreakerOpen, b.State())
		time.Sleep(5 * time.Second)
		require.Equal(t, backoff.BreakerOpen, stateAfter(b, 1, tooMuch), "a throttled probe fails")
	})
	bubble(t, "for as many calls as a window holds", func(t *testing.T) {
		b := rateBreaker()
		b.WindowCalls = 30
		feed(b, 1000, nil)
		require.Equal(t, 30, feed(b, 100, tooMuch))
	})
	bubble(t, "and not where MinCalls are not reached", func(t *testing.T) {
		b := rateBreaker()
		for range 19 {
			require.Equal(t, 1, feed(b, 1, tooMuch))
			time.Sleep(time.Minute)
		}
		feed(b, 1, nil)
		require.Equal(t, 19, feed(b, 19, tooMuch), "a success ends the row")
	})
	bubble(t, "and not without a rate", func(t *testing.T) {
		b := rateBreaker()
		b.FailureRate = -1
		feed(b, 100, tooMuch)
		time.Sleep(time.Hour)
		require.Equal(t, 100, feed(b, 100, tooMuch))
	})
}

// A quota that is used up is that of one caller.
func TestBreakerDoesNotCountAQuotaThatIsUsedUp(t *testing.T) {
	throttled := backoff.OfClass(errOutage, backoff.ClassThrottled)
	for name, c := range map[string]struct {
		err    error
		most   time.Duration
		counts bool
	}{
		"an hour":           {backoff.RetryAfter(throttled, time.Hour), 0, false},
		"do not retry":      {backoff.RetryAfter(backoff.OfClass(throttled, backoff.ClassOverloaded), time.Hour), 0, false},
		"pushback":          {backoff.Pushback(throttled, time.Hour), 0, false},
		"through a policy":  {policyError("", backoff.RetryAfter(throttled, time.Hour)), 0, false},
		"beyond the limit":  {backoff.RetryAfter(throttled, 2*time.Minute), time.Minute, false},
		"within the limit":  {backoff.RetryAfter(throttled, 5*time.Minute), 0, true},
		"without a limit":   {backoff.RetryAfter(throttled, time.Hour), -1, true},
		"overloaded":        {backoff.RetryAfter(backoff.OfClass(errOutage, backoff.ClassOverloaded), time.Hour), 0, true},
		"down for an hour":  {backoff.RetryAfter(errOutage, time.Hour), 0, true},
		"marked by a layer": {backoff.OfClass(policyError("", backoff.RetryAfter(throttled, time.Hour)), backoff.ClassThrottled), 0, false},
	} {
		bubble(t, name, func(t *testing.T) {
			b := rateBreaker()
			b.MaxRetryAfter = c.most
			feed(b, 1, nil)
			for range 20 {
				feed(b, 5, c.err)
				time.Sleep(time.Second)
			}
			require.Equal(t, c.counts, b.State() != backoff.BreakerClosed)
			s := b.Stats()
			if !c.counts {
				require.Zero(t, s.Failures+uint64(s.ConsecutiveFailures))
			}
		})
	}
	bubble(t, "nor as a probe", func(t *testing.T) {
		b := rateBreaker()
		b.Trip()
		time.Sleep(time.Minute)
		for range 10 {
			require.Equal(t, 1, feed(b, 1, backoff.RetryAfter(throttled, time.Hour)))
			require.Equal(t, backoff.BreakerHalfOpen, b.State())
		}
		require.Equal(t, backoff.BreakerClosed, stateAfter(b, 2, nil))
	})
}

func TestBreakerSetsTheCallersEndApart(t *testing.T) {
	bubble(t, "cancelled", func(t *testing.T) {
		b := rateBreaker()
		for range 50 {
			require.ErrorIs(t, b.Do(cancelledAfter(t, time.Second), hang), context.Canceled)
			ctx, cancel := context.WithCancel(t.Context())
			require.Equal(t, errOutage, b.Do(ctx, func(context.Context) error { cancel(); return errOutage }))
		}
		require.Zero(t, b.Stats().Failures+b.Stats().Successes)
	})
	bubble(t, "deadline", func(t *testing.T) {
		b := rateBreaker()
		for _, op := range []func(context.Context) error{hang, func(ctx context.Context) error { <-ctx.Done(); return context.Canceled }} {
			require.Error(t, b.Do(within(t, time.Second), op))
		}
		require.EqualValues(t, 2, b.Stats().Failures)
		require.Equal(t, 2, b.Stats().ConsecutiveFailures)
		ctx := within(t, time.Second)
		require.Error(t, b.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return backoff.Permanent(errOutage) }))
		require.EqualValues(t, 1, b.Stats().Successes, "a permanent error is one all the same")
	})
	for failures, limit := range []time.Duration{time.Second - 1, time.Second} {
		bubble(t, "deadline too short: "+limit.String(), func(t *testing.T) {
			b := rateBreaker()
			b.MinAttemptTime = time.Second
			feed(b, 1, nil)
			feed(b, 1, errOutage)
			time.Sleep(5 * time.Second)
			ctx := within(t, limit)
			require.Error(t, b.Do(ctx, hang))
			require.Error(t, b.Do(ctx, func(context.Context) error { panic("called") }), "it has ended")
			require.EqualValues(t, 1, b.Stats().Successes)
			require.Error(t, b.Do(within(t, limit), func(ctx context.Context) error { <-ctx.Done(); return backoff.Permanent(errOutage) }))
			require.EqualValues(t, 2, b.Stats().Successes, "a permanent error needs no time")
			require.EqualValues(t, 1+failures, b.Stats().Failures, "what fails at once is a failure")
			b.Trip()
			time.Sleep(5 * time.Second)
			require.Equal(t, backoff.BreakerClosed, stateAfter(b, 2, nil), "a quick probe is no slow one")
		})
	}
	bubble(t, "a success is one all the same", func(t *testing.T) {
		b := rateBreaker()
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, b.Do(ctx, func(context.Context) error { cancel(); return nil }))
		require.EqualValues(t, 1, b.Stats().Successes)
	})
}

// answersIn is an operation that takes so long.
func answersIn(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestCallersInAHurryCostPatientOnesNothing(t *testing.T) {
	for _, rate := range []int{100, 1000} {
		bubble(t, fmt.Sprint(rate), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 0))
			b := backoff.Breaker{Rand: rand.New(rand.NewPCG(1, 0)).Float64}
			var failed atomic.Int32
			for n := range 20 * rate {
				ctx, patient := within(t, 50*time.Millisecond), random.IntN(10) == 0
				if patient {
					ctx = context.Background()
				}
				go func() {
					if b.Do(ctx, answersIn(200*time.Millisecond)) != nil && patient && n > 10*rate {
						failed.Add(1)
					}
				}()
				time.Sleep(time.Second / time.Duration(rate))
			}
			time.Sleep(time.Second)
			require.Zero(t, failed.Load(), "when the usual time is known")
		})
	}
}

func TestADeadlineCountsIfItLeftTwiceTheUsualTime(t *testing.T) {
	for left, counts := range map[time.Duration]bool{199 * time.Millisecond: false, 200 * time.Millisecond: true} {
		bubble(t, left.String(), func(t *testing.T) {
			b := rateBreaker()
			call := func(d time.Duration, op func(context.Context) error) { _ = b.Do(within(t, d), op) }
			call(left, hang)
			require.EqualValues(t, 1, b.Stats().Failures, "nothing is known")
			call(time.Minute, answersIn(100*time.Millisecond))
			require.Equal(t, 1, b.Stats().ConsecutiveFailures+int(b.Stats().Successes))
			go call(time.Minute, answersIn(100*time.Millisecond))
			call(left, hang)
			before := b.Stats().ConsecutiveFailures
			require.Equal(t, counts, before == 1)
			call(left, hang)
			require.Equal(t, before+1, b.Stats().ConsecutiveFailures, "nobody was answered meanwhile")
			call(99*time.Millisecond, hang)
			require.Equal(t, before+1, b.Stats().ConsecutiveFailures, "nobody could be")
		})
	}
}

func TestBreakerCountsPanicsAndPassesThemOn(t *testing.T) {
	for _, b := range []*backoff.Breaker{{}, {SlowCall: time.Second}} {
		require.PanicsWithValue(t, "boom", func() {
			_ = b.Do(context.Background(), func(context.Context) error { panic("boom") })
		})
		apart(func() {
			_ = b.Do(context.Background(), func(context.Context) error { runtime.Goexit(); return nil })
		})
		require.EqualValues(t, 2, b.Stats().Failures)
	}
	b := &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1}
	require.Panics(t, func() { _ = b.Do(context.Background(), func(context.Context) error { panic("boom") }) })
	require.ErrorContains(t, b.Do(context.Background(), nil), "operation panicked or left its goroutine")
}

// The breaker wraps the retry loop and gets one outcome per
// call; an open one is not retried.
func TestBreakerAroundAPolicyHearsOneVerdictPerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &backoff.Policy{MaxAttempts: 3}
		b := rateBreaker()
		require.Equal(t, 30, feed(layers(b, p), 10, errOutage))
		require.EqualValues(t, 10, b.Stats().Failures)

		b.Trip()
		began := time.Now()
		require.Zero(t, feed(layers(b, p), 10, errOutage))
		require.Zero(t, time.Since(began))
	})
}

// A node of an error tree, which counts how often it is asked what it wraps.
type (
	node struct {
		branches []error
		asked    *int
	}
	link struct {
		inner error
		asked *int
	}
)

func (n *node) Error() string   { return "node" }
func (n *node) Unwrap() []error { *n.asked++; return n.branches }
func (l *link) Error() string   { return "link" }
func (l *link) Unwrap() error   { *l.asked++; return l.inner }

// largeErrors are trees of some n errors, with end at their end.
var largeErrors = map[string]func(n int, asked *int, end error) error{
	"wide": func(n int, asked *int, end error) error {
		root := &node{asked: asked}
		for range n {
			root.branches = append(root.branches, &node{asked: asked})
		}
		root.branches = append(root.branches, end)
		return root
	},
	"deep": func(n int, asked *int, end error) error {
		for range n {
			end = &link{end, asked}
		}
		return end
	},
	"joined one by one": func(n int, asked *int, end error) error {
		for range n / 2 {
			end = &node{[]error{end, &node{asked: asked}}, asked}
		}
		return end
	},
	"marked again and again": func(n int, asked *int, end error) error {
		for range n / 2 {
			end = backoff.OfClass(&link{end, asked}, backoff.ClassRetryable)
		}
		return end
	},
}

// endlessErrors are trees that nobody can read to their end.
var endlessErrors = map[string]func(asked *int) error{
	"a cycle": func(asked *int) error {
		l := &link{asked: asked}
		l.inner = l
		return l
	},
	"a cycle with branches": func(asked *int) error {
		n := &node{asked: asked}
		n.branches = []error{n, errOutage, n}
		return n
	},
	"a cycle through an Error": func(asked *int) error {
		e := &backoff.Error{Reason: backoff.ReasonAttempts}
		e.Last = &node{[]error{e, errOutage, e}, asked}
		return e
	},
	"an Error that is its own": func(*int) error {
		e := &backoff.Error{Reason: backoff.ReasonAttempts}
		e.Last = backoff.OfClass(e, backoff.ClassUnknown)
		return e
	},
	"a cycle through marks": func(asked *int) error {
		l := &link{asked: asked}
		l.inner = backoff.OfClass(backoff.RetryAfter(l, 1), backoff.ClassUnknown)
		return l
	},
	"branches that are the same": func(asked *int) error {
		var err error = &backoff.Error{Last: errOutage}
		for range 100 {
			err = &node{[]error{err, err, errOutage}, asked}
		}
		return err
	},
}

// What it costs to judge an error grows with the error, and no faster, and ends
// where the error has no end.
func TestALargeErrorIsReadAFewTimesOnly(t *testing.T) {
	nightly.Long(t)
	judges := map[string]func(context.Context, error){
		"Breaker":           func(_ context.Context, err error) { feed(rateBreaker(), 1, err) },
		"DefaultClassifier": func(_ context.Context, err error) { backoff.DefaultClassifier(err) },
		"RetryAfterOf":      func(_ context.Context, err error) { backoff.RetryAfterOf(err) },
		"Cause":             func(_ context.Context, err error) { backoff.Cause(err) },
		"Policy": func(ctx context.Context, err error) {
			policy := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0), AttemptTimeout: 1, Budget: new(backoff.RetryBudget)}
			_ = policy.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return err })
		},
		"Hedge": func(ctx context.Context, err error) {
			_, _ = hedge.Value(ctx, new(hedge.Hedge), func(context.Context) (int, error) { return 0, err }, nil)
		},
		"Breaker past the deadline": func(ctx context.Context, err error) {
			ctx, cancel := context.WithTimeout(ctx, 1)
			defer cancel()
			_ = new(backoff.Breaker).Do(ctx, func(context.Context) error { <-ctx.Done(); return err })
		},
		"Breaker under a client's deadline": func(ctx context.Context, err error) {
			ctx, cancel := inbound.WithDeadline(ctx, time.Now().Add(time.Minute))
			defer cancel()
			_ = new(backoff.Breaker).Do(ctx, func(context.Context) error { return err })
		},
		"Observer": func(ctx context.Context, err error) {
			policy := backoff.Policy{MaxAttempts: 1, Observer: func(context.Context, backoff.Event) {}}
			_ = policy.Do(ctx, func(context.Context) error { return err })
		},
	}
	ends := map[string]error{"failure": errOutage, "policy": &backoff.Error{Last: errOutage}, "refusal": backoff.ErrOpen}
	for name, judge := range judges {
		for tree, build := range largeErrors {
			for end, err := range ends {
				synctest.Test(t, func(t *testing.T) {
					asked := 0
					judge(t.Context(), build(1000, &asked, err))
					require.LessOrEqual(t, asked, 20*1000, "%s, %s, %s", name, tree, end)
				})
			}
		}
		for tree, build := range endlessErrors {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				judge(t.Context(), build(&asked))
				require.LessOrEqual(t, asked, 20*10_000, "%s, %s", name, tree)
			})
		}
	}
}

func TestALargeErrorIsReadToItsEnd(t *testing.T) {
	for name, build := range largeErrors {
		synctest.Test(t, func(t *testing.T) {
			b := rateBreaker()
			feed(b, 1, build(8000, new(int), &backoff.Error{Last: errOutage}))
			require.EqualValues(t, 1, b.Stats().Failures, name)
			feed(b, 1, build(8000, new(int), context.DeadlineExceeded))
			require.EqualValues(t, 2, b.Stats().Failures, name)
			require.Equal(t, backoff.ClassRetryable, backoff.DefaultClassifier(build(8000, new(int), context.DeadlineExceeded)), name)
			after, ok := backoff.RetryAfterOf(build(8000, new(int), backoff.RetryAfter(errOutage, time.Second)))
			require.True(t, ok, name)
			require.Equal(t, time.Second, after, name)
		})
	}
}

func TestAnErrorWithoutAnEndIsAFailureUnlessItIsMarked(t *testing.T) {
	for name, build := range endlessErrors {
		synctest.Test(t, func(t *testing.T) {
			b := rateBreaker()
			feed(b, 1, build(new(int)))
			require.EqualValues(t, 1, b.Stats().Failures, name)
			feed(b, 1, backoff.Permanent(build(new(int))))
			require.EqualValues(t, 1, b.Stats().Successes, name)
		})
	}
}

// What was not read may have been sent.
func TestATreeTooLargeToReadIsNoProofThatNothingWasSent(t *testing.T) {
	var sent int
	policy := backoff.Policy{Schedule: backoff.Constant(0), Idempotency: backoff.NonIdempotent}
	for _, branch := range []error{syscall.ECONNREFUSED, backoff.OfClass(errOutage, backoff.ClassNotSent)} {
		small, large := &node{[]error{branch, branch}, new(int)}, &node{asked: new(int)}
		for range 10_001 {
			large.branches = append(large.branches, branch)
		}
		for err, want := range map[error]int{small: 4, large: 1} {
			sent = 0
			_ = policy.Do(t.Context(), func(context.Context) error { sent++; return err })
			require.Equal(t, want, sent, "%T", branch)
		}
	}
}

// A function that should return an error, and returns a nil pointer to one, is a
// common mistake.
func TestANilPointerToAnErrorOfThisPackageIsAnError(t *testing.T) {
	for _, err := range []error{(*backoff.Error)(nil), (*backoff.OpenError)(nil)} {
		v := reflect.ValueOf(err)
		for i := range v.NumMethod() {
			v.Method(i).Call(nil)
		}
		require.Equal(t, "<nil>", err.Error())
		require.Equal(t, err, backoff.Cause(err))
		require.False(t, backoff.DefaultClassifier(fmt.Errorf("x: %w", err)).Retryable())
		after, _ := backoff.RetryAfterOf(err)
		require.Zero(t, after)
		feed(new(backoff.Breaker), 1, err)

		told := 0
		policy := backoff.Policy{Budget: new(backoff.RetryBudget), Observer: func(context.Context, backoff.Event) { told++ }}
		require.Error(t, policy.Do(t.Context(), func(context.Context) error { return err }))
		require.NoError(t, loop(policy.Start(t.Context()), returning(nil).do))
		run := policy.Start(t.Context())
		for range run.Attempts() {
			run.Fail(err)
			break
		}
		require.Error(t, run.Err())
		hedged := hedge.Hedge{Observer: policy.Observer}
		_, got := hedge.Value(t.Context(), &hedged, func(context.Context) (int, error) { return 0, err }, nil)
		require.Error(t, got)
		require.Equal(t, 4, told)
	}
}

// A deadline that a client has chosen counts if it left a second, or if an
// attempt timed out before. What the service itself says always counts.
func TestADeadlineOfAClientCountsIfItLeftTimeEnough(t *testing.T) {
	fail := func(context.Context) error { return errBoom }
	early := func(ctx context.Context) error { // as a connection that has the deadline, before the context knows
		deadline, _ := ctx.Deadline()
		time.Sleep(time.Until(deadline))
		return os.ErrDeadlineExceeded
	}
	quick := &backoff.Policy{AttemptTimeout: 100 * time.Millisecond, Schedule: backoff.Constant(time.Hour), MaxAttempts: 2}
	for name, c := range map[string]struct {
		left    time.Duration
		breaker *backoff.Breaker
		inner   *backoff.Policy
		outer   *backoff.Policy
		op      func(context.Context) error
		counts  bool
	}{
		"too little":                   {time.Second - 1, &backoff.Breaker{}, nil, nil, hang, false},
		"a moment":                     {1, &backoff.Breaker{}, nil, nil, hang, false},
		"before the context knows":     {time.Millisecond, &backoff.Breaker{}, nil, nil, early, false},
		"enough":                       {time.Second, &backoff.Breaker{}, nil, nil, hang, true},
		"the service failed by itself": {time.Millisecond, &backoff.Breaker{}, nil, nil, fail, true},
		"slow calls are measured":      {time.Second - 1, &backoff.Breaker{SlowCall: time.Hour}, nil, nil, hang, false},
		"a time of the user's":         {50 * time.Millisecond, &backoff.Breaker{MinAttemptTime: 50 * time.Millisecond}, nil, nil, hang, true},
		"less than that":               {49 * time.Millisecond, &backoff.Breaker{MinAttemptTime: 50 * time.Millisecond}, nil, nil, hang, false},
		"every deadline counts":        {1, &backoff.Breaker{MinAttemptTime: -1}, nil, nil, hang, true},
		"under a policy":               {50 * time.Millisecond, &backoff.Breaker{}, nil, quick, hang, false},
		"under one that timed out":     {150 * time.Millisecond, &backoff.Breaker{}, nil, quick, hang, true},
		"around a policy":              {50 * time.Millisecond, &backoff.Breaker{}, quick, nil, hang, false},
		"around one that timed out":    {150 * time.Millisecond, &backoff.Breaker{}, quick, nil, hang, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := inbound.WithDeadline(t.Context(), time.Now().Add(c.left))
			defer cancel()
			d := layers(c.breaker)
			if c.inner != nil {
				d = layers(d, c.inner)
			}
			if c.outer != nil {
				d = layers(c.outer, d)
			}
			require.Error(t, d.Do(ctx, c.op))
			require.Equal(t, c.counts, c.breaker.Stats().Failures > 0, name)
		})
	}
}

func TestAnInboundDeadlineThatLeavesNoTimeOpensNoCircuit(t *testing.T) {
	for _, row := range []struct {
		left time.Duration
		mark bool
		want backoff.BreakerState
	}{
		{time.Millisecond, true, backoff.BreakerClosed},
		{time.Second, true, backoff.BreakerOpen},
		{time.Millisecond, false, backoff.BreakerOpen}, // the process's own
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := within(t, row.left)
			if row.mark {
				ctx = guard.WithInboundDeadline(ctx)
			}
			breaker := &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1}
			require.Error(t, breaker.Do(ctx, hang))
			require.Equal(t, row.want, breaker.State())
		})
	}
	require.Equal(t, t.Context(), guard.WithInboundDeadline(t.Context()), "it has none")
}
