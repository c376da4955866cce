package backoff_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

const forever = time.Duration(math.MaxInt64)

// The strategies as the documents tabulate
// them.
func TestSchedulesFollowTheirTables(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, row := range []struct {
		name string
		s    backoff.Schedule
		want []time.Duration
	}{
		{"constant", backoff.Constant(s), []time.Duration{s, s, s, s, s, s, s, s}},
		{"linear", backoff.Linear{Initial: s}, []time.Duration{s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s, 8 * s}},
		{"linear from a step", backoff.Linear{Initial: s, Step: 5 * s, Max: 12 * s}, []time.Duration{s, 6 * s, 11 * s, 12 * s, 12 * s}},
		{"linear, zero", backoff.Linear{}, []time.Duration{100 * ms, 200 * ms, 300 * ms, 400 * ms}},
		{"exponential", backoff.Exponential{Initial: s, Max: -1}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s}},
		{"exponential, zero", backoff.Exponential{}, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 25600 * ms, 30 * s, 30 * s}},
		{"factor 3", backoff.Exponential{Initial: s, Max: 32 * s, Multiplier: 3}, []time.Duration{s, 3 * s, 9 * s, 27 * s, 32 * s, 32 * s}},
		{"factor 1", backoff.Exponential{Initial: s, Multiplier: 1}, []time.Duration{s, s, s, s}},
		{"sequence", backoff.Sequence(0, s, 5*s), []time.Duration{0, s, 5 * s, 5 * s, 5 * s}},
		{"func", backoff.ScheduleFunc(func(n int) time.Duration { return time.Duration(n*n) * s }), []time.Duration{s, 4 * s, 9 * s}},
	} {
		for i, want := range row.want {
			require.Equal(t, want, row.s.Delay(i+1), "%s, retry %d", row.name, i+1)
		}
	}
}

// A factor that is not whole is exact to a nanosecond.
func TestAFractionalFactorIsExactToTheNanosecond(t *testing.T) {
	for _, factor := range []float64{1.3, 1.5, 1.6, 2.5, 3, 10} {
		e := backoff.Exponential{Initial: 100 * time.Millisecond, Max: 30 * time.Second, Multiplier: factor}
		exact := new(big.Float).SetInt64(int64(e.Initial))
		for retry := 1; retry <= 40; retry++ {
			want, _ := exact.Int64()
			require.InDelta(t, min(want, int64(e.Max)), int64(e.Delay(retry)), 1, "factor %v, retry %d", factor, retry)
			exact.Mul(exact, big.NewFloat(factor))
		}
	}
}

// Where nothing bounds the delay, it ends at the largest duration there is, and
// neither turns negative nor starts again.
func TestUnboundedSchedulesSaturate(t *testing.T) {
	for name, s := range map[string]backoff.Schedule{
		"doubling":         backoff.Exponential{Initial: time.Second, Max: -1},
		"doubling from 1":  backoff.Exponential{Initial: 1, Max: -1},
		"factor 1.6":       backoff.Exponential{Initial: time.Second, Max: -1, Multiplier: 1.6},
		"factor 3":         backoff.Exponential{Initial: time.Second, Max: -1, Multiplier: 3},
		"factor 1e308":     backoff.Exponential{Initial: 1, Max: -1, Multiplier: 1e308},
		"infinite factor":  backoff.Exponential{Initial: 1, Max: -1, Multiplier: math.Inf(1)},
		"from the largest": backoff.Exponential{Initial: forever, Max: -1},
		"nearly so":        backoff.Exponential{Initial: forever - 1, Max: -1, Multiplier: 1.1},
		"linear":           backoff.Linear{Initial: forever / 3, Max: -1},
		"linear, largest":  backoff.Linear{Initial: forever, Step: forever, Max: -1},
	} {
		before := time.Duration(0)
		for retry := 1; retry < 200; retry++ {
			d := s.Delay(retry)
			require.GreaterOrEqual(t, d, before, "%s, retry %d", name, retry)
			before = d
		}
		for _, retry := range []int{200, 1000, math.MaxInt32, math.MaxInt} {
			require.Equal(t, forever, s.Delay(retry), "%s, retry %d", name, retry)
		}
	}
}

func TestADoublingScheduleSaturatesNoSoonerThanItMust(t *testing.T) {
	s := backoff.Exponential{Initial: 1, Max: -1}
	require.Equal(t, time.Duration(1<<62), s.Delay(63))
	require.Equal(t, forever, s.Delay(64))
}

// The two fast paths, against arithmetic that cannot overflow.
func TestSchedulesAgreeWithExactArithmetic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		initial := 1 + time.Duration(rng.Int64N(math.MaxInt64)>>rng.IntN(63))
		step := 1 + time.Duration(rng.Int64N(math.MaxInt64-1)>>rng.IntN(63))
		limit := 1 + time.Duration(rng.Int64N(math.MaxInt64-1)>>rng.IntN(63))
		retry := 1 + rng.IntN(1<<rng.IntN(31))

		doubled := new(big.Int).Lsh(big.NewInt(int64(initial)), uint(min(retry-1, 200)))
		require.Equal(t, atMost(doubled, limit), backoff.Exponential{Initial: initial, Max: limit}.Delay(retry),
			"Exponential{Initial: %d, Max: %d}.Delay(%d)", initial, limit, retry)

		sum := new(big.Int).Mul(big.NewInt(int64(step)), big.NewInt(int64(retry-1)))
		sum.Add(sum, big.NewInt(int64(initial)))
		require.Equal(t, atMost(sum, limit), backoff.Linear{Initial: initial, Step: step, Max: limit}.Delay(retry),
			"Linear{Initial: %d, Step: %d, Max: %d}.Delay(%d)", initial, step, limit, retry)
	}
}

func atMost(x *big.Int, limit time.Duration) time.Duration {
	if x.Cmp(big.NewInt(int64(limit))) > 0 {
		return limit
	}
	return time.Duration(x.Int64())
}

func TestThereIsNoDelayBeforeTheFirstRetry(t *testing.T) {
	called := backoff.ScheduleFunc(func(int) time.Duration { panic("called for no retry") })
	for _, s := range []backoff.Schedule{
		backoff.Constant(1), backoff.Linear{}, backoff.Exponential{}, backoff.Exponential{Multiplier: 3},
		backoff.Sequence(1), called,
	} {
		for _, retry := range []int{0, -1, math.MinInt} {
			require.Zero(t, s.Delay(retry), "%T.Delay(%d)", s, retry)
		}
	}
}

// The default bound is 30 s, or thirty times the larger of Initial and Step.
func TestAScheduleThatGrowsGrowsUnderItsDefaultBound(t *testing.T) {
	const s, m = time.Second, time.Minute
	for _, c := range []struct {
		schedule backoff.Schedule
		first    []time.Duration
		bound    time.Duration
	}{
		{backoff.Exponential{}, msec(100, 200, 400), 30 * s},
		{backoff.Exponential{Initial: s}, []time.Duration{s, 2 * s, 4 * s}, 30 * s},
		{backoff.Exponential{Initial: s + 1}, []time.Duration{s + 1, 2*s + 2}, 30*s + 30},
		{backoff.Exponential{Initial: m}, []time.Duration{m, 2 * m, 4 * m}, 30 * m},
		{backoff.Exponential{Initial: m, Multiplier: 3}, []time.Duration{m, 3 * m, 9 * m}, 30 * m},
		{backoff.Exponential{Initial: m, Multiplier: 1}, []time.Duration{m, m, m}, m},
		{backoff.Linear{Initial: 30 * s}, []time.Duration{30 * s, m, 90 * s}, 15 * m},
		{backoff.Linear{Initial: s, Step: m}, []time.Duration{s, s + m, s + 2*m}, 30 * m},
		{backoff.Linear{Step: m}, []time.Duration{s / 10, s/10 + m}, 30 * m},
		{backoff.Linear{Initial: m, Step: s}, []time.Duration{m, m + s}, 30 * m},
		{backoff.Exponential{Initial: forever/30 + 1}, []time.Duration{forever/30 + 1}, forever},
		{backoff.Exponential{Initial: forever - 1}, []time.Duration{forever - 1, forever}, forever},
		{backoff.Linear{Initial: forever - 1}, []time.Duration{forever - 1, forever}, forever},
		{backoff.Linear{Step: forever}, []time.Duration{s / 10, forever}, forever},
		{backoff.Exponential{Initial: m, Max: m}, []time.Duration{m, m}, m}, // said so, as to grpc-go
	} {
		require.NoError(t, backoff.Policy{Schedule: c.schedule}.Validate())
		for i, want := range c.first {
			require.Equal(t, want, c.schedule.Delay(i+1), "%#v.Delay(%d)", c.schedule, i+1)
		}
		require.Equal(t, c.bound, c.schedule.Delay(1e6), "%#v", c.schedule)
	}
}

// negative is a Schedule that breaks the rule.
type negative struct{}

func (negative) Delay(int) time.Duration { return -time.Hour }

func TestANegativeDelayCountsAsZero(t *testing.T) {
	require.Zero(t, backoff.Constant(-1).Delay(1))
	require.Zero(t, backoff.Sequence(-1).Delay(1))
	require.Zero(t, backoff.ScheduleFunc(nil).Delay(1))
	require.Zero(t, backoff.ScheduleFunc(negative{}.Delay).Delay(1))
	require.Zero(t, (&backoff.Policy{Schedule: negative{}, Jitter: backoff.NoJitter}).WaitBefore(1))
}

func TestASequenceKeepsACopy(t *testing.T) {
	delays := msec(1, 2, 3)
	s := backoff.Sequence(delays...)
	delays[0] = time.Hour
	require.Equal(t, time.Millisecond, s.Delay(1))
	require.Zero(t, backoff.Sequence().Delay(1), "invalid, but no panic")
}

// Every schedule, for every parameter that Validate lets pass: no delay below 0
// or beyond the bound, none shorter than the one before, and the first one
// Initial.
func FuzzSchedules(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), 0.0, 1)
	f.Add(int64(time.Second), int64(-1), int64(1), 1.6, 62)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), 1e308, 1000)
	f.Add(int64(1), int64(-1), int64(math.MaxInt64), 1.0000001, math.MaxInt32)
	f.Add(int64(-54), int64(-99), int64(9223372036854775717), 1.0000001, 2147483645)
	f.Add(int64(9223372036854775728), int64(math.MaxInt64), int64(-44), 10.000000000000002, math.MaxInt32)
	f.Add(int64(9223372036854775806), int64(math.MaxInt64), int64(1), 1.0000000000000002, math.MaxInt32)
	f.Add(int64(1), int64(-1), int64(math.MaxInt64), 2.0, 64)
	f.Add(int64(98), int64(69), int64(135), 620.0, 7)
	f.Add(int64(0), int64(1), int64(0), math.NaN(), math.MinInt32)
	f.Fuzz(func(t *testing.T, initial, limit, step int64, factor float64, retry int) {
		first, most := time.Duration(initial), time.Duration(limit)
		for _, s := range []backoff.Schedule{
			backoff.Exponential{Initial: first, Max: most, Multiplier: factor},
			backoff.Linear{Initial: first, Max: most, Step: time.Duration(step)},
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
				bound = standard(s, first)
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

// standard is the bound of a schedule that names none.
func standard(s backoff.Schedule, first time.Duration) time.Duration {
	largest := first
	if s, ok := s.(backoff.Linear); ok {
		largest = max(first, s.Step)
	}
	if largest > forever/30 {
		return forever
	}
	return max(30*time.Second, 30*largest)
}
