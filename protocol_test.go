package backoff_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// The protocol between a policy and its budget.

// ledger is a Budget that writes down what it is asked and told. It grants
// everything at once, but for what refuse and wait say.
type ledger struct {
	backoff.BudgetDefaults

	refuse  func(backoff.Attempt) bool
	wait    func(backoff.Attempt) time.Duration
	mu      sync.Mutex
	began   time.Time
	granted int
	out     map[backoff.Ticket]bool
	lines   []string
}

func (l *ledger) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := "retry"
	if a.First() {
		kind = "first"
	} else if a.Hedge {
		kind = "hedge"
	}
	if l.began.IsZero() {
		l.began = a.Now
	}
	line := fmt.Sprintf("%v: reserve %s %d after %v", a.Now.Sub(l.began), kind, a.Number, a.Class)
	if l.refuse != nil && l.refuse(a) {
		l.lines = append(l.lines, line+": no")
		return backoff.Ticket{}, 0, false
	}
	l.lines = append(l.lines, line)
	l.granted++
	ticket := backoff.Ticket{Word: uint64(l.granted)}
	if l.out == nil {
		l.out = map[backoff.Ticket]bool{}
	}
	l.out[ticket] = true
	if l.wait != nil {
		return ticket, l.wait(a), true
	}
	return ticket, 0, true
}

func (l *ledger) Done(ticket backoff.Ticket, r backoff.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	outcome := r.String()
	if !l.out[ticket] {
		outcome += ", a ticket that is not out"
	}
	delete(l.out, ticket)
	l.lines = append(l.lines, "done "+strconv.FormatUint(ticket.Word, 10)+": "+outcome)
}

// A clerk is a budget that notes what it is asked and told.
type clerk struct {
	backoff.BudgetDefaults

	reserve func(n int) (time.Duration, bool) // the nth question; nil: yes
	depart  func(n int) bool

	mu       sync.Mutex
	asked    []backoff.Attempt
	times    []time.Time
	departed int
	out      map[uint64]bool
	told     []string
	results  []backoff.Result
}

func (c *clerk) Reserve(a backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.times = append(c.asked, a), append(c.times, time.Now())
	n := len(c.asked)
	ok = true
	if c.reserve != nil {
		wait, ok = c.reserve(n)
	}
	if ok {
		if c.out == nil {
			c.out = make(map[uint64]bool)
		}
		c.out[uint64(n)] = true
	}
	return backoff.Ticket{Word: uint64(n)}, wait, ok
}

func (c *clerk) Confirm(backoff.Ticket) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.departed++
	return c.depart == nil || c.depart(c.departed)
}

func (c *clerk) Done(t backoff.Ticket, r backoff.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Word != 0 && !c.out[t.Word] { // 0 is a first attempt that it was not asked for
		panic("told of a ticket that is not out")
	}
	delete(c.out, t.Word)
	c.told, c.results = append(c.told, r.String()), append(c.results, r)
}

// no refuses the questions from one number to another.
func no(from, to int) func(int) (time.Duration, bool) {
	return func(n int) (time.Duration, bool) { return 0, n < from || n > to }
}

// after grants everything, after so long.
func after(wait time.Duration) func(int) (time.Duration, bool) {
	return func(int) (time.Duration, bool) { return wait, true }
}

// took is how long the clerk's attempts took.
func (c *clerk) took() []time.Duration {
	return each(c.results, func(r backoff.Result) time.Duration { return r.Took })
}

// each returns what f says of each.
func each[T, V any](all []T, f func(T) V) (values []V) {
	for _, one := range all {
		values = append(values, f(one))
	}
	return values
}

func TestTheBudgetIsToldHowAnAttemptEnded(t *testing.T) {
	for _, row := range []struct {
		err  error
		want string
	}{
		{nil, "success"},
		{errBoom, "failed"},
		{backoff.OfClass(errBoom, backoff.ClassNotSent), "failed"},
		{backoff.OfClass(errBoom, backoff.ClassRetryable), "failed"},
		{backoff.OfClass(errBoom, backoff.ClassThrottled), "throttled"},
		{backoff.OfClass(errBoom, backoff.ClassOverloaded), "throttled"},
		{backoff.Permanent(errFinal), "permanent"},
		{context.DeadlineExceeded, "timeout"}, // once the time of the attempt is over
	} {
		synctest.Test(t, func(t *testing.T) {
			books := &ledger{}
			policy := backoff.Policy{MaxAttempts: 1, Budget: books, AttemptTimeout: time.Second}
			_ = policy.Do(t.Context(), returning(row.err).lasting(2*time.Second))
			require.Equal(t, []string{"0s: reserve first 1 after unknown", "done 1: " + row.want}, books.lines, "%v", row.err)
		})
	}
}

func TestACancelledAttemptIsNotHeldAgainstTheService(t *testing.T) {
	books := &ledger{}
	ctx, cancel := context.WithCancel(t.Context())
	_ = (&backoff.Policy{Budget: books}).Do(ctx, func(context.Context) error {
		cancel()
		return errBoom
	})
	require.Equal(t, []string{"0s: reserve first 1 after unknown", "done 1: canceled"}, books.lines)
}

func TestARetryThatIsNotMadeIsPaidBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &ledger{}
		policy := &backoff.Policy{Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, Budget: books}
		require.ErrorIs(t, policy.Do(cancelledAfter(t, time.Second), returning(errBoom).do), context.Canceled)
		require.Equal(t, []string{
			"0s: reserve first 1 after unknown", "done 1: failed",
			"0s: reserve retry 2 after unknown", "done 2: not sent",
		}, books.lines)
	})
}

func TestAnEndedContextAsksNoBudget(t *testing.T) {
	books := &ledger{}
	require.ErrorIs(t, (&backoff.Policy{Budget: books}).Do(endedContext(t), returning(nil).do), context.Canceled)
	require.Empty(t, books.lines)
}

// A budget may ask for more time than the policy, never for less, also before
// the first attempt.
func TestABudgetMayStretchAWait(t *testing.T) {
	policy := steady(2 * time.Second)
	policy.Budget = &ledger{wait: func(a backoff.Attempt) time.Duration { return time.Duration(a.Number) * time.Second }}
	events := watch(policy)
	at, err := attempts(t, policy, errBoom, errBoom, nil)
	require.NoError(t, err)
	require.Equal(t, msec(1000, 3000, 6000), at)
	require.Equal(t, 3*time.Second, (*events)[1].Wait, "the observer is told what will be slept")
	require.Equal(t, 2*time.Second, (*events)[1].Delay)
}

func TestAFirstAttemptThatIsNotMadeIsPaidBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &ledger{wait: func(backoff.Attempt) time.Duration { return time.Minute }}
		ctx, op := cancelledAfter(t, time.Second), returning(nil)
		require.EqualError(t, (&backoff.Policy{Budget: books}).Do(ctx, op.do), "backoff: not started: context canceled")
		require.Empty(t, op.at)
		require.Equal(t, []string{"0s: reserve first 1 after unknown", "done 1: not sent"}, books.lines)
	})
}

// Nor is one before a retry, as for any other wait.
func TestABudgetsWaitForTheFirstAttemptIsNotBegunIfItIsTooLong(t *testing.T) {
	for _, row := range []struct {
		elapsed time.Duration
		want    backoff.Reason
	}{
		{0, backoff.ReasonDeadline}, {time.Second, backoff.ReasonElapsed},
	} {
		synctest.Test(t, func(t *testing.T) {
			policy := steady(time.Second)
			policy.MaxElapsed = row.elapsed
			policy.Budget = &ledger{wait: func(backoff.Attempt) time.Duration { return 10 * time.Second }}
			events := watch(policy)
			op, began := returning(nil), time.Now()
			err := policy.Do(within(t, 5*time.Second), op.do)
			require.Empty(t, op.at)
			require.Zero(t, time.Since(began), "a wait that cannot end in an attempt is not begun")
			require.Equal(t, row.want, gaveUp(t, err).Reason)
			require.Len(t, *events, 1, "a call ends once")
		})
	}
}

// turnstile is a ledger that is also asked when an attempt is about to be made.
type turnstile struct {
	ledger
	shut func(ticket uint64) bool
}

func (s *turnstile) Confirm(ticket backoff.Ticket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	shut := s.shut != nil && s.shut(ticket.Word)
	s.lines = append(s.lines, fmt.Sprintf("%v: depart %d: %v", time.Since(s.began), ticket.Word, !shut))
	return !shut
}

// pacemaker is a ledger that is also asked when a wait is over. It answers with
// waits, and with tickets a hundred beyond the old ones.
type pacemaker struct {
	ledger
	waits []time.Duration // negative: no
}

func (p *pacemaker) Pace(old backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := p.waits[0]
	p.waits = p.waits[1:]
	p.lines = append(p.lines, fmt.Sprintf("%v: pace %d: %v", time.Since(p.began), old.Word, wait))
	if wait < 0 {
		return old, 0, false
	}
	delete(p.out, old)
	ticket := backoff.Ticket{Word: old.Word + 100}
	p.out[ticket] = true
	return ticket, wait, true
}

func TestABudgetIsAskedForThePaceWhenAWaitIsOver(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		waits []time.Duration
		at    []time.Duration
		want  []string
		why   backoff.Reason
	}{
		{[]time.Duration{0}, msec(0, 1000), []string{"1s: pace 2: 0s", "done 102: success"}, backoff.Reason(0)},
		{
			[]time.Duration{2 * s, s, 0}, msec(0, 4000),
			[]string{"1s: pace 2: 2s", "3s: pace 102: 1s", "4s: pace 202: 0s", "done 302: success"}, backoff.Reason(0),
		},
		{[]time.Duration{-1}, msec(0), []string{"1s: pace 2: -1ns", "done 2: not sent"}, backoff.ReasonBudget},
		{[]time.Duration{9*s + 1}, msec(0), []string{"1s: pace 2: 9.000000001s", "done 102: not sent"}, backoff.ReasonElapsed},
		{[]time.Duration{s, 8*s + 1}, msec(0), []string{"1s: pace 2: 1s", "2s: pace 102: 8.000000001s", "done 202: not sent"}, backoff.ReasonElapsed},
	} {
		for _, joins := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				books := &pacemaker{waits: row.waits}
				policy := &backoff.Policy{Schedule: backoff.Constant(s), Jitter: backoff.NoJitter, MaxElapsed: 10 * s}
				if policy.Budget = books; joins {
					policy.Budget = backoff.JoinBudgets(books, &backoff.RetryBudget{})
				}
				events := watch(policy)
				op := returning(errBoom, nil)
				err := policy.Do(t.Context(), op.do)
				require.Equal(t, row.at, op.at)
				require.Equal(t, append([]string{"0s: reserve first 1 after unknown", "done 1: failed", "0s: reserve retry 2 after unknown"}, row.want...), books.lines)
				last := (*events)[len(*events)-1]
				require.Equal(t, row.why, last.Reason)
				require.Equal(t, backoff.ClassUnknown, last.Class)
				if err == nil {
					require.Equal(t, op.at[1], last.Slept, "all of the waits")
					return
				}
				require.Equal(t, row.why, gaveUp(t, err).Reason)
				require.ErrorIs(t, err, errBoom)
				require.True(t, last.Waiting)
			})
		}
	}
}

func TestABudgetIsToldHowLongTheCallWaitsAnyway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		policy := steady(time.Second)
		policy.Budget = &ledger{wait: func(a backoff.Attempt) time.Duration { waits = append(waits, a.Wait); return 0 }}
		op := returning(waitFor(time.Minute), backoff.Pushback(errBoom, 3*time.Second), errBoom, nil)
		require.NoError(t, policy.Do(t.Context(), op.do))
		require.Equal(t, msec(0, 60_000, 3000, 1000), waits)
	})
}

func TestABudgetIsAskedAgainToConfirmTheAttempt(t *testing.T) {
	books := &turnstile{shut: func(ticket uint64) bool { return ticket == 3 }}
	policy := &backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Budget: books}
	events := watch(policy)

	at, err := attempts(t, policy, errBoom)

	require.Equal(t, []string{
		"0s: reserve first 1 after unknown", "0s: depart 1: true", "done 1: failed",
		"0s: reserve retry 2 after unknown", "1s: depart 2: true", "done 2: failed",
		"1s: reserve retry 3 after unknown", "2s: depart 3: false", "done 3: not sent",
	}, books.lines)
	require.Len(t, at, 2)
	requireIs(t, err, backoff.ErrBudget, errBoom)
	require.Equal(t, 2, gaveUp(t, err).Attempts)
	require.Equal(t, backoff.ReasonBudget, (*events)[len(*events)-1].Reason)
}

func TestADepartureMayBeRefusedToTheFirstAttempt(t *testing.T) {
	books := &turnstile{shut: func(uint64) bool { return true }}
	op := returning(nil)
	err := (&backoff.Policy{Budget: books}).Do(t.Context(), op.do)
	require.EqualError(t, err, "backoff: not started: budget refused (Budget)")
	require.Empty(t, op.at)
	require.Empty(t, books.out)
}

func TestAPanicAndAGoexitSettleTheAttempt(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("bug") }, "Goexit": runtime.Goexit} {
		for failures := range 2 {
			books := &ledger{}
			policy := backoff.Policy{Budget: books, Schedule: backoff.Constant(0), AttemptTimeout: time.Hour}
			var attempt context.Context
			apart(func() {
				defer func() { _ = recover() }()
				op := returning(errBoom)
				_ = policy.Do(t.Context(), func(ctx context.Context) error {
					if attempt = ctx; len(op.at) == failures {
						leave()
					}
					return op.do(ctx)
				})
			})
			require.Empty(t, books.out, "%s: a ticket is out", name)
			require.Equal(t, fmt.Sprintf("done %d: failed", failures+1), books.lines[len(books.lines)-1], name)
			require.ErrorIs(t, attempt.Err(), context.Canceled, "%s: the attempt's timer is armed", name)
		}
	}
}

// timingOut is an error whose Timeout method panics.
type timingOut struct{ error }

func (timingOut) Timeout() bool { panic("bug") }

// careless is an Idempotency that panics.
type careless struct{}

func (careless) Repeatable(context.Context, backoff.Class) bool { panic("bug") }

// Nor do the other functions of a policy, or of an error, keep a place that
// nobody gives back, wherever they panic.
func TestAPanicInAFunctionOfThePolicySettlesTheAttempt(t *testing.T) {
	crash := func() { panic("bug") }
	for name, policy := range map[string]backoff.Policy{
		"Classify":               {Classify: func(error) backoff.Class { crash(); return 0 }},
		"Schedule":               {Schedule: backoff.ScheduleFunc(func(int) time.Duration { crash(); return 0 })},
		"Jitter":                 {Jitter: func(time.Duration, time.Duration, float64) time.Duration { crash(); return 0 }},
		"Idempotency":            {Idempotency: careless{}},
		"AttemptTimeoutSchedule": {AttemptTimeoutSchedule: backoff.ScheduleFunc(func(int) time.Duration { crash(); return 0 })},
		"Timeout":                {AttemptTimeout: time.Nanosecond},
	} {
		fail := func(ctx context.Context) error {
			if policy.AttemptTimeout > 0 {
				<-ctx.Done()
			}
			return timingOut{errBoom}
		}
		for way, run := range map[string]func(*backoff.Policy){
			"Do":    func(p *backoff.Policy) { _ = p.Do(t.Context(), fail) },
			"range": func(p *backoff.Policy) { _ = loop(p.Start(t.Context()), fail) },
			"range left": func(p *backoff.Policy) {
				r := p.Start(t.Context())
				for ctx := range r.Attempts() {
					r.Fail(fail(ctx))
					break
				}
				panic("bug") // where leaving asks nothing
			},
			"Retry": func(p *backoff.Policy) {
				r := p.Start(t.Context())
				ctx, _ := r.Begin(0)
				r.Retry(fail(ctx))
			},
		} {
			books := &ledger{}
			policy.Budget = books
			require.PanicsWithValue(t, "bug", func() { run(&policy) }, "%s, %s", name, way)
			require.Empty(t, books.out, "%s, %s", name, way)
		}
	}
}

// ways are all ways of running a call that ask before each attempt.
var ways = map[string]func(context.Context, *backoff.Policy, func(context.Context) error) error{
	"Do": func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		return p.Do(ctx, op)
	},
	"Wrap": func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		return p.Wrap(op)(ctx)
	},
	"DoValue": func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		_, err := backoff.DoValue(ctx, p, func(ctx context.Context) (int, error) { return 1, op(ctx) })
		return err
	},
	"DoValue of a value": func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		_, err := backoff.DoValue(ctx, *p, func(ctx context.Context) (int, error) { return 1, op(ctx) })
		return err
	},
	"in a Breaker": func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		return new(backoff.Breaker).Do(ctx, p.Wrap(op))
	},
	"range": func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		return loop(p.Start(ctx), op)
	},
	"Retry": func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		r := p.Start(ctx)
		ctx, ok := r.Begin(0)
		for ok {
			var wait time.Duration
			if wait, ok = r.Retry(op(ctx)); ok {
				ctx, ok = r.Begin(wait)
			}
		}
		return r.Err()
	},
}

// record runs a script one way, and returns what operation, budget and observer
// saw, and the error.
func record(t *testing.T, way string, policy backoff.Policy, budgeted bool, results []error) []string {
	books := &turnstile{ledger: ledger{wait: func(a backoff.Attempt) time.Duration { return time.Duration(a.Number) * 300 * time.Millisecond }}}
	if budgeted {
		policy.Budget = books
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	books.began = time.Now()
	say := func(format string, args ...any) {
		books.lines = append(books.lines, fmt.Sprintf("%v: ", time.Since(books.began))+fmt.Sprintf(format, args...))
	}
	policy.Observer = func(_ context.Context, e backoff.Event) {
		say("%v %d after %v: %v wait %v slept %v elapsed %v", e.Kind, e.Attempt, e.Class, e.Reason, e.Wait, e.Slept, e.Elapsed)
	}
	op := returning(results...)
	err := ways[way](ctx, &policy, func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		say("called within %v, key %t", time.Until(deadline), backoff.IdempotencyKey(ctx) != "")
		time.Sleep(100 * time.Millisecond)
		if len(op.at) == 2 && policy.Name == "cancelled" {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		return op.do(ctx)
	})
	say("%v", err)
	return books.lines
}

// One script, run in every way: what the operation, the budget and the observer
// see is the same.
func TestEveryWayOfRunningIsTheSame(t *testing.T) {
	busy := backoff.RetryAfter(backoff.OfClass(errBoom, backoff.ClassThrottled), 3*time.Second)
	for name, results := range map[string][]error{
		"success":       {nil},
		"one failure":   {errBoom, nil},
		"failures":      {errBoom},
		"permanent":     {errBoom, backoff.Permanent(errFinal)},
		"throttled":     {busy, errBoom, nil},
		"overloaded":    {backoff.Pushback(errBoom, -1)},
		"exact":         {errBoom, backoff.Pushback(errBoom, 2*time.Second), errBoom, nil},
		"beyond ctx":    {errBoom, backoff.RetryAfter(errBoom, time.Minute)},
		"beyond limits": {backoff.RetryAfter(errBoom, time.Hour)},
	} {
		for _, policy := range []backoff.Policy{
			{},
			{Name: "cancelled"},
			{MaxAttempts: 1},
			{MaxElapsed: 2500 * time.Millisecond},
			{MaxElapsed: 2500 * time.Millisecond, ShortenLastWait: true},
			{AttemptTimeout: 5 * time.Second, Idempotency: backoff.Keyed},
			{Idempotency: backoff.NonIdempotent},
			{AttemptTimeoutSchedule: backoff.Constant(time.Second), MaxElapsed: 4 * time.Second},
			{Schedule: backoff.Sequence()},
		} {
			if policy.Schedule == nil {
				policy.Schedule = backoff.Exponential{Initial: time.Second}
			}
			policy.Jitter, policy.Rand = backoff.NoJitter, func() float64 { return 0.5 }
			for _, budgeted := range []bool{false, true} {
				var want []string
				synctest.Test(t, func(t *testing.T) { want = record(t, "Do", policy, budgeted, results) })
				require.NotEmpty(t, want)
				for way := range ways {
					synctest.Test(t, func(t *testing.T) {
						require.Equal(t, want, record(t, way, policy, budgeted, results), "%s, %s", way, name)
					})
				}
			}
		}
	}
}
