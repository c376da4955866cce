package guard_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/limit"
)

var modelSeed = flag.Uint64("model.seed", 0, "the only script that TestNothingIsLostWhateverHappens runs; 0 means many")

// However a service behaves, and whatever its callers do: while it is down, the line sends
// one probe at a time. Once it is well, nobody who has time fails, all are served soon,
// and no place, attempt, error or goroutine is lost.
func TestNothingIsLostWhateverHappens(t *testing.T) {
	scripts := nightly.Size(600, 100_000)
	if *modelSeed != 0 {
		scripts = 1
	}
	for range scripts {
		seed := *modelSeed
		if seed == 0 {
			seed = rand.Uint64()
		}
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWorld(t, seed).run() })
		}) {
			return
		}
	}
}

// world is one script: a service, and what happens to it.
type world struct {
	t       *testing.T
	draw    *rand.Rand // for the script; not for use while it runs
	service *guard.Service
	breaker *backoff.Breaker // nil if there is none
	opens   time.Duration    // for which the breaker opens at most

	began  time.Time
	phases []phase
	well   time.Duration // when the service is well for good

	all     sync.WaitGroup
	probing atomic.Int64 // attempts under way that began while the circuit was half-open
}

// phase is how the host behaves until a time.
type phase struct {
	until time.Duration
	how   int
}

const (
	isWell = iota
	refuses
	unavailable
	hangs
	flaps
	behaviours
)

var (
	errUnavailable = backoff.OfClass(errors.New("unavailable"), backoff.ClassRetryable)
	errHung        = backoff.OfClass(errors.New("connection reset"), backoff.ClassRetryable)
)

const hangTime = 20 * time.Second

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, draw: rand.New(rand.NewPCG(seed, 0)), began: time.Now()}
	w.service, w.opens = new(guard.Service), 72*time.Second
	switch w.draw.IntN(4) {
	case 0:
		w.service.NoBreaker, w.opens = true, 0
	case 1, 2:
		w.opens = w.upTo(2*time.Second) + 25*time.Millisecond
		w.service.Breaker = &backoff.Breaker{ConsecutiveFailures: 1 + w.draw.IntN(5), ConsecutiveSpan: -1, OpenFor: backoff.Constant(w.opens)}
	}
	switch w.draw.IntN(3) {
	case 0:
		w.service.NoBudget = true
	case 1:
		w.service.Budget = backoff.JoinBudgets(new(backoff.RetryBudget), &limit.Concurrency{Max: 2 + w.draw.IntN(10)})
	}
	w.breaker = breakerOf(w.service)
	for range 1 + w.draw.IntN(4) {
		w.well += w.upTo(15 * time.Second)
		w.phases = append(w.phases, phase{w.well, w.draw.IntN(behaviours)})
	}
	return w
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.draw.Int64N(int64(d))) }

func (w *world) chance(percent int) bool { return w.draw.IntN(100) < percent }

// now returns how the host behaves now.
func (w *world) now() int {
	age := time.Since(w.began)
	for _, p := range w.phases {
		switch {
		case age >= p.until:
		case p.how != flaps:
			return p.how
		case age/(500*time.Millisecond)%2 == 0:
			return refuses
		default:
			return isWell
		}
	}
	return isWell
}

// answer is one attempt at the host.
func (w *world) answer(ctx context.Context) error {
	switch w.now() {
	case refuses:
		return syscall.ECONNREFUSED
	case unavailable:
		time.Sleep(5 * time.Millisecond)
		return errUnavailable
	case hangs:
		select {
		case <-time.After(hangTime):
			return errHung
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	time.Sleep(10 * time.Millisecond)
	return nil
}

func (w *world) run() {
	for range 10 + w.draw.IntN(60) {
		c := w.newCall()
		w.all.Go(func() { time.Sleep(c.starts); c.run() })
	}
	for range w.draw.IntN(4) {
		w.meddle(w.upTo(w.well), w.draw.IntN(3))
	}
	w.all.Wait()
	synctest.Wait()
	require.Zero(w.t, w.service.State().Waiting)
	require.Zero(w.t, w.probing.Load())
	if w.breaker != nil {
		w.breaker.Reset()
	}
	began := time.Now()
	require.NoError(w.t, w.service.Do(w.t.Context(), once, okay), "a fresh call")
	require.Zero(w.t, time.Since(began), "passes at once")
}

// meddle has an operator do something to the breaker, which ends when the host is well.
func (w *world) meddle(at time.Duration, what int) {
	if w.breaker == nil {
		return
	}
	w.all.Go(func() {
		time.Sleep(at)
		switch what {
		case 0:
			w.breaker.Trip()
		case 1:
			w.breaker.Reset()
		case 2:
			w.breaker.Force(backoff.ModeForcedOpen)
			time.Sleep(w.well - at)
			w.breaker.Force(backoff.ModeEnforce)
		}
	})
}

// modelCall is one call of a world.
type modelCall struct {
	*world
	service  *guard.Service
	policy   backoff.Policy
	rank     backoff.Priority
	starts   time.Duration
	has      time.Duration // of its caller; 0: no deadline
	leaves   time.Duration // when its caller leaves; 0: never
	failFast bool
	nested   bool // it calls the same service in itself
	outlives bool // a goroutine of it does that later
	crashes  int  // at this attempt; 0: never

	attempts int
	last     time.Duration // when the last of them began
	failed   error         // of the host
}

func (w *world) newCall() *modelCall {
	c := &modelCall{world: w, service: w.service, starts: w.upTo(w.well + 3*time.Second)}
	c.policy = backoff.Policy{MaxAttempts: []int{0, 0, 0, 1, 2, 8, -1}[w.draw.IntN(7)], Schedule: backoff.Exponential{Initial: 20 * time.Millisecond, Max: time.Second}}
	c.rank = backoff.PriorityBackground + backoff.Priority(w.draw.IntN(3))
	if w.chance(70) {
		c.has = 20*time.Millisecond + w.upTo([]time.Duration{time.Second, 20 * time.Second, 3 * time.Minute}[w.draw.IntN(3)])
	}
	if w.chance(15) {
		c.policy.MaxElapsed = 1 + w.upTo(20*time.Second)
	}
	if w.chance(15) {
		c.policy.AttemptTimeout = 20*time.Millisecond + w.upTo(5*time.Second)
	}
	if w.chance(10) {
		c.leaves = 1 + w.upTo(10*time.Second)
	}
	if tenant := w.draw.IntN(6); tenant < 2 {
		c.service = w.service.Tenant(fmt.Sprint(tenant))
	}
	c.failFast, c.nested, c.outlives = w.chance(10), w.chance(15) && w.breaker == nil && w.service.Budget == nil, w.chance(5)
	if w.chance(4) {
		c.crashes = 1 + w.draw.IntN(3)
	}
	return c
}

// op is the operation of the call.
func (c *modelCall) op(ctx context.Context) error {
	c.attempts++
	c.last = time.Since(c.began)
	if c.attempts > 5000 {
		panic("it does not end")
	}
	defer c.probes()()
	if c.outlives {
		c.all.Go(func() { time.Sleep(time.Second); _ = c.service.Do(ctx, once, c.answer) })
	}
	if c.attempts == c.crashes {
		panic(errCrash)
	}
	err := error(nil)
	if c.nested {
		err = c.service.Do(ctx, backoff.Policy{MaxAttempts: 1}, c.answer)
	} else {
		err = c.answer(ctx)
	}
	switch {
	case ctx.Err() == nil && !c.nested && err != nil:
		c.failed = err
	case ctx.Err() != nil && c.policy.AttemptTimeout > 0:
		c.failed = nil // that is a failure, too
	}
	return err
}

var errCrash = errors.New("crash")

// probes checks that no other probe is under way whose lease is not over.
func (c *modelCall) probes() (ended func()) {
	if c.breaker == nil || c.breaker.OpenFor == nil || c.breaker.State() != backoff.BreakerHalfOpen || c.policy.MaxAttempts != 1 && (c.policy.MaxAttempts != 0 || c.attempts <= 4) {
		return func() {} // it may be a further attempt of a call that passed before
	}
	require.LessOrEqual(c.t, c.probing.Add(1), int64(2), "probes at a time: one, and one more after a probe without a verdict")
	over := time.AfterFunc(min(c.opens, 5*time.Second)*7/10, func() { c.probing.Add(-1) })
	return func() {
		if over.Stop() {
			c.probing.Add(-1)
		}
	}
}

func (c *modelCall) run() {
	ctx, cancel := context.WithCancel(backoff.WithPriority(c.t.Context(), c.rank))
	defer cancel()
	if c.has > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.has)
		defer cancel()
	}
	if c.leaves > 0 {
		defer time.AfterFunc(c.leaves, cancel).Stop()
	}
	if c.failFast {
		ctx = guard.WithFailFast(ctx)
	}
	defer func() {
		if r := recover(); r != nil && r != any(errCrash) {
			panic(r)
		}
	}()
	c.check(ctx, c.service.Do(ctx, c.policy, c.op))
}

// slack is how long after the host is well all calls that wait are served, also if the
// caller of a probe goes away and the next one goes after half the time again.
func (c *modelCall) slack() time.Duration {
	return 2*c.opens + (c.well+hangTime)*3/2 + hangTime + 10*time.Second
}

// check checks how the call ended.
func (c *modelCall) check(ctx context.Context, err error) {
	now, about := time.Since(c.began), fmt.Sprintf("MaxAttempts %d, MaxElapsed %v, AttemptTimeout %v, starts %v, has %v, nested %v, failFast %v, well %v, opens %v, attempts %d, last %v: ended at %v with %v",
		c.policy.MaxAttempts, c.policy.MaxElapsed, c.policy.AttemptTimeout, c.starts, c.has, c.nested, c.failFast, c.well, c.opens, c.attempts, c.last, time.Since(c.began), err)
	if most := c.policy.MaxAttempts; most > 0 && !c.nested {
		require.LessOrEqual(c.t, c.attempts, most, about)
	}
	if c.leaves == 0 {
		require.Less(c.t, now, max(c.starts, c.well)+c.slack(), "%s: it was served too late", about)
	}
	if err == nil {
		return
	}
	if gave, ok := err.(*backoff.Error); ok {
		require.True(c.t, c.nested || c.attempts == gave.Attempts, "%d attempts, %s", c.attempts, about)
		require.True(c.t, gave.Reason != backoff.ReasonDeadline || errors.Is(err, context.DeadlineExceeded), about)
		if c.failFast {
			require.NotContains(c.t, err.Error(), "waited", about)
		}
	}
	if c.failed != nil {
		require.ErrorIs(c.t, err, c.failed, "%s: the last failure is lost", about)
	}
	if c.attempts == 0 && ctx.Err() == nil {
		require.True(c.t, errors.Is(err, backoff.ErrOpen) || errors.Is(err, backoff.ErrBudget) || errors.Is(err, context.DeadlineExceeded) || c.policy.MaxElapsed > 0, about)
	}
	timeIsOver := ctx.Err() != nil || c.policy.MaxElapsed > 0 && now >= c.starts+c.policy.MaxElapsed
	if c.starts >= c.well+c.slack() && !timeIsOver && !c.failFast && !c.nested {
		require.NoError(c.t, err, "at a healthy host")
	}
	if c.last > c.well && c.attempts > 0 && !timeIsOver && !c.nested && c.policy.AttemptTimeout == 0 {
		require.NoError(c.t, err, "%s: it was served by a healthy host", about)
	}
}
