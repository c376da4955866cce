package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// The reading of the clock in the tests of this file.
var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// Contract row 42: RFC 9110, 10.2.3, and decisions 33 and 34.
func TestParseRetryAfterReadsWholeSeconds(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "120": 2 * time.Minute, "00120": 2 * time.Minute, "86400": 24 * time.Hour,
		" 120": 2 * time.Minute, "120\t ": 2 * time.Minute,
		"9223372035":                   9223372035 * time.Second,
		"9223372036":                   9223372036 * time.Second, // the last that fits
		"9223372037":                   forever,                  // where other clients turn negative
		"9223372036854775807":          forever,                  // 2^63-1
		"9223372036854775808":          forever,
		"18446744073709551615":         forever, // 2^64-1
		"18446744073709551617":         forever,
		"1" + strings.Repeat("0", 30):  forever,
		strings.Repeat("0", 400) + "7": 7 * time.Second,
		strings.Repeat("9", 4000):      forever,
	} {
		got, ok := backoff.ParseRetryAfter(value, noon)
		require.True(t, ok, "%.40q", value)
		require.Equal(t, want, got, "%.40q", value)
	}
}

// Contract row 44: what is malformed is ignored.
func TestParseRetryAfterIgnoresWhatIsMalformed(t *testing.T) {
	for _, value := range []string{
		"", " ", "\t", "/", ":", "1/", "1:", "+5", "-0", "-1", "1.5", "1.", ".5", "1e3", "0x10", "1_000", "1 2", "120s", "120,240", "120;", "\n120", "\u00a0120",
		"٠", "١٢٠", "１２０", "120\x00", "soon", "NaN", "null",
		"2026-03-01T12:00:10Z", "Sun, 01 Mar 2026 12:00:10", "Sun, 01 Mar 2026 12:00:10 PST", "Sun, 01 Mar 2026 12:00:10 UTC",
		"Sun, 01 Mar 2026 12:00:10 +0000", "Sun, 01 Mar 2026 12:00:10 gmt", "Sun, 01 Mar 2026 25:00:10 GMT", "Sun, 32 Mar 2026 12:00:10 GMT",
		"Sunday, 01-Mar-26 12:00:10 PST", "Sunday, 01-Mar-26 12:00:10", "Sunday, 01-Mar-2026 12:00:10 GMT", "Sun Mar  1 12:00:10 2026 GMT",
		"Sun, 29 Feb 2026 12:00:00 GMT", "01 Mar 2026 12:00:10 GMT", "Sun, 01 Mar 26 12:00:10 GMT",
	} {
		got, ok := backoff.ParseRetryAfter(value, noon)
		require.False(t, ok, "%q", value)
		require.Zero(t, got, "%q", value)
	}
}

// Contract row 43: RFC 9110, 5.6.7, and decisions 35 to 37.
func TestParseRetryAfterReadsThreeFormsOfDate(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"Sun, 01 Mar 2026 12:00:10 GMT":   10 * time.Second,
		"Sunday, 01-Mar-26 12:00:10 GMT":  10 * time.Second,
		"Sun Mar  1 12:00:10 2026":        10 * time.Second,
		" Sun, 01 Mar 2026 12:00:10 GMT ": 10 * time.Second,
		"Mon, 02 Mar 2026 12:00:00 GMT":   24 * time.Hour,
		"Monday, 02-Mar-26 12:00:00 GMT":  24 * time.Hour,
		"Mon Mar  2 12:00:00 2026":        24 * time.Hour,
		"Sun, 01 Mar 2026 12:00:00 GMT":   0,
		"Sun, 01 Mar 2026 11:59:59 GMT":   0, // past
		"Sun, 06 Nov 1994 08:49:37 GMT":   0,
		"Sunday, 06-Nov-94 08:49:37 GMT":  0,
		"Sun Nov  6 08:49:37 1994":        0,
		"Fri, 31 Dec 9999 23:59:59 GMT":   forever, // beyond what a duration holds
		"Fri Dec 31 23:59:59 9999":        forever,
	} {
		got, ok := backoff.ParseRetryAfter(value, noon)
		require.True(t, ok, value)
		require.Equal(t, want, got, value)
	}
}

// The reader's own zone is of no matter.
func TestParseRetryAfterReadsDatesInAnyZone(t *testing.T) {
	east := noon.In(time.FixedZone("east", 14*3600))
	for _, value := range []string{"Sun, 01 Mar 2026 12:00:10 GMT", "Sunday, 01-Mar-26 12:00:10 GMT", "Sun Mar  1 12:00:10 2026"} {
		got, ok := backoff.ParseRetryAfter(value, east)
		require.True(t, ok)
		require.Equal(t, 10*time.Second, got, value)
	}
}

// RFC 9110, 5.6.7: a two-digit year that looks more than 50 years ahead is the last
// one with these digits.
func TestATwoDigitYearIsNotMoreThanFiftyYearsAhead(t *testing.T) {
	for _, row := range []struct {
		now  int
		yy   string
		want int
	}{
		{2026, "26", 2026}, {2026, "27", 2027}, {2026, "69", 2069}, {2026, "75", 2075}, {2026, "77", 1977}, {2026, "99", 1999},
		{2026, "25", 2025}, {2026, "00", 2000},
		{2060, "09", 2109}, {2060, "11", 2011}, {2060, "61", 2061}, {2060, "59", 2059},
		{2099, "48", 2148}, {2099, "50", 2050},
		{1999, "00", 2000}, {1999, "48", 2048}, {1999, "50", 1950}, {1994, "94", 1994},
	} {
		now := time.Date(row.now, time.June, 15, 12, 0, 0, 0, time.UTC)
		date := time.Date(row.want, time.June, 15, 12, 0, 0, 0, time.UTC)
		value := fmt.Sprintf("%s, 15-Jun-%s 12:00:00 GMT", date.Weekday(), row.yy)
		got, ok := backoff.ParseRetryAfter(value, now)
		require.True(t, ok, value)
		require.Equal(t, max(0, date.Sub(now)), got, "%s in %d", value, row.now)
	}
}

// Exactly 50 years ahead is not more than 50.
func TestThePivotIsExact(t *testing.T) {
	got, ok := backoff.ParseRetryAfter("Sunday, 01-Mar-76 12:00:00 GMT", noon)
	require.True(t, ok)
	require.Equal(t, noon.AddDate(50, 0, 0).Sub(noon), got)
	got, ok = backoff.ParseRetryAfter("Sunday, 01-Mar-76 12:00:01 GMT", noon)
	require.True(t, ok)
	require.Zero(t, got, "1976")

	late := noon.AddDate(73, 0, 0) // 2099
	for value, want := range map[string]time.Duration{
		"Monday, 01-Mar-49 12:00:00 GMT": 0,
		"Monday, 01-Mar-49 11:59:59 GMT": late.AddDate(50, 0, 0).Sub(late) - time.Second,
		"Monday, 10-Mar-49 12:00:00 GMT": 0,
		"Monday, 20-Feb-49 12:00:00 GMT": late.AddDate(50, 0, -9).Sub(late),
	} {
		got, ok = backoff.ParseRetryAfter(value, late)
		require.True(t, ok)
		require.Equal(t, want, got, value)
	}
}

func TestParseRetryAfterMSReadsWholeMilliseconds(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"0": 0, "1500": 1500 * time.Millisecond, "\t20 ": 20 * time.Millisecond, "007": 7 * time.Millisecond,
		"9223372036854":       9223372036854 * time.Millisecond,
		"9223372036855":       forever,
		"9223372036854775808": forever, "1" + strings.Repeat("0", 30): forever,
	} {
		got, ok := backoff.ParseRetryAfterMS(value)
		require.True(t, ok, value)
		require.Equal(t, want, got, value)
	}
	for _, value := range []string{"", "+5", "-1", "1.5", "Sun, 01 Mar 2026 12:00:10 GMT", "٠"} {
		got, ok := backoff.ParseRetryAfterMS(value)
		require.False(t, ok, value)
		require.Zero(t, got, value)
	}
}

// Decisions 40 and 41: nonsense means "do not retry", the opposite of Retry-After.
func TestParsePushback(t *testing.T) {
	for _, row := range []struct {
		values []string
		want   time.Duration
		given  bool
	}{
		{nil, 0, false},
		{[]string{"0"}, 0, true},
		{[]string{"25"}, 25 * time.Millisecond, true},
		{[]string{"0025"}, 25 * time.Millisecond, true},
		{[]string{"2147483648"}, 2147483648 * time.Millisecond, true},
		{[]string{"9223372036854775808"}, forever, true},
		{[]string{"-1"}, -1, true},
		{[]string{"-0"}, -1, true},
		{[]string{""}, -1, true},
		{[]string{" 25"}, -1, true},
		{[]string{"+25"}, -1, true},
		{[]string{"2.5"}, -1, true},
		{[]string{"soon"}, -1, true},
		{[]string{"٠"}, -1, true},
		{[]string{"25", "25"}, -1, true},
		{[]string{"", ""}, -1, true},
	} {
		got, given := backoff.ParsePushback(row.values...)
		require.Equal(t, row.given, given, "%q", row.values)
		require.Equal(t, row.want, got, "%q", row.values)
	}
}

// Contract row 45: a fleet that is told "120" does not come back as one, nor early.
func TestAHintIsNeverUndercutAndAlwaysSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	policy := backoff.Policy{Rand: rng.Float64}
	seen := map[time.Duration]bool{}
	for range 1000 {
		wait, ok := policy.Decide(1, backoff.RetryAfter(errBoom, 2*time.Minute))
		require.True(t, ok)
		require.GreaterOrEqual(t, wait, 2*time.Minute)
		require.LessOrEqual(t, wait, 132*time.Second)
		seen[wait] = true
	}
	require.Greater(t, len(seen), 990)
}

// Decisions 30, 32 and 37: the hint, and on it the longer of the own wait and a
// tenth of the hint at random.
func TestTheOwnWaitComesOnTopOfAHint(t *testing.T) {
	for _, row := range []struct {
		hint, own, want time.Duration
	}{
		{0, 10 * time.Second, 10 * time.Second}, // a date in the past
		{time.Second, 10 * time.Second, 11 * time.Second},
		{40 * time.Second, time.Second, 42 * time.Second},
		{40 * time.Second, 2 * time.Second, 42 * time.Second},
		{40 * time.Second, 3 * time.Second, 43 * time.Second},
		{40 * time.Second, 0, 42 * time.Second},
		{0, 0, 0},
		{-time.Hour, 0, 0},
	} {
		policy := backoff.Policy{Schedule: backoff.Constant(row.own), Jitter: backoff.NoJitter, Rand: fixed(0.5)}
		wait, ok := policy.Decide(1, backoff.RetryAfter(errBoom, row.hint))
		require.True(t, ok)
		require.Equal(t, row.want, wait, "%+v", row)
	}
	unlimited := backoff.Policy{MaxRetryAfter: -1}
	wait, ok := unlimited.Decide(1, backoff.RetryAfter(errBoom, forever))
	require.True(t, ok)
	require.Equal(t, forever, wait, "the sum saturates")
}

// gRFC A6: exactly so long, and then the schedule from its beginning.
func TestPushbackIsExactAndRestartsTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter, MaxAttempts: 7}
		back := backoff.Pushback(errBoom, 10*time.Millisecond)
		op := returning(errBoom, errBoom, back, errBoom, errBoom, backoff.Pushback(errBoom, 0), errBoom)
		require.Error(t, policy.Do(t.Context(), op.do))
		require.Equal(t, msec(0, 1000, 3000, 3010, 4010, 6010, 6010), op.at)
	})
}

// Decorrelated jitter has its schedule in the wait before.
func TestPushbackRestartsDecorrelatedJitterToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{Jitter: backoff.DecorrelatedJitter(time.Second, time.Hour), Rand: fixed(0.5), MaxAttempts: 5}
		op := returning(errBoom, errBoom, backoff.Pushback(errBoom, 0), errBoom)
		require.Error(t, policy.Do(t.Context(), op.do))
		require.Equal(t, msec(0, 2000, 5500, 5500, 7500), op.at)
	})
}

func TestANegativePushbackForbidsTheRetry(t *testing.T) {
	op := returning(backoff.Pushback(errBoom, -1))
	err := (&backoff.Policy{}).Do(t.Context(), op.do)
	require.Len(t, op.at, 1)
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, backoff.ReasonOverloaded, gaveUp(t, err).Reason)
}

// A RetryAfter in its schedule has its place: it is not started again.
func TestARetryAfterLetsTheScheduleGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter, Rand: fixed(0)}
		op := returning(errBoom, backoff.RetryAfter(errBoom, 10*time.Second), errBoom)
		require.Error(t, policy.Do(t.Context(), op.do))
		require.Equal(t, msec(0, 1000, 13_000, 17_000), op.at)
	})
}

// An error may bring its hint as a method.
type busy time.Duration

func (busy) Error() string               { return "busy" }
func (b busy) RetryAfter() time.Duration { return time.Duration(b) }

func TestAHintIsFoundHoweverDeep(t *testing.T) {
	policy := backoff.Policy{Rand: fixed(0), Schedule: backoff.Constant(0)}
	for _, err := range []error{
		busy(time.Minute), backoff.RetryAfter(errBoom, time.Minute), fmt.Errorf("op: %w", busy(time.Minute)),
		errors.Join(errBoom, busy(time.Minute)), backoff.WithClass(busy(time.Minute), backoff.ClassThrottled),
		backoff.WithClass(fmt.Errorf("op: %w", backoff.RetryAfter(errBoom, time.Minute)), backoff.ClassRetryable),
		errors.Join(busy(time.Second), busy(time.Minute)), // the longer of two
		backoff.RetryAfter(backoff.RetryAfter(errBoom, time.Minute), time.Second),
		errors.Join(busy(-time.Second), busy(time.Minute), busy(-time.Hour)),
	} {
		wait, ok := policy.Decide(1, err)
		require.True(t, ok)
		require.Equal(t, time.Minute, wait, "%v", err)
	}
	wait, ok := policy.Decide(1, busy(-time.Minute))
	require.True(t, ok)
	require.Zero(t, wait)
}

// A hint says when, not whether.
func TestAHintMakesNoErrorRetryable(t *testing.T) {
	policy := backoff.Policy{}
	for _, err := range []error{
		backoff.RetryAfter(backoff.Permanent(errBoom), time.Second), backoff.Permanent(backoff.RetryAfter(errBoom, time.Second)),
		backoff.RetryAfter(context.Canceled, time.Second), backoff.RetryAfter(httpStatus{404, nil}, time.Second),
		backoff.Permanent(busy(time.Second)),
	} {
		require.False(t, policy.Retryable(err), "%v", err)
	}
}

// A layer may override what an inner policy gave up on, and keeps the server's word.
func TestAHintOutlivesTheInnerPolicy(t *testing.T) {
	inner, outer := backoff.Policy{MaxRetryAfter: time.Second}, backoff.Policy{Rand: fixed(0), Schedule: backoff.Constant(0)}
	err := inner.Do(t.Context(), returning(backoff.RetryAfter(errBoom, time.Minute)).do)
	require.ErrorIs(t, err, backoff.ErrExhausted)
	wait, ok := outer.Decide(1, backoff.WithClass(err, backoff.ClassRetryable))
	require.True(t, ok)
	require.Equal(t, time.Minute, wait)
}

// Whoever passes a verdict on, passes the hint on.
func TestHintOfFindsWhatTheServerAskedFor(t *testing.T) {
	exhausted := (&backoff.Policy{MaxAttempts: 1}).Do(t.Context(), returning(backoff.RetryAfter(errBoom, time.Minute)).do)
	for _, err := range []error{
		backoff.RetryAfter(errBoom, time.Minute), backoff.Pushback(errBoom, time.Minute), exhausted,
		errors.Join(errFinal, fmt.Errorf("layer: %w", backoff.RetryAfter(errBoom, time.Minute))),
	} {
		hint, ok := backoff.RetryAfterOf(err)
		require.True(t, ok, "%v", err)
		require.Equal(t, time.Minute, hint, "%v", err)
	}
	gaveUp := (&backoff.Policy{MaxRetryAfter: 1}).Do(t.Context(), func(context.Context) error {
		return backoff.RetryAfter(errBoom, time.Second)
	})
	hint, ok := backoff.RetryAfterOf(gaveUp)
	require.True(t, ok)
	require.Equal(t, time.Second, hint)
	for _, err := range []error{nil, errBoom, backoff.Permanent(errBoom), &backoff.Error{Last: errBoom}} {
		_, ok := backoff.RetryAfterOf(err)
		require.False(t, ok, "%v", err)
	}
}
