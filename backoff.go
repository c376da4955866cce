// Package backoff carries a call through transient failure without hurting the
// service it calls.
//
//	var fetching = backoff.Policy{Name: "fetch"}
//
//	err := fetching.Do(ctx, func(ctx context.Context) error {
//		return fetch(ctx)
//	})
//
// The zero [Policy] is safe: at most 4 attempts, capped exponential backoff
// (100 ms, doubling, up to 30 s) under full jitter, bounded by the context and
// obedient to a server's hint of up to 5 minutes.
//
// A [Schedule] says how the delay grows ([Exponential], [Linear], [Constant],
// [Sequence]); a [Jitter] spreads it, so that a fleet which failed together does
// not come back together ([FullJitter], [EqualJitter], [DecorrelatedJitter]).
//
// A [Classifier] sorts errors. An operation says more than its error does by
// marking it: [Permanent] ends the call, [RetryAfter] passes on a server's hint.
// An [Idempotency] says whether the operation may be sent twice at all.
//
// Policies nest without multiplying: what an inner policy gave up on is permanent
// to the loops around it, so that three layers of four attempts cost four calls
// at the bottom, not 64. [Stack] puts one [Doer] around another.
//
// What many calls share bounds what an outage costs: a [Budget], such as [RetryBudget], the
// retries, and a [Breaker] the calls. A policy has neither unless it is given one. A
// [Hedge] asks twice where the first answer is slow. One [Observer] hears of all of them.
//
// A definitive error comes back as the operation returned it, to errors.Is and errors.As. Where a
// policy gives up, the error is an [*Error] that tells why, and matches the last one.
//
// Packages beside this one carry HTTP calls (backoffhttp), SQL transactions (backoffsql) and calls
// of other clients (plug), log (backoffslog), count (backoffmetrics), read policies from
// files (spec) and know those of other systems (presets). Those below contrib, such as
// backoffgrpc, are modules of their own.
//
// Everywhere in the package 0 means the documented default and a negative number
// means no limit. An attempt counts the first call, a retry does not. A delay is
// what the schedule says, a wait is what is slept, a hint is what a server asked
// for. There is no clock to inject: run tests under testing/synctest.
package backoff

import (
	"context"
	"math"
	"math/bits"
	"strconv"
	"time"
)

const (
	defaultInitial    = 100 * time.Millisecond
	defaultMax        = 30 * time.Second
	defaultMultiplier = 2
	maxDuration       = time.Duration(math.MaxInt64)
)

// A Schedule says how long the delay before each retry is, before jitter.
//
// Delay is called with the number of the retry, counted from 1; for 0 and less it
// returns 0. It must be pure and safe for concurrent use, must saturate where the
// arithmetic would overflow, and never return a negative delay (one is taken
// as 0). State that belongs to one call, such as the previous wait, is handed to
// the [Jitter] instead.
type Schedule interface {
	Delay(retry int) time.Duration
}

// ScheduleFunc makes a [Schedule] of a function. It is not called for retries
// below 1, and a negative result counts as 0. [Policy.Validate] refuses a nil one.
type ScheduleFunc func(retry int) time.Duration

// Delay returns f(retry).
func (f ScheduleFunc) Delay(retry int) time.Duration {
	if retry <= 0 || f == nil {
		return 0
	}
	return max(0, f(retry))
}

// Constant is a [Schedule] with the same delay before every retry. Constant(0)
// retries at once, which is right for a single retry and wrong for a loop: with a
// delay of 0 there is nothing left for jitter to spread.
type Constant time.Duration

// Delay returns the constant.
func (c Constant) Delay(retry int) time.Duration {
	if retry <= 0 {
		return 0
	}
	return max(0, time.Duration(c))
}

// Linear is a [Schedule] that grows by the same step: Initial, Initial+Step,
// Initial+2*Step, and so on up to Max.
//
// The zero value is 100 ms, 200 ms, 300 ms, up to 30 s.
type Linear struct {
	// Initial is the delay before the first retry. 0 means 100 ms.
	Initial time.Duration
	// Step is what each further retry adds. 0 means Initial, which makes the
	// delay Initial times the number of the retry.
	Step time.Duration
	// Max bounds the delay, before jitter. 0 means 30 s, or Initial if that is
	// longer; a negative one means no limit.
	Max time.Duration
}

// Delay returns min(Initial + (retry-1)*Step, Max), saturating.
func (l Linear) Delay(retry int) time.Duration {
	if retry <= 0 {
		return 0
	}
	initial := initialOf(l.Initial)
	step := l.Step
	if step <= 0 {
		step = initial
	}
	limit := limitOf(l.Max, initial)
	hi, growth := bits.Mul64(uint64(retry-1), uint64(step))
	if hi != 0 || growth >= uint64(limit) {
		return limit
	}
	return min(saturatingAdd(initial, time.Duration(growth)), limit)
}

// Exponential is a [Schedule] that grows by a factor: Initial,
// Initial*Multiplier, Initial*Multiplier^2, and so on up to Max.
//
// The zero value is 100 ms, 200 ms, 400 ms, up to 30 s. The first retry waits
// Initial: where a document starts at Initial*Multiplier, give it that.
type Exponential struct {
	// Initial is the delay before the first retry. 0 means 100 ms.
	Initial time.Duration
	// Max bounds the delay, before jitter. 0 means 30 s, or Initial if that is
	// longer; a negative one means no limit.
	Max time.Duration
	// Multiplier is the factor between two delays, at least 1. 0 means 2.
	Multiplier float64
}

// Delay returns min(Initial * Multiplier^(retry-1), Max), saturating. A doubling
// schedule costs a shift; other factors cost a math.Pow.
func (e Exponential) Delay(retry int) time.Duration {
	if retry <= 0 {
		return 0
	}
	initial := initialOf(e.Initial)
	limit := limitOf(e.Max, initial)
	if e.Multiplier >= 1 && e.Multiplier != defaultMultiplier {
		return min(scale(initial, math.Pow(e.Multiplier, float64(retry-1))), limit)
	}
	if retry > bits.LeadingZeros64(uint64(initial)) {
		return limit
	}
	return min(initial<<(retry-1), limit)
}

// Truncate returns a [Schedule] that is s with every delay bounded by max, before
// jitter. A nil s means Exponential{}. A max of 0 means 30 s, a negative one means
// no limit.
func Truncate(s Schedule, max time.Duration) Schedule {
	return truncated{s, limitOf(max, 0)}
}

type truncated struct {
	schedule Schedule
	max      time.Duration
}

func (t truncated) Delay(retry int) time.Duration {
	return min(delayOf(t.schedule, retry), t.max)
}

// Sequence returns a [Schedule] that lists the delay of each retry; the last one
// stands for all that follow. It keeps a copy of delays. [Policy.Validate] refuses
// an empty list and a negative delay.
func Sequence(delays ...time.Duration) Schedule {
	return sequence(append([]time.Duration(nil), delays...))
}

type sequence []time.Duration

func (s sequence) Delay(retry int) time.Duration {
	if retry <= 0 || len(s) == 0 {
		return 0
	}
	return max(0, s[min(retry, len(s))-1])
}

// A Doer carries an operation: [*Policy], [*Breaker], a [Stack] of these, or a type
// of the user's. It must call op on no more than one goroutine at a time, and not
// after Do has returned.
type Doer interface {
	Do(ctx context.Context, op func(context.Context) error) error
}

// DoValue is d.Do for an operation that also returns a value:
//
//	page, err := backoff.DoValue(ctx, &policy, fetch)
//
// It returns what op returned last, the value also beside an error: a last response is not
// lost.
//
// With the types of this package it costs what their Do costs, and op stays on the
// caller's stack. A Doer of another type gets its call through a second goroutine,
// while op itself still runs on the caller's.
func DoValue[T any](ctx context.Context, d Doer, op func(context.Context) (T, error)) (T, error) {
	p, ok := d.(*Policy)
	if !ok || p.watched() || p.guarded() || p.unsound() || ctx.Err() != nil {
		return doValue(ctx, d, op)
	}
	// What follows is Do, with one call less between the caller and op.
	value, err := op(ctx)
	if err == nil {
		return value, nil
	}
	err = p.redo(ctx, func(ctx context.Context) (err error) {
		value, err = op(ctx)
		return err
	}, err)
	return value, err
}

func doValue[T any](ctx context.Context, d Doer, op func(context.Context) (T, error)) (T, error) {
	var value T
	err := through(ctx, d, func(ctx context.Context) (err error) {
		value, err = op(ctx)
		return err
	})
	return value, err
}

// Stack returns the doers around one another, the outermost first:
// Stack(breaker, policy) asks the breaker once per call, Stack(policy, breaker)
// once per attempt. An empty Stack calls the operation.
func Stack(outermost ...Doer) Doer {
	s := &stack{doers: append([]Doer(nil), outermost...)}
	s.pair()
	return s
}

type stack struct {
	breaker *Breaker // around policy: the usual pair, where that is all there is
	policy  *Policy
	doers   []Doer
}

func (s *stack) pair() {
	if len(s.doers) == 2 {
		b, around := s.doers[0].(*Breaker)
		p, inside := s.doers[1].(*Policy)
		if around && inside {
			s.breaker, s.policy = b, p
		}
	}
}

func (s *stack) Do(ctx context.Context, op func(context.Context) error) error {
	if s.breaker != nil {
		return s.breaker.around(ctx, s.policy, op)
	}
	return layers(ctx, s.doers, op)
}

func layers(ctx context.Context, outermost []Doer, op func(context.Context) error) error {
	switch len(outermost) {
	case 0:
		return op(ctx)
	case 1:
		return through(ctx, outermost[0], op)
	}
	return through(ctx, outermost[0], func(ctx context.Context) error { return layers(ctx, outermost[1:], op) })
}

// through is d.Do(ctx, op), but calls the types of this package by name: passed to
// an interface, op would escape to the heap with everything it captures.
func through(ctx context.Context, d Doer, op func(context.Context) error) error {
	switch d := d.(type) {
	case *Policy:
		return d.Do(ctx, op)
	case *Breaker:
		return d.Do(ctx, op)
	case *stack:
		return d.Do(ctx, op)
	}
	return foreign(ctx, d, op)
}

// delayOf is s.Delay for a schedule that may be nil or somebody else's.
func delayOf(s Schedule, retry int) time.Duration {
	if s == nil {
		if retry <= 0 {
			return 0
		}
		return min(defaultInitial<<min(retry-1, 20), defaultMax) // Exponential{}.Delay(retry)
	}
	return max(0, s.Delay(retry))
}

func initialOf(initial time.Duration) time.Duration {
	if initial <= 0 {
		return defaultInitial
	}
	return initial
}

// limitOf resolves the bound of a schedule that starts at initial.
func limitOf(limit, initial time.Duration) time.Duration {
	switch {
	case limit > 0:
		return limit
	case limit < 0:
		return maxDuration
	}
	return max(defaultMax, initial)
}

func saturatingAdd(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a {
		return sum
	}
	return maxDuration
}

// scale returns d*f for d >= 0, between 0 and the largest duration whatever f is.
// A NaN gives 0, which is no wait at all: the callers keep NaN out.
func scale(d time.Duration, f float64) time.Duration {
	switch product := float64(d) * f; {
	case product >= math.MaxInt64:
		return maxDuration
	case product > 0:
		return time.Duration(product)
	}
	return 0
}

// sound reports whether Validate has nothing to say of a schedule and a jitter. It runs
// before every call: the usual kinds come first, and the most usual one outside the switch,
// which searches.
func sound(s Schedule, j Jitter) bool {
	if isImpossible(j) {
		return false
	}
	if e, ok := s.(Exponential); ok {
		return e.Initial >= 0 && (e.Max <= 0 || e.Initial <= e.Max) &&
			(e.Multiplier == 0 || e.Multiplier >= 1 && e.Multiplier <= math.MaxFloat64)
	}
	switch s := s.(type) {
	case nil:
		return true
	case Constant:
		return s >= 0
	case ScheduleFunc:
		return s != nil
	}
	return checkSchedule("", s) == nil
}

// checkSchedule says what is wrong with s. Only the kinds of this package have
// anything to check; a user's own answers for itself. Texts are made only where
// there is something to say.
func checkSchedule(field string, s Schedule) error {
	switch s := s.(type) {
	case Exponential:
		return s.check(field)
	case Linear:
		return s.check(field)
	case Constant:
		if s < 0 {
			return negative(field+": Constant", time.Duration(s))
		}
	case truncated:
		return checkSchedule(field, s.schedule)
	case sequence:
		return s.check(field)
	case ScheduleFunc:
		if s == nil {
			return invalid(field, "is a nil ScheduleFunc")
		}
	}
	return nil
}

func (e Exponential) check(field string) error {
	if e.Multiplier != 0 && !(e.Multiplier >= 1 && e.Multiplier <= math.MaxFloat64) {
		return invalid(field+": Exponential.Multiplier", "is "+strconv.FormatFloat(e.Multiplier, 'g', -1, 64)+", want 0 (for 2) or at least 1")
	}
	return checkInitial(field, "Exponential", e.Initial, e.Max)
}

func (l Linear) check(field string) error {
	if l.Step < 0 {
		return negative(field+": Linear.Step", l.Step)
	}
	return checkInitial(field, "Linear", l.Initial, l.Max)
}

func (s sequence) check(field string) error {
	if len(s) == 0 {
		return invalid(field, "is an empty Sequence, want at least one delay")
	}
	for i, d := range s {
		if d < 0 {
			return negative(field+": Sequence["+strconv.Itoa(i)+"]", d)
		}
	}
	return nil
}

func checkInitial(field, kind string, initial, limit time.Duration) error {
	if initial < 0 {
		return negative(field+": "+kind+".Initial", initial)
	}
	if limit > 0 && initial > limit {
		return invalid(field+": "+kind+".Initial", "is "+initial.String()+", beyond Max "+limit.String())
	}
	return nil
}

func negative(field string, d time.Duration) error {
	return invalid(field, "is "+d.String()+", want 0 or more")
}
