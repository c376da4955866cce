package backoff

import (
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/gobackoff/backoff/internal/limits"
)

const (
	defaultInitial    = 100 * time.Millisecond
	defaultMax        = 30 * time.Second
	defaultMultiplier = 2
	maxDuration       = time.Duration(math.MaxInt64)
)

// A Schedule is the delay before each retry, before jitter. [Exponential]{} is
// the default, Constant(time.Second) is the simplest.
//
// Delay gets the number of the retry, counted from 1; for 0 and less it returns
// 0. It must be pure and safe for concurrent use, must saturate where the
// arithmetic would overflow, and must not return a negative delay, which would
// count as 0. What belongs to one call, such as the previous wait, goes to the
// [Jitter] instead.
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
// retries at once. That is right for a single retry and wrong for a loop,
// because a jitter cannot spread a delay of 0.
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
	// longer. A negative Max means no limit.
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
	return min(limits.Add(initial, time.Duration(growth)), limit)
}

// Exponential is a [Schedule] that grows by a factor: Initial,
// Initial*Multiplier, Initial*Multiplier^2, and so on up to Max.
//
// The zero value is 100 ms, 200 ms, 400 ms, up to 30 s. The first delay is
// Initial. For a document that starts at Initial*Multiplier, set Initial to
// that product.
type Exponential struct {
	// Initial is the delay before the first retry. 0 means 100 ms.
	Initial time.Duration
	// Max bounds the delay, before jitter. 0 means 30 s, or Initial if that is
	// longer. A negative Max means no limit.
	Max time.Duration
	// Multiplier is the factor between two delays, at least 1. 0 means 2.
	Multiplier float64
}

// Delay returns min(Initial * Multiplier^(retry-1), Max), saturating. It costs
// a shift if Multiplier is 2, and a math.Pow otherwise.
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

// Truncate returns a [Schedule] with the delays of s, each at most max, before
// jitter. A nil s means Exponential{}. A max of 0 means 30 s, a negative max no
// limit.
func Truncate(s Schedule, max time.Duration) Schedule {
	return truncated{s, limitOf(max, 0)}
}

// truncated is what Truncate returns.
type truncated struct {
	schedule Schedule
	max      time.Duration
}

func (t truncated) Delay(retry int) time.Duration {
	return min(delayOf(t.schedule, retry), t.max)
}

// Sequence returns a [Schedule] that lists the delay of each retry. The last
// delay serves all retries that follow. Sequence keeps a copy of delays.
// [Policy.Validate] refuses an empty list and a negative delay.
func Sequence(delays ...time.Duration) Schedule {
	return sequence(append([]time.Duration(nil), delays...))
}

// sequence is what Sequence returns.
type sequence []time.Duration

func (s sequence) Delay(retry int) time.Duration {
	if retry <= 0 || len(s) == 0 {
		return 0
	}
	return max(0, s[min(retry, len(s))-1])
}

// delayOf is s.Delay, for a schedule that may be nil or a user's own.
func delayOf(s Schedule, retry int) time.Duration {
	if s == nil {
		if retry <= 0 {
			return 0
		}
		return min(defaultInitial<<min(retry-1, 20), defaultMax) // Exponential{}.Delay(retry)
	}
	return max(0, s.Delay(retry))
}

// initialOf returns the first delay of a schedule.
func initialOf(initial time.Duration) time.Duration {
	if initial <= 0 {
		return defaultInitial
	}
	return initial
}

// limitOf returns the longest delay of a schedule that starts at initial.
func limitOf(limit, initial time.Duration) time.Duration {
	limit = limits.Or(limit, max(defaultMax, initial))
	if limit < 0 {
		return maxDuration
	}
	return limit
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

// valid reports whether Validate accepts a schedule and a jitter. It runs
// before every call, so the usual kinds come first, and the default kind is
// outside the switch, which searches.
func valid(s Schedule, j Jitter) bool {
	if isInvalidJitter(j) {
		return false
	}
	if e, ok := s.(Exponential); ok {
		return e.Initial >= 0 && (e.Max <= 0 || e.Initial <= e.Max) && (e.Multiplier == 0 || isMultiplier(e.Multiplier))
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

// isMultiplier reports whether f can be the Multiplier of an Exponential.
func isMultiplier(f float64) bool { return f >= 1 && f <= math.MaxFloat64 }

// checkSchedule says what is wrong with a schedule, naming field. It knows the
// kinds of this package, and accepts every other one.
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
	if e.Multiplier != 0 && !isMultiplier(e.Multiplier) {
		return invalid(field+": Exponential.Multiplier",
			"is "+strconv.FormatFloat(e.Multiplier, 'g', -1, 64)+", want 0 (for 2) or at least 1")
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

// checkInitial checks the first delay of a schedule against its longest.
func checkInitial(field, kind string, initial, limit time.Duration) error {
	if initial < 0 {
		return negative(field+": "+kind+".Initial", initial)
	}
	if limit > 0 && initial > limit {
		return invalid(field+": "+kind+".Initial", "is "+initial.String()+", beyond Max "+limit.String())
	}
	return nil
}
