package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
)

// The examples draw the same number again and again, and hardly wait, so that
// their output can be checked. Do neither in a program.

// quick is a schedule for examples.
const quick = backoff.Constant(time.Microsecond)

// flaky returns an operation that fails the given number of times.
func flaky(failures int) func(context.Context) error {
	return func(context.Context) error {
		if failures--; failures >= 0 {
			return errors.New("connection reset")
		}
		return nil
	}
}

func Example() {
	var fetching = backoff.Policy{Name: "fetch", Schedule: backoff.Exponential{Initial: time.Microsecond}}

	fetch := flaky(2)
	err := fetching.Do(context.Background(), func(ctx context.Context) error {
		return fetch(ctx)
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExamplePolicy() {
	policy := backoff.Policy{
		Name:           "charge",
		MaxAttempts:    3,
		AttemptTimeout: 2 * time.Second,
		Schedule:       quick,
		Idempotency:    backoff.Keyed,
	}
	keys := map[string]bool{}
	err := policy.Do(context.Background(), func(ctx context.Context) error {
		keys[backoff.IdempotencyKey(ctx)] = true
		return errors.New("no answer")
	})
	fmt.Println(err != nil, len(keys))

	// Policies are varied by copying them.
	patient := policy
	patient.MaxAttempts = 10
	fmt.Println(policy.MaxAttempts, patient.MaxAttempts)
	// Output:
	// true 1
	// 3 10
}

// A service that throttles gets ten attempts and seconds between them. For all
// else it gets three, soon after one another.
func ExampleClassLimits() {
	policy := backoff.Policy{
		MaxAttempts: 3,
		Schedule:    backoff.Exponential{Initial: 50 * time.Millisecond},
		ByClass: map[backoff.Class]backoff.ClassLimits{
			backoff.ClassThrottled: {MaxAttempts: 10, Schedule: backoff.Exponential{Initial: time.Second, Max: 20 * time.Second}},
		},
		Jitter: backoff.NoJitter, // for the example
	}
	busy := backoff.OfClass(errors.New("too many requests"), backoff.ClassThrottled)
	show(policy.Decide(2, io.ErrUnexpectedEOF))
	show(policy.Decide(2, busy)) // the second retry of the call, whatever the first one was for
	show(policy.Decide(5, io.ErrUnexpectedEOF))
	show(policy.Decide(5, busy))
	// Output:
	// 100ms true
	// 2s true
	// 0s false
	// 16s true
}

func ExamplePolicy_Do() {
	policy := backoff.Policy{Schedule: quick}
	attempt := 0
	err := policy.Do(context.Background(), func(context.Context) error {
		attempt++
		fmt.Println("attempt", attempt)
		if attempt < 3 {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
	// <nil>
}

// A context limits the time of the whole call, and AttemptTimeout that of each
// attempt.
func ExamplePolicy_timeout() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	policy := backoff.Policy{AttemptTimeout: 10 * time.Millisecond, MaxAttempts: 2, Schedule: quick}
	err := policy.Do(ctx, func(ctx context.Context) error {
		<-ctx.Done() // a server that does not respond
		return ctx.Err()
	})
	fmt.Println(errors.Is(err, backoff.ErrAttemptTimeout), ctx.Err())
	// Output: true <nil>
}

// A fallback is an if: where the call fails, take a value that you have.
func ExampleDoValue_fallback() {
	ctx, cached := context.Background(), "the price of yesterday"
	policy := backoff.Policy{MaxAttempts: 2, Schedule: quick}
	price, err := backoff.DoValue(ctx, &policy, func(context.Context) (string, error) {
		return "", errors.New("connection reset")
	})
	if err != nil {
		price = cached
	}
	fmt.Println(price)
	// Output: the price of yesterday
}

func ExamplePolicy_Wrap() {
	policy := backoff.Policy{Schedule: quick}
	ping := policy.Wrap(flaky(1))
	fmt.Println(ping(context.Background()))
	// Output: <nil>
}

// Many clients take their backoff as a function of the number of the retry.
func ExamplePolicy_WaitBefore() {
	policy := backoff.Policy{Jitter: backoff.EqualJitter, Rand: func() float64 { return 0.5 }}
	var client struct{ Backoff func(retry int) time.Duration }
	client.Backoff = policy.WaitBefore
	fmt.Println(client.Backoff(1), client.Backoff(2), client.Backoff(3))
	// Output: 75ms 150ms 300ms
}

func ExamplePolicy_Retryable() {
	policy := backoff.Policy{Classify: backoff.RetryIf(func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) })}
	fmt.Println(policy.Retryable(fmt.Errorf("read: %w", io.ErrUnexpectedEOF)), policy.Retryable(io.EOF), policy.Retryable(nil))
	// Output: true false false
}

// show prints what a policy decides.
func show(d backoff.Decision) { fmt.Println(d.Wait, d.Again) }

func ExampleDecision() {
	policy := backoff.Policy{MaxAttempts: 3, Rand: func() float64 { return 0.5 }}
	for retry := 1; retry <= 3; retry++ {
		d := policy.Decide(retry, io.ErrUnexpectedEOF)
		fmt.Println(d.Again, d.Wait, d.Class, d.Reason)
	}
	// Output:
	// true 50ms retryable success
	// true 100ms retryable success
	// false 0s retryable attempts
}

func ExamplePolicy_Validate() {
	policy := backoff.Policy{Schedule: backoff.Linear{Initial: time.Minute, Max: time.Second}}
	fmt.Println(policy.Validate())
	// Output: backoff: Policy.Schedule: Linear.Initial is 1m0s, above the maximum of 1s
}

func ExamplePolicy_Start() {
	policy := backoff.Policy{Schedule: quick}
	op := flaky(2)

	r := policy.Start(context.Background())
	for ctx := range r.Attempts() {
		n := r.Attempt()
		if err := op(ctx); err != nil {
			r.Fail(err)
			continue
		}
		fmt.Println("done at attempt", n)
		break
	}
	fmt.Println(r.Err())
	// Output:
	// done at attempt 3
	// <nil>
}

func ExampleRun() {
	policy := backoff.Policy{Schedule: quick, Name: "fetch", MaxAttempts: 2}
	fetch := func(ctx context.Context) (string, error) {
		r := policy.Start(ctx)
		for range r.Attempts() {
			v, err := "", io.ErrUnexpectedEOF // what the operation returned
			if err == nil {
				return v, nil
			}
			r.Fail(err)
		}
		return "", r.Err()
	}
	_, err := fetch(context.Background())
	fmt.Println(errors.Is(err, backoff.ErrExhausted), errors.Is(err, io.ErrUnexpectedEOF))
	// Output: true true
}

// A loop that does something before each wait.
func ExampleRun_Retry() {
	policy := backoff.Policy{Schedule: quick, Jitter: backoff.NoJitter, MaxAttempts: 3}
	r := policy.Start(context.Background())
	ctx, ok := r.Begin(0)
	for ok {
		var wait time.Duration
		if wait, ok = r.Retry(flaky(1)(ctx)); ok {
			fmt.Println("again in", wait)
			ctx, ok = r.Begin(wait)
		}
	}
	fmt.Println(errors.Is(r.Err(), backoff.ErrExhausted))
	// Output:
	// again in 1µs
	// again in 1µs
	// true
}

// The loop of another library makes the attempts, and sleeps itself.
func ExampleRun_Tried() {
	policy := backoff.Policy{Jitter: backoff.NoJitter, MaxAttempts: 2}
	r := policy.Start(context.Background())
	fmt.Println(r.Tried(io.ErrUnexpectedEOF))
	fmt.Println(r.Tried(io.ErrUnexpectedEOF))
	fmt.Println(errors.Is(r.Err(), backoff.ErrExhausted))
	// Output:
	// 100ms true
	// 0s false
	// true
}

// Each chunk that arrives earns the transfer its attempts anew.
func ExampleRun_Progress() {
	policy := backoff.Policy{Schedule: quick, MaxAttempts: 2}
	sent, size := 0, 5
	r := policy.Start(context.Background())
	for range r.Attempts() {
		if sent++; sent == size {
			break
		}
		r.Progress()
		r.Fail(errors.New("connection reset after one more chunk"))
	}
	fmt.Println(sent, r.Err())
	// Output: 5 <nil>
}

// A reconnect loop starts again after a connection that held.
func ExampleRun_Reset() {
	policy := backoff.Policy{Schedule: quick, MaxAttempts: 3}
	connections := []string{"refused", "held", "refused", "refused"}
	r := policy.Start(context.Background())
	for range r.Attempts() {
		c := connections[0]
		connections = connections[1:]
		fmt.Println(c)
		if c == "held" {
			r.Reset()
		}
		r.Fail(errors.New("connection " + c))
	}
	fmt.Println(errors.Is(r.Err(), backoff.ErrExhausted))
	// Output:
	// refused
	// held
	// refused
	// refused
	// true
}

func print5(s backoff.Schedule) {
	for retry := 1; retry <= 5; retry++ {
		fmt.Print(s.Delay(retry), " ")
	}
	fmt.Println()
}

// fibonacci is a Schedule of one's own.
type fibonacci struct{ unit time.Duration }

func (f fibonacci) Delay(retry int) time.Duration {
	a, b := time.Duration(0), f.unit
	for range min(retry, 50) {
		a, b = b, a+b
	}
	return a
}

func ExampleSchedule() {
	print5(fibonacci{time.Second})
	// Output: 1s 1s 2s 3s 5s
}

func ExampleScheduleFunc() {
	print5(backoff.ScheduleFunc(func(retry int) time.Duration {
		return time.Duration(retry*retry) * time.Second
	}))
	// Output: 1s 4s 9s 16s 25s
}

func ExampleConstant() {
	print5(backoff.Constant(time.Second))
	// Output: 1s 1s 1s 1s 1s
}

func ExampleLinear() {
	print5(backoff.Linear{Initial: time.Second, Step: 2 * time.Second, Max: 6 * time.Second})
	// Output: 1s 3s 5s 6s 6s
}

func ExampleExponential() {
	print5(backoff.Exponential{Initial: time.Second, Max: 20 * time.Second, Multiplier: 3})
	// Output: 1s 3s 9s 20s 20s
}

// One retry at once, for the connection that was idle too long, and then
// patience.
func ExampleSequence() {
	print5(backoff.Sequence(0, time.Second, 10*time.Second))
	// Output: 0s 1s 10s 10s 10s
}

// A third of the delay, for a reason of one's own.
func ExampleJitter() {
	var third backoff.Jitter = func(delay, _ time.Duration, _ float64) time.Duration { return delay / 3 }
	policy := backoff.Policy{Schedule: backoff.Constant(3 * time.Second), Jitter: third}
	fmt.Println(policy.WaitBefore(1))
	// Output: 1s
}

func ExampleFullJitter() {
	fmt.Println(backoff.FullJitter(time.Second, 0, 0.25))
	// Output: 250ms
}

func ExampleDecorrelatedJitter() {
	jitter := backoff.DecorrelatedJitter(time.Second, 10*time.Second)
	wait := time.Duration(0)
	for range 5 {
		wait = jitter(0, wait, 0.5)
		fmt.Print(wait, " ")
	}
	// Output: 2s 3.5s 5.75s 9.125s 10s
}

// The jitter of gRPC: 20 % to both sides.
func ExampleUniformJitter() {
	jitter := backoff.UniformJitter(0.8, 1.2)
	fmt.Println(jitter(time.Second, 0, 0), jitter(time.Second, 0, 0.5))
	// Output: 800ms 1s
}

func ExampleClass() {
	err := fmt.Errorf("read: %w", io.ErrUnexpectedEOF)
	class := backoff.DefaultClassifier(err)
	fmt.Println(class, class.Retryable())
	// Output: retryable true
}

// What a classifier has no opinion on is left to the default one.
func ExampleClassifier() {
	errStale := errors.New("stale session")
	policy := backoff.Policy{Classify: func(err error) backoff.Class {
		if errors.Is(err, errStale) {
			return backoff.ClassPermanent
		}
		return backoff.ClassUnknown
	}}
	fmt.Println(policy.Retryable(errStale), policy.Retryable(io.ErrUnexpectedEOF), policy.Retryable(context.Canceled))
	// Output: false true false
}

func ExampleRetryIf() {
	classify := backoff.RetryIf(func(err error) bool { return strings.Contains(err.Error(), "try again") })
	fmt.Println(classify(errors.New("busy, try again")), classify(errors.New("no")))
	// Output: retryable permanent
}

func ExamplePermanent() {
	policy := backoff.Policy{}
	attempts := 0
	err := policy.Do(context.Background(), func(context.Context) error {
		attempts++
		return backoff.Permanent(fmt.Errorf("parse: %w", io.ErrNoProgress))
	})
	fmt.Println(attempts, err, errors.Is(err, io.ErrNoProgress))
	// Output: 1 parse: multiple Read calls return no data or error true
}

// What an inner policy gave up on is permanent to the outer one, whatever its
// classifier, unless the middleware marks it. Mind that attempts multiply then.
func ExampleOfClass() {
	inner := backoff.Policy{Schedule: quick, MaxAttempts: 3}
	outer := backoff.Policy{Schedule: quick, MaxAttempts: 2, Classify: backoff.RetryIf(func(error) bool { return true })}
	for _, class := range []backoff.Class{backoff.ClassUnknown, backoff.ClassRetryable} {
		attempts := 0
		_ = outer.Do(context.Background(), func(ctx context.Context) error {
			err := inner.Do(ctx, func(context.Context) error { attempts++; return io.ErrUnexpectedEOF })
			return backoff.OfClass(err, class)
		})
		fmt.Println(class, attempts)
	}
	// Output:
	// unknown 3
	// retryable 6
}

func ExampleError() {
	policy := backoff.Policy{Name: "fetch", Schedule: backoff.Constant(0)}
	err := policy.Do(context.Background(), func(context.Context) error { return io.ErrUnexpectedEOF })
	fmt.Println(err)

	var gaveUp *backoff.Error
	if errors.As(err, &gaveUp) {
		fmt.Println(gaveUp.Name, gaveUp.Attempts, gaveUp.Reason, gaveUp.Last)
	}
	fmt.Println(errors.Is(err, backoff.ErrExhausted), errors.Is(err, io.ErrUnexpectedEOF))
	// Output:
	// backoff: fetch: gave up after 4 attempts: unexpected EOF
	// fetch 4 attempts unexpected EOF
	// true true
}

func ExampleReason() {
	policy := backoff.Policy{}
	err := policy.Do(context.Background(), func(context.Context) error {
		return backoff.RetryAfter(errors.New("maintenance"), time.Hour)
	})
	var gaveUp *backoff.Error
	if errors.As(err, &gaveUp) && gaveUp.Reason == backoff.ReasonRetryAfter {
		fmt.Println("come back in", gaveUp.RetryAfter())
	}
	// Output: come back in 1h0m0s
}

// A hint says when to come back, at the earliest.
func ExampleRetryAfter() {
	policy := backoff.Policy{Rand: func() float64 { return 0.5 }}
	err := backoff.RetryAfter(errors.New("429 Too Many Requests"), 20*time.Second)
	show(policy.Decide(1, err))
	// Output: 21s true
}

func ExampleRetryAfterOf() {
	err := fmt.Errorf("fetch: %w", backoff.RetryAfter(errors.New("429 Too Many Requests"), 20*time.Second))
	fmt.Println(backoff.RetryAfterOf(err))
	fmt.Println(backoff.RetryAfterOf(io.EOF))
	// Output:
	// 20s true
	// 0s false
}

// gRPC's form of a hint is exact, and may forbid the retry.
func ExamplePushback() {
	policy := backoff.Policy{}
	for _, pushback := range []time.Duration{250 * time.Millisecond, -1} {
		err := errors.New("unavailable")
		show(policy.Decide(1, backoff.Pushback(err, pushback)))
	}
	// Output:
	// 250ms true
	// 0s false
}

// An ACME server answers badNonce, and sends a new nonce with it.
func ExampleAtOnce() {
	policy := backoff.Policy{Schedule: backoff.Constant(time.Hour)}
	nonce := "used"
	err := policy.Do(context.Background(), func(context.Context) error {
		fmt.Println("order with the nonce that is", nonce)
		if nonce == "used" {
			nonce = "new"
			return backoff.AtOnce(errors.New("400 badNonce"))
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// order with the nonce that is used
	// order with the nonce that is new
	// <nil>
}

// readOnly allows what its context says is a read.
type readOnly struct{}

type methodKey struct{}

func (readOnly) Repeatable(ctx context.Context, c backoff.Class) bool {
	return ctx.Value(methodKey{}) == "GET" || c == backoff.ClassNotSent
}

func ExampleIdempotency() {
	policy := backoff.Policy{Schedule: quick, Idempotency: readOnly{}}
	for _, method := range []string{"GET", "POST"} {
		attempts := 0
		_ = policy.Do(context.WithValue(context.Background(), methodKey{}, method), func(context.Context) error {
			attempts++
			return io.ErrUnexpectedEOF
		})
		fmt.Println(method, attempts)
	}
	// Output:
	// GET 4
	// POST 1
}

func ExampleWithIdempotencyKey() {
	ctx := backoff.WithIdempotencyKey(context.Background(), "order-7")
	policy := backoff.Policy{Idempotency: backoff.Keyed}
	_ = policy.Do(ctx, func(ctx context.Context) error {
		fmt.Println("Idempotency-Key:", backoff.IdempotencyKey(ctx))
		return nil
	})
	// Output: Idempotency-Key: order-7
}

func ExampleObserver() {
	policy := backoff.Policy{
		Name: "fetch", Schedule: backoff.Constant(0), MaxAttempts: 2,
		Observer: func(_ context.Context, e backoff.Event) {
			fmt.Printf("%s: %v, attempt %d of %d: %v\n", e.Name, e.Kind, e.Attempt, e.MaxAttempts, e.Err)
		},
	}
	_ = policy.Do(context.Background(), func(context.Context) error { return io.ErrUnexpectedEOF })
	// Output:
	// fetch: retry, attempt 1 of 2: unexpected EOF
	// fetch: give up, attempt 2 of 2: unexpected EOF
}

func ExampleJoinObservers() {
	count, log := 0, func(_ context.Context, e backoff.Event) { fmt.Println(e.Kind) }
	policy := backoff.Policy{Schedule: quick, Observer: backoff.JoinObservers(log, func(context.Context, backoff.Event) { count++ })}
	_ = policy.Do(context.Background(), flaky(1))
	fmt.Println(count, "events")
	// Output:
	// retry
	// success
	// 2 events
}

// Three numbers are enough to see a service getting slower before it fails.
func ExampleEvent() {
	var retries, gaveUp, succeeded int
	policy := backoff.Policy{Schedule: quick, Observer: func(_ context.Context, e backoff.Event) {
		switch e.Kind {
		case backoff.EventRetry:
			retries++
		case backoff.EventGiveUp:
			gaveUp++
		case backoff.EventSuccess:
			succeeded++
		}
	}}
	for failures := range 6 {
		_ = policy.Do(context.Background(), flaky(failures))
	}
	fmt.Println(retries, gaveUp, succeeded)
	// Output: 12 2 4
}

func ExampleEventKind() {
	fmt.Printf("%v, %v, %v\n", backoff.EventRetry, backoff.EventGiveUp, backoff.EventSuccess)
	// Output: retry, give up, success
}

// counted is a Doer of one's own: it counts the calls that are under way.
type counted struct{ n atomic.Int64 }

func (c *counted) Do(ctx context.Context, op func(context.Context) error) error {
	c.n.Add(1)
	defer c.n.Add(-1)
	return op(ctx)
}

func ExampleDoer() {
	var calls counted
	n, err := backoff.DoValue(context.Background(), &calls, func(context.Context) (int64, error) { return calls.n.Load(), nil })
	fmt.Println(n, err, calls.n.Load())
	// Output: 1 <nil> 0
}

func ExampleDoValue() {
	policy := backoff.Policy{Schedule: quick}
	failures := 2
	page, err := backoff.DoValue(context.Background(), &policy, func(context.Context) (string, error) {
		if failures--; failures >= 0 {
			return "", io.ErrUnexpectedEOF
		}
		return "<html>", nil
	})
	fmt.Println(page, err)
	// Output: <html> <nil>
}

// allowance is a Budget in its simplest form: so many retries, and no more.
type allowance struct {
	backoff.BudgetDefaults

	left atomic.Int64
}

func (b *allowance) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if a.First() {
		return backoff.Ticket{}, 0, true
	}
	return backoff.Ticket{}, 0, b.left.Add(-1) >= 0
}

func ExampleBudgetDefaults() {
	budget := &allowance{}
	budget.left.Store(4)
	policy := backoff.Policy{Schedule: quick, Budget: budget}
	for range 3 {
		attempts := 0
		err := policy.Do(context.Background(), func(context.Context) error { attempts++; return io.ErrUnexpectedEOF })
		fmt.Println(attempts, errors.Is(err, backoff.ErrBudget))
	}
	// Output:
	// 4 false
	// 2 true
	// 1 true
}

// loud is a wrapper: it prints refusals, and is otherwise the budget in it.
type loud struct{ backoff.Budget }

func (b loud) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	t, wait, ok := b.Budget.Reserve(a)
	if !ok {
		fmt.Println("refused attempt", a.Number)
	}
	return t, wait, ok
}

func ExampleBudget() {
	policy := backoff.Policy{Schedule: quick, Budget: loud{&allowance{}}}
	err := policy.Do(context.Background(), flaky(1))
	fmt.Println(errors.Is(err, backoff.ErrBudget))
	// Output:
	// refused attempt 2
	// true
}

// inFlight is a Budget that lets only so many attempts run at a time, and
// prints what it is told.
type inFlight struct {
	backoff.BudgetDefaults

	limit, running int // single goroutine: otherwise guarded by a lock
	issued         uint64
}

func (b *inFlight) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if b.running == b.limit {
		return backoff.Ticket{}, 0, false
	}
	b.running++
	b.issued++
	fmt.Println("attempt", a.Number, "after", a.Class)
	return backoff.Ticket{Word: b.issued}, 0, true
}

func (b *inFlight) Done(t backoff.Ticket, r backoff.Result) {
	b.running--
	fmt.Println("ticket", t.Word, "success:", !r.Failed)
}

func ExampleAttempt() {
	policy := backoff.Policy{Schedule: quick, Budget: &inFlight{limit: 1}}
	failures := 1
	_ = policy.Do(context.Background(), func(context.Context) error {
		if failures--; failures >= 0 {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	// Output:
	// attempt 1 after unknown
	// ticket 1 success: false
	// attempt 2 after retryable
	// ticket 2 success: true
}

func ExampleTicket() {
	budget := &inFlight{limit: 1}
	first, _, _ := budget.Reserve(backoff.Attempt{Number: 1})
	_, _, ok := budget.Reserve(backoff.Attempt{Number: 1})
	fmt.Println(ok)
	budget.Done(first, backoff.Result{})
	// Output:
	// attempt 1 after unknown
	// false
	// ticket 1 success: true
}

// verdicts counts outcomes.
type verdicts struct {
	backoff.BudgetDefaults

	of map[string]int
}

func (verdicts) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, true
}
func (v verdicts) Done(_ backoff.Ticket, r backoff.Result) { v.of[r.String()]++ }

func ExampleResult_String() {
	v := verdicts{of: make(map[string]int)}
	policy := backoff.Policy{Schedule: quick, Budget: v}
	_ = policy.Do(context.Background(), flaky(2))
	_ = policy.Do(context.Background(), func(context.Context) error { return backoff.Permanent(io.EOF) })
	fmt.Println(v.of["success"], v.of["failed"], v.of["permanent"])
	// Output: 1 2 1
}

// A holdOff is a budget that grants no retry before the time a server asked
// for.
type holdOff struct {
	backoff.BudgetDefaults

	until time.Time
}

func (h *holdOff) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, h.until.Sub(a.Time()), true
}

func (h *holdOff) Done(_ backoff.Ticket, r backoff.Result) {
	if r.RetryAfter > 0 {
		h.until = time.Now().Add(r.RetryAfter)
	}
}

func ExampleResult() {
	budget := &holdOff{}
	throttled := backoff.RetryAfter(backoff.OfClass(errors.New("busy"), backoff.ClassThrottled), 20*time.Millisecond)
	_ = backoff.Policy{MaxAttempts: 1, Budget: budget}.Do(context.Background(), func(context.Context) error { return throttled })

	_, wait, _ := budget.Reserve(backoff.Attempt{Number: 1})
	fmt.Println(wait > 10*time.Millisecond)
	// Output: true
}

func ExampleCause() {
	policy := backoff.Policy{Name: "read", Schedule: backoff.Constant(0)}
	err := policy.Do(context.Background(), func(context.Context) error { return io.ErrUnexpectedEOF })
	fmt.Println(err)
	fmt.Println(backoff.Cause(err) == io.ErrUnexpectedEOF)
	// Output:
	// backoff: read: gave up after 4 attempts: unexpected EOF
	// true
}

func ExampleBreaker() {
	breaker := &backoff.Breaker{Name: "search"}
	policy := backoff.Policy{Name: "search", MaxAttempts: 1}

	search := policy.Wrap(func(context.Context) error { return errors.New("connection refused") })
	for range 30 {
		_ = breaker.Do(context.Background(), search) // one call, however many attempts
	}

	err := breaker.Do(context.Background(), func(context.Context) error {
		fmt.Println("not reached")
		return nil
	})
	fmt.Println(breaker.State(), errors.Is(err, backoff.ErrOpen))
	fmt.Println(err)
	// Output:
	// open true
	// backoff: search: circuit open: connection refused
}

// A breaker on trial: it goes through its states and tells, but refuses
// nothing.
func ExampleBreaker_Force() {
	breaker := &backoff.Breaker{
		Name: "search",
		Observer: func(_ context.Context, e backoff.Event) {
			if t := e.Transition; t != nil {
				fmt.Printf("%s: %v -> %v (%v)\n", t.Name, t.From, t.To, t.Trigger)
			}
		},
	}
	breaker.Force(backoff.ModeObserve)

	calls := 0
	for range 30 {
		_ = breaker.Do(context.Background(), func(context.Context) error { calls++; return errors.New("down") })
	}
	fmt.Println(calls, "calls")
	// Output:
	// search: closed -> open (rate)
	// 30 calls
}

// Allow is for callers that cannot give their call away as a function.
func ExampleBreaker_Allow() {
	breaker := &backoff.Breaker{Name: "search"}

	send := func() error {
		done, err := breaker.Allow()
		if err != nil {
			return err
		}
		err = errors.New("connection refused") // the call
		done(err)
		return err
	}

	fmt.Println(send())
	breaker.Trip()
	var open *backoff.OpenError
	if errors.As(send(), &open) {
		fmt.Println(open.Name, "is", open.State, "for some", open.RetryAfter().Round(5*time.Second))
	}
	// Output:
	// connection refused
	// search is open for some 5s
}

// maintenance is the Shared of a Breaker that operators write: services, and for how
// long they are down. The one of package fleet learns from the breakers of all
// processes instead.
type maintenance map[string]time.Duration

func (m maintenance) Consult(_ context.Context, name string, _ func()) backoff.BreakerTransition {
	if d := m[name]; d > 0 {
		return backoff.BreakerTransition{To: backoff.BreakerOpen, RetryAfter: d, Err: errors.New("maintenance")}
	}
	return backoff.BreakerTransition{}
}

func (maintenance) Probe(context.Context, string, time.Duration) backoff.BreakerTransition {
	return backoff.BreakerTransition{}
}

func (maintenance) Opened(string, time.Duration, int) {}
func (maintenance) Closed(string)                     {}

func ExampleBreaker_shared() {
	breaker := &backoff.Breaker{Name: "billing", Shared: maintenance{"billing": time.Minute}}
	err := breaker.Do(context.Background(), func(context.Context) error {
		fmt.Println("not reached")
		return nil
	})
	fmt.Println(errors.Is(err, backoff.ErrOpen))
	// Output: true
}

func ExampleBreakerStats() {
	breaker := &backoff.Breaker{TripIf: func(s backoff.BreakerStats) bool {
		return s.Failures > 2 && s.Successes == 0
	}}
	for range 3 {
		_ = breaker.Do(context.Background(), func(context.Context) error { return errDown })
	}
	stats := breaker.Stats()
	fmt.Println(stats.State, stats.Openings, stats.RetryAfter > 0)
	// Output: open 1 true
}

func ExampleBreakerState() {
	breaker := new(backoff.Breaker)
	before := breaker.State()
	breaker.Trip()
	fmt.Println(before, breaker.State())
	// Output: closed open
}

func ExampleBreakerMode() {
	breaker := new(backoff.Breaker)
	breaker.Force(backoff.ModeForcedOpen) // a switch for maintenance
	err := breaker.Do(context.Background(), func(context.Context) error { return nil })
	fmt.Println(breaker.Stats().Mode, errors.Is(err, backoff.ErrOpen))
	// Output: forced open true
}

func ExampleBreakerTransition() {
	breaker := &backoff.Breaker{Name: "search", Observer: func(_ context.Context, e backoff.Event) {
		if t := e.Transition; t != nil {
			fmt.Println(e.Name, t.From, t.To, t.Trigger)
		}
	}}
	breaker.Trip()
	breaker.Reset()
	// Output:
	// search closed open manual
	// search open closed manual
}

func ExampleOpenError() {
	breaker := &backoff.Breaker{Name: "search", OpenFor: backoff.Constant(time.Minute), ConsecutiveFailures: 1, ConsecutiveSpan: -1}
	_ = breaker.Do(context.Background(), func(context.Context) error { return errDown })

	err := breaker.Do(context.Background(), func(context.Context) error { return nil })
	var open *backoff.OpenError
	if errors.As(err, &open) {
		fmt.Println(open.Name, open.State, open.Last, open.RetryAfter() > 30*time.Second)
	}
	// Output: search open down true
}

func ExampleRetryBudgetStats() {
	budget := new(backoff.RetryBudget)
	policy := backoff.Policy{Budget: budget, Schedule: backoff.Constant(0)}
	for range 100 {
		_ = policy.Do(context.Background(), func(context.Context) error { return nil })
	}
	_ = policy.Do(context.Background(), func(context.Context) error { return errDown })
	stats := budget.Stats()
	fmt.Println(stats.Retries, "of", stats.Allowed)
	// Output: 3 of 15
}

// A loop that asks Decide and keeps its own count ends its call as Do would: no
// policy around it tries again.
func ExamplePolicy_GiveUp() {
	policy := backoff.Policy{Name: "deliver", MaxAttempts: 3}
	deliver := func(ctx context.Context, delivery int) error {
		err := errors.New("connection reset")
		if d := policy.Decide(delivery, err); d.Again {
			return backoff.RetryAfter(err, d.Wait) // the queue delivers again
		} else {
			return policy.GiveUp(ctx, backoff.Error{Attempts: delivery, Reason: d.Reason, Last: err})
		}
	}
	err := deliver(context.Background(), 3)
	fmt.Println(err)
	fmt.Println(errors.Is(err, backoff.ErrExhausted))
	// Output:
	// backoff: deliver: gave up after 3 attempts: connection reset
	// true
}
