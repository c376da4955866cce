package backoff

import (
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/limits"
)

const (
	defaultInitial    = 100 * time.Millisecond
	defaultMax        = 30 * time.Second
	defaultMultiplier = 2
	maxGrowthFactor   = 30 // first delays in the longest one, if that is beyond defaultMax
	maxDuration       = time.Duration(math.MaxInt64)
)

// A Schedule says the delay before each retry, without jitter. [Exponential]{}
// is the default.
//
// Delay gets the number of the retry, from 1; for 0 and less it returns 0. It
// must be pure and safe for concurrent use, and must saturate where the
// arithmetic would overflow. A negative delay counts as 0.
type Schedule interface {
	Delay(retry int) time.Duration
}

// ScheduleFunc is a function that serves as a [Schedule]. It is not called for
// retries below 1, and a negative result counts as 0. [Policy.Validate] refuses
// a nil ScheduleFunc.
type ScheduleFunc func(retry int) time.Duration

// Delay returns f(retry).
func (f ScheduleFunc) Delay(retry int) time.Duration {
	if retry <= 0 || f == nil {
		return 0
	}
	return max(0, f(retry))
}

// Constant is a [Schedule] with the same delay before every retry. Constant(0)
// retries at once, and a jitter cannot spread it. A negative Constant is
// invalid.
type Constant time.Duration

// Delay returns the constant.
func (c Constant) Delay(retry int) time.Duration {
	if retry <= 0 {
		return 0
	}
	return max(0, time.Duration(c))
}

// Linear is a [Schedule] that grows by the same step: Initial, Initial+Step,
// Initial+2*Step, and so on up to Max. The zero value is 100 ms, 200 ms, 300 ms,
// up to 30 s.
type Linear struct {
	// Delay before the first retry. Defaults to 100 ms; negative is invalid.
	Initial time.Duration

	// Growth with each further retry. Defaults to Initial; negative is invalid.
	Step time.Duration

	// Longest delay, before jitter. Defaults to 30 s, or thirty times the larger
	// of Initial and Step if that is longer; negative means no limit.
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
	limit := limitOf(l.Max, max(initial, step))
	hi, more := bits.Mul64(uint64(retry-1), uint64(step))
	if hi != 0 || more >= uint64(limit) {
		return limit
	}
	return min(limits.Add(initial, time.Duration(more)), limit)
}

// Exponential is a [Schedule] that grows by a factor: Initial,
// Initial*Multiplier, Initial*Multiplier^2, and so on up to Max. The zero value
// is 100 ms, 200 ms, 400 ms, up to 30 s.
type Exponential struct {
	// Delay before the first retry. Defaults to 100 ms; negative is invalid.
	Initial time.Duration

	// Longest delay, before jitter. Defaults to 30 s, or thirty times Initial if
	// that is longer; negative means no limit.
	Max time.Duration

	// Factor between two delays, at least 1. Defaults to 2.
	Multiplier float64
}

// Delay returns min(Initial * Multiplier^(retry-1), Max), saturating.
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

// Sequence returns a [Schedule] that lists the delay of each retry. The last one
// is repeated. Sequence keeps a copy of delays. [Policy.Validate] refuses an empty
// list and a negative delay.
func Sequence(delays ...time.Duration) Schedule {
	s := sequence(append([]time.Duration(nil), delays...))
	if len(s) == 0 {
		return invalidSchedule{s, "", "is an empty Sequence, want at least one delay"}
	}
	for i, d := range s {
		if d < 0 {
			return invalidSchedule{s, ": Sequence[" + strconv.Itoa(i) + "]", badfield.Below0(d)}
		}
	}
	return s
}

// sequence is what Sequence returns.
type sequence []time.Duration

func (s sequence) Delay(retry int) time.Duration {
	if retry <= 0 || len(s) == 0 {
		return 0
	}
	return max(0, s[min(retry, len(s))-1])
}

// invalidSchedule is a Schedule in which its constructor found a mistake, so that
// the calls under it need not look for one.
type invalidSchedule struct {
	Schedule
	field, text string
}

// delayOf returns s.Delay(retry) for a schedule that may be nil or a user's own.
// retry is 1 or more. Inlined, it would be in every program six times.
//
//go:noinline
func delayOf(s Schedule, retry int) time.Duration {
	if s == nil {
		return min(defaultInitial<<min(retry-1, 20), defaultMax) // Exponential{}.Delay(retry)
	}
	return max(0, s.Delay(retry))
}

// initialOf returns the first delay of a schedule.
func initialOf(initial time.Duration) time.Duration {
	return limits.Or(max(0, initial), defaultInitial)
}

// limitOf returns the longest delay of a schedule with the given Max. longest is
// the larger of its first delay and its step.
func limitOf(limit, longest time.Duration) time.Duration {
	switch {
	case limit > 0:
		return limit
	case limit < 0 || longest > maxDuration/maxGrowthFactor:
		return maxDuration
	}
	return max(defaultMax, maxGrowthFactor*longest)
}

// scale returns d*f for d >= 0, between 0 and the largest duration. A NaN gives
// 0; callers keep NaN out.
func scale(d time.Duration, f float64) time.Duration {
	switch product := float64(d) * f; {
	case product >= math.MaxInt64:
		return maxDuration
	case product > 0:
		return time.Duration(product)
	}
	return 0
}

// A checked Schedule can have values that it must not have.
type checked interface {
	problem() (field, text string) // mistake of an invalid one; field is within the schedule
}

// valid reports whether Validate accepts a schedule and a jitter. It runs
// before every call, and so names the kinds: to ask for a method would cost
// more than the rest of a call that succeeds.
func valid(s Schedule, j Jitter) bool {
	if j != nil && isInvalidJitter(j) {
		return false
	}
	switch s := s.(type) {
	case Exponential:
		return s.valid()
	case Constant:
		return s.valid()
	case Linear:
		return s.valid()
	case invalidSchedule:
		return false
	}
	return !badfield.IsNil(s)
}

// checkSchedule says what is wrong with a schedule, naming field.
func checkSchedule(field string, s Schedule) error {
	switch {
	case valid(s, nil):
		return nil
	case badfield.IsNil(s):
		return invalid(field, badfield.HoldsNil)
	}
	within, text := s.(checked).problem()
	return invalid(field+within, text)
}

func (c Constant) valid() bool { return c >= 0 }

func (c Constant) problem() (field, text string) {
	return ": Constant", badfield.Below0(time.Duration(c))
}

func (l Linear) valid() bool { return l.Step >= 0 && validInitial(l.Initial, l.Max) }

func (l Linear) problem() (field, text string) {
	if l.Step < 0 {
		return ": Linear.Step", badfield.Below0(l.Step)
	}
	return ": Linear.Initial", problemInitial(l.Initial, l.Max)
}

func (e Exponential) valid() bool {
	return validInitial(e.Initial, e.Max) && (e.Multiplier == 0 || e.Multiplier >= 1 && e.Multiplier <= math.MaxFloat64)
}

func (e Exponential) problem() (field, text string) {
	if !validInitial(e.Initial, e.Max) {
		return ": Exponential.Initial", problemInitial(e.Initial, e.Max)
	}
	return ": Exponential.Multiplier",
		"is " + strconv.FormatFloat(e.Multiplier, 'g', -1, 64) + ", want 0 (for 2) or at least 1"
}

func (i invalidSchedule) problem() (field, text string) { return i.field, i.text }

func validInitial(initial, limit time.Duration) bool {
	return initial >= 0 && (limit <= 0 || initial <= limit)
}

// problemInitial says what is wrong with the first delay of a schedule.
func problemInitial(initial, limit time.Duration) string {
	if initial < 0 {
		return badfield.Below0(initial)
	}
	return "is " + initial.String() + ", above the maximum of " + limit.String()
}
