package plug_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/plug"
)

// books is a budget that records what it is told.
type books struct {
	backoff.BudgetDefaults

	mu      sync.Mutex
	firsts  int
	retries int
	open    map[uint64]bool
	done    []string
	wait    time.Duration
	refuse  bool
	leave   bool // refuse to let an attempt depart
	issued  uint64
}

func (b *books) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse {
		return backoff.Ticket{}, 0, false
	}
	if a.First() {
		b.firsts++
	} else {
		b.retries++
	}
	b.issued++
	if b.open == nil {
		b.open = make(map[uint64]bool)
	}
	b.open[b.issued] = true
	return backoff.Ticket{Word: b.issued}, b.wait, true
}

func (b *books) Done(t backoff.Ticket, r backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, t.Word)
	b.done = append(b.done, r.String())
}

func (b *books) Confirm(backoff.Ticket) bool { return !b.leave }

// together runs f on n goroutines, and returns when all have ended.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// sdk makes a call as the middleware of aws-sdk-go-v2 does, attempt by attempt,
// with as many of its tokens released as its two modes do.
func sdk(ctx context.Context, r *plug.AWSRetryer, era2026 bool, op func(attempt int) error) error {
	release := func(error) error { return nil }
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		releaseAttempt, err := r.GetAttemptToken(ctx)
		if err != nil {
			return fmt.Errorf("failed to get retry Send token, %w", err)
		}
		err = op(n)
		release(err)
		if !era2026 || n == 1 {
			releaseAttempt(err)
		}
		if err == nil || !r.IsErrorRetryable(err) {
			return err
		}
		if limit := r.MaxAttempts(); limit > 0 && n >= limit {
			return fmt.Errorf("exceeded maximum number of attempts, %d, %w", n, err)
		}
		var refused error
		if release, refused = r.GetRetryToken(ctx, err); refused != nil {
			return errors.Join(err, refused)
		}
		number := n
		if era2026 {
			number--
		}
		wait, refused := r.RetryDelay(number, err)
		if refused != nil {
			return refused
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("canceled, %w", ctx.Err())
		}
	}
}

type status int

func (s status) Error() string       { return http.StatusText(int(s)) }
func (s status) HTTPStatusCode() int { return int(s) }

// withBudget is the policy of these tests with a budget.
func withBudget(b backoff.Budget) backoff.Policy {
	p := steps
	p.Budget = b
	return p
}

// busy is an attempt that fails.
func busy(int) error { return status(503) }

// busyFor is an attempt that fails so many times.
func busyFor(times int) func(int) error {
	return func(n int) error {
		if n <= times {
			return status(503)
		}
		return nil
	}
}

func TestAWSWaitsAreThePolicysInBothModes(t *testing.T) {
	for _, era2026 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			attempts := 0
			err := sdk(t.Context(), plug.AWS(steps), era2026, func(int) error { attempts++; return status(503) })
			require.ErrorIs(t, err, status(503))
			require.Equal(t, 4, attempts)
			want := 700 * time.Millisecond
			if era2026 {
				want = 400 * time.Millisecond // 0 and 1 are the same retry to whom cannot tell
			}
			require.Equal(t, want, time.Since(began))
		})
	}
}

// The SDK counts to the largest limit. RetryDelay ends the call at that of the
// class.
func TestAWSObeysTheLimitAndTheScheduleOfTheClass(t *testing.T) {
	policy := steps
	policy.MaxAttempts = 3
	policy.ByClass = map[backoff.Class]backoff.ClassLimits{
		backoff.ClassThrottled: {MaxAttempts: 6, Schedule: backoff.Constant(time.Second)},
		backoff.ClassNotSent:   {MaxAttempts: 1},
	}
	for name, row := range map[string]struct {
		answers  []error
		attempts int
		waited   time.Duration
	}{
		"transient":            {[]error{status(503)}, 3, 300 * time.Millisecond},
		"throttled":            {[]error{status(429)}, 6, 5 * time.Second},
		"transient at the end": {[]error{status(429), status(429), status(429), status(503)}, 4, 3 * time.Second},
		"not sent":             {[]error{syscall.ECONNREFUSED}, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			attempts := 0
			err := sdk(t.Context(), plug.AWS(policy), false, func(n int) error {
				attempts++
				return row.answers[min(n, len(row.answers))-1]
			})
			require.ErrorIs(t, err, row.answers[len(row.answers)-1], name)
			require.Equal(t, row.attempts, attempts, name)
			require.Equal(t, row.waited, time.Since(began), name)
			require.Equal(t, strings.HasPrefix(name, "transient"), errors.Is(err, backoff.ErrExhausted), name)
		})
	}
	require.Equal(t, 6, plug.AWS(policy).MaxAttempts())
	policy.ByClass[backoff.ClassThrottled] = backoff.ClassLimits{MaxAttempts: -1}
	unlimited := plug.AWS(policy)
	require.Zero(t, unlimited.MaxAttempts())
	_, err := unlimited.GetAttemptToken(t.Context())
	require.ErrorContains(t, err, "no limit of attempts", "for one class is enough")
	policy.ByClass[backoff.ClassPermanent] = backoff.ClassLimits{}
	require.Equal(t, 1, plug.AWS(policy).MaxAttempts(), "an invalid policy")
}

func TestAWSBudgetHearsOfEveryAttemptOnceInBothModes(t *testing.T) {
	for _, era2026 := range []bool{false, true} {
		t.Run(fmt.Sprint(era2026), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := new(books)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := sdk(ctx, plug.AWS(withBudget(b)), era2026, busyFor(2))
				require.NoError(t, err)
				require.Equal(t, 1, b.firsts)
				require.Equal(t, 2, b.retries)
				require.Equal(t, []string{"failed", "failed", "success"}, b.done)
				require.Empty(t, b.open)
			})
		})
	}
}

func TestAWSCallCancelledInAPauseGivesItsRetryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(books)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		err := sdk(ctx, plug.AWS(withBudget(b)), false, busy)
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Equal(t, []string{"failed", "not sent"}, b.done)
		require.Empty(t, b.open)
	})
}

func TestAWSCallsThatShareAContextAreCountedRightInSum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(books)
		r := plug.AWS(withBudget(b))
		together(20, func(i int) {
			time.Sleep(time.Duration(i) * 30 * time.Millisecond)
			sdk(t.Context(), r, i%2 == 0, busyFor(2))
		})
		require.Equal(t, 20, b.firsts)
		require.Equal(t, 40, b.retries)
	})
}

func TestAWSBudgetThatRefusesEndsTheCallForGood(t *testing.T) {
	b := new(books)
	p := steps
	p.Name, p.Budget = "put", b
	err := sdk(t.Context(), plug.AWS(p), false, func(int) error { b.refuse = true; return status(503) })
	require.ErrorIs(t, err, backoff.ErrBudget)
	require.ErrorIs(t, err, status(503))
	require.ErrorContains(t, err, "backoff: put: not started: budget refused (Budget); it was a retry")
	require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err), "permanent to the policies around it")

	err = sdk(t.Context(), plug.AWS(p), false, func(int) error { t.Fatal("attempt without leave"); return nil })
	require.ErrorIs(t, err, backoff.ErrBudget)
	require.ErrorContains(t, err, "backoff: put: not started: budget refused (Budget)")
}

func TestAWSBudgetMakesAttemptsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &books{wait: time.Second}
		p := steps
		p.MaxAttempts, p.Budget = 2, b
		began := time.Now()
		err := sdk(t.Context(), plug.AWS(p), false, busy)
		require.ErrorIs(t, err, status(503))
		require.Equal(t, 2*time.Second, time.Since(began), "the longer of the two waits")

		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		began = time.Now()
		err = sdk(ctx, plug.AWS(p), false, func(int) error { return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, time.Since(began), "a wait in vain is not begun")
		require.Empty(t, b.open)

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		err = sdk(ctx, plug.AWS(p), false, func(int) error { return nil })
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, b.open)
	})
}

func TestAWSBudgetIsAskedAgainAtDeparture(t *testing.T) {
	b := &books{leave: true}
	err := sdk(t.Context(), plug.AWS(withBudget(b)), false, func(int) error { return nil })
	require.ErrorIs(t, err, backoff.ErrBudget)
	require.Equal(t, []string{"not sent"}, b.done)
}

func TestAWSWaitInVainIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(books)
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := sdk(ctx, plug.AWS(withBudget(b)), false, busy)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, status(503))
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		require.Empty(t, b.open)
	})
}

func TestAWSRetriesWhatIsKnownToBeTransient(t *testing.T) {
	r := plug.AWS(steps)
	require.True(t, r.IsErrorRetryable(status(503)))
	require.True(t, r.IsErrorRetryable(status(429)))
	require.False(t, r.IsErrorRetryable(status(403)))
	require.False(t, r.IsErrorRetryable(nil))
	require.False(t, r.IsErrorRetryable(errors.New("who knows")), "a client's loop is no statement that its calls fail transiently")
	require.False(t, r.IsErrorRetryable(&backoff.Error{Reason: backoff.ReasonAttempts, Attempts: 4, Last: status(503)}))
	require.True(t, r.IsErrorRetryable(backoff.RetryAfter(status(503), time.Hour)), "RetryDelay ends the call")

	p := steps
	p.Classify = func(error) backoff.Class { return backoff.ClassThrottled }
	require.True(t, plug.AWS(p).IsErrorRetryable(errors.New("who knows")))
	require.False(t, plug.AWS(p).IsErrorRetryable(backoff.Permanent(errors.New("marked"))), "a mark stands above")
	require.False(t, plug.AWS(p).IsErrorRetryable(nil), "also where the classifier says yes to nil")
}

// answered is shaped like the SDK's ResponseError.
type answered struct{ resp *wrapped }

type wrapped struct{ *http.Response }

func (e *answered) Error() string          { return "answered" }
func (e *answered) RetryableError() bool   { return true }
func (e *answered) HTTPResponse() *wrapped { return e.resp }

func TestAWSObeysRetryAfter(t *testing.T) {
	r := plug.AWS(steps)
	for header, want := range map[string]time.Duration{"Retry-After": 7 * time.Second, "X-Amz-Retry-After": 7 * time.Millisecond} {
		resp := &wrapped{&http.Response{StatusCode: 503, Header: http.Header{header: {"7"}}}}
		err := fmt.Errorf("operation: %w", &answered{resp})
		wait, refused := r.RetryDelay(1, err)
		require.NoError(t, refused)
		require.GreaterOrEqual(t, wait, want)
		require.LessOrEqual(t, wait, want+max(want/10, 100*time.Millisecond))
	}
	overlong := &answered{&wrapped{&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"3600"}}}}}
	require.True(t, r.IsErrorRetryable(overlong), "or the SDK would return it as it is, and nobody knew that it is permanent")
	_, err := r.RetryDelay(1, overlong)
	require.EqualError(t, err, "backoff: gave up after 1 attempt: the server asks for a longer wait (MaxRetryAfter): answered")
	require.ErrorIs(t, err, backoff.ErrExhausted)
	var gaveUp *backoff.Error
	require.ErrorAs(t, err, &gaveUp)
	require.Equal(t, time.Hour, gaveUp.RetryAfter())
	require.False(t, steps.Retryable(err))

	for _, odd := range []error{&answered{&wrapped{}}, &answered{}, oddResponse{}, oddResult(nil)} {
		r.IsErrorRetryable(odd) // does not panic
	}
}

type oddResponse struct{}

func (oddResponse) HTTPResponse(int) *wrapped { return nil }
func (oddResponse) Error() string             { return "odd" }
func (oddResponse) Unwrap() error             { return nil }

type oddResult []int // not comparable

func (oddResult) HTTPResponse() int { return 0 }
func (oddResult) Error() string     { return "odd" }

// The error of the SDK shows no more of the Transport than its response.
func TestAWSDoesNotRepeatWhatATransportGaveUpOn(t *testing.T) {
	for limit, want := range map[int]struct {
		requests int
		text     string
	}{
		4: {4, "backoff: gave up after 4 attempts: answered"},
		1: {3, "exceeded maximum number of attempts, 3, answered"}, // it leaves retries to others
	} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			transport := &backoffhttp.Unguarded{Policy: backoff.Policy{MaxAttempts: limit}}
			p := steps
			p.MaxAttempts = 3
			err := sdk(t.Context(), plug.AWS(p), false, func(int) error {
				resp, err := transport.Middleware(response("GET", 0).Request, func(req *http.Request) (*http.Response, error) {
					requests++
					resp := response("GET", 503)
					resp.Request = req
					return resp, nil
				})
				require.NoError(t, err)
				return &answered{&wrapped{resp}}
			})
			require.Equal(t, want.requests, requests)
			require.EqualError(t, err, want.text, "permanent to the policies around it")
			require.ErrorAs(t, err, new(*answered))
		})
	}
}

func TestAWSRefusesWhatCannotBeObeyed(t *testing.T) {
	never := func(int) error { t.Fatal("an attempt was made"); return nil }
	err := sdk(t.Context(), plug.AWS(invalid), false, never)
	require.ErrorContains(t, err, "Policy.Schedule: Constant is -1ns")
	unlimited := backoff.Policy{MaxAttempts: -1}
	err = sdk(t.Context(), plug.AWS(unlimited), false, never)
	require.ErrorContains(t, err, "set MaxAttempts, or give the call a deadline")

	r := plug.AWS(invalid)
	require.Equal(t, 1, r.MaxAttempts())
	require.False(t, r.IsErrorRetryable(status(503)))
	_, err = r.RetryDelay(1, status(503))
	require.ErrorContains(t, err, "Policy.Schedule")
	_, err = r.GetRetryToken(t.Context(), status(503))
	require.ErrorContains(t, err, "Policy.Schedule")
	require.NoError(t, r.GetInitialToken()(nil))
}

func TestAWSIdempotency(t *testing.T) {
	p := steps
	p.Idempotency = backoff.NonIdempotent
	attempts := 0
	op := func(int) error { attempts++; return status(503) }
	err := sdk(t.Context(), plug.AWS(p), false, op)
	require.ErrorContains(t, err, "not started: not idempotent (Idempotency); it was a retry")
	require.ErrorIs(t, err, status(503))
	require.Equal(t, 1, attempts)

	attempts = 0
	p.Schedule, p.Idempotency = backoff.Constant(0), backoff.Keyed
	require.NotContains(t, sdk(t.Context(), plug.AWS(p), false, op).Error(), "not idempotent")
	require.Equal(t, 4, attempts)

	p.MaxAttempts = 1
	require.Equal(t, 1, plug.AWS(p).MaxAttempts())
	require.False(t, plug.AWS(p).IsErrorRetryable(status(503)))
}

func TestAWSInitialTokenTellsTheBudgetOnce(t *testing.T) {
	b := new(books)
	release := plug.AWS(withBudget(b)).GetInitialToken()
	release(status(400))
	release(nil)
	require.Equal(t, []string{"permanent"}, b.done)
	b.refuse = true
	require.NoError(t, plug.AWS(withBudget(b)).GetInitialToken()(nil))
}

func TestAWSOutcomes(t *testing.T) {
	b := new(books)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := plug.AWS(withBudget(b))
	for _, err := range []error{status(429), awsCode("SlowDown"), backoff.OfClass(status(503), backoff.ClassOverloaded), context.Canceled} {
		release, _ := r.GetAttemptToken(ctx)
		if err == context.Canceled {
			cancel()
		}
		release(err)
	}
	require.Equal(t, []string{"throttled", "throttled", "throttled", "canceled"}, b.done)
}

func TestAWSSharedErrorValuesAndOddOnesDoNotMixCallsUp(t *testing.T) {
	r := plug.AWS(steps)
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := r.GetRetryToken(soon, errTransient)
	require.NoError(t, err)
	_, err = r.GetRetryToken(t.Context(), backoff.OfClass(oddResult(nil), backoff.ClassRetryable))
	require.NoError(t, err)
	for _, failed := range []error{errTransient, oddResult(nil)} {
		_, err = r.GetRetryToken(t.Context(), failed)
		require.NoError(t, err)
		_, err = r.RetryDelay(1, failed)
		require.NoError(t, err, "whose deadline it is cannot be told")
	}
	_, err = r.RetryDelay(1, status(403))
	require.ErrorIs(t, err, status(403), "not to be retried")
}

func TestAWSIsSafeForConcurrentUse(t *testing.T) {
	p := backoff.Policy{Schedule: backoff.Constant(time.Microsecond), Budget: new(backoff.RetryBudget)}
	r := plug.AWS(p)
	together(16, func(i int) {
		for n := range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			if n%5 == 0 {
				time.AfterFunc(time.Microsecond, cancel)
			}
			sdk(ctx, r, i%2 == 0, busyFor(n%2))
			cancel()
		}
	})
}

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
				assert.NoError(t, sdk(ctx, r, false, busyFor(1)))
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
		together(10, func(int) { assert.NoError(t, sdk(t.Context(), r, false, func(int) error { return nil })) })
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
