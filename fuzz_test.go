package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
)

// Every schedule, for every parameter that Validate lets pass: no delay below 0 or
// beyond the bound, none shorter than the one before, and the first one Initial.
func FuzzSchedules(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), 0.0, 1)
	f.Add(int64(time.Second), int64(-1), int64(1), 1.6, 62)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), 1e308, 1000)
	f.Add(int64(1), int64(-1), int64(math.MaxInt64), 1.0000001, math.MaxInt32)
	f.Fuzz(func(t *testing.T, initial, limit, step int64, factor float64, retry int) {
		first, most := time.Duration(initial), time.Duration(limit)
		for _, s := range []backoff.Schedule{
			backoff.Exponential{Initial: first, Max: most, Multiplier: factor},
			backoff.Linear{Initial: first, Max: most, Step: time.Duration(step)},
			backoff.Truncate(backoff.Exponential{Initial: first, Max: -1, Multiplier: factor}, most),
		} {
			if (&backoff.Policy{Schedule: s}).Validate() != nil {
				continue
			}
			if first == 0 {
				first = 100 * time.Millisecond
			}
			bound := most
			switch {
			case most < 0:
				bound = math.MaxInt64
			case most == 0:
				bound = max(30*time.Second, first)
			}
			d := s.Delay(retry)
			if d < 0 || d > bound || retry > 0 && d < min(first, bound) && most != 0 || retry <= 0 && d != 0 {
				t.Errorf("%#v.Delay(%d) = %d, bound %d", s, retry, d, bound)
			}
			if retry > math.MinInt && retry < math.MaxInt && (s.Delay(retry+1) < d || s.Delay(retry-1) > d) {
				t.Errorf("%#v falls around retry %d", s, retry)
			}
		}
	})
}

// Every jitter, for every parameter, delay, previous wait and draw there is, a draw
// out of range included: what a policy waits is never negative, nor beyond MaxDelay.
func FuzzJitters(f *testing.F) {
	f.Add(int64(time.Second), int64(0), int64(100), int64(1000), 0.5, 1.5, 0.25)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(math.MaxInt64), 0.0, math.MaxFloat64, 1-0x1p-53)
	f.Add(int64(math.MaxInt64), int64(1), int64(math.MaxInt64), int64(-1), 1.0, 1.0, math.NaN())
	f.Fuzz(func(t *testing.T, delay, prev, a, b int64, lo, hi, u float64) {
		for i, jitter := range []backoff.Jitter{
			backoff.NoJitter, backoff.FullJitter, backoff.EqualJitter, backoff.DecorrelatedJitter(time.Duration(a), time.Duration(b)),
			backoff.UniformJitter(lo, hi), backoff.AddedJitter(time.Duration(a)), backoff.SlottedJitter(time.Duration(a)),
		} {
			policy := backoff.Policy{
				Schedule: backoff.ScheduleFunc(func(int) time.Duration { return time.Duration(delay) }),
				Jitter:   jitter, MaxDelay: time.Duration(b), Rand: fixed(u),
			}
			if policy.Validate() != nil {
				continue
			}
			if wait := policy.Delay(1); wait < 0 || b > 0 && wait > time.Duration(b) {
				t.Errorf("jitter %d: Delay(1) = %d, MaxDelay %d", i, wait, b)
			}
			if delay < 0 || prev < 0 || !(u >= 0 && u < 1) {
				continue // not what a policy hands on
			}
			if wait := jitter(time.Duration(delay), time.Duration(prev), u); wait < 0 {
				t.Errorf("jitter %d(%d, %d, %v) = %d", i, delay, prev, u, wait)
			}
		}
		if delay >= 0 && u >= 0 && u < 1 {
			if full := backoff.FullJitter(time.Duration(delay), 0, u); full > time.Duration(delay) {
				t.Errorf("FullJitter(%d, %v) = %d", delay, u, full)
			}
			if equal := backoff.EqualJitter(time.Duration(delay), 0, u); equal < time.Duration(delay)/2 || equal > time.Duration(delay) {
				t.Errorf("EqualJitter(%d, %v) = %d", delay, u, equal)
			}
		}
	})
}
