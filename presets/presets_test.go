package presets_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/presets"
)

const (
	float  = 2 * time.Nanosecond // what floating point may be off by
	enough = 300                 // attempts that are taken for no limit
	top    = 1 - 1.0/(1<<53)     // the largest number that a generator draws
)

var errTransient = errors.New("transient")

func TestEveryRowHasItsPresetAndNoPresetIsWithoutARow(t *testing.T) {
	var want []string
	for _, row := range rows {
		want = append(want, row.name)
	}
	require.Len(t, want, 55)
	require.ElementsMatch(t, want, names())
	require.Equal(t, names(), names(), "the order is the same every time")
}

func TestEveryPresetIsValidAndNew(t *testing.T) {
	for name, p := range presets.All() {
		require.NoError(t, p.Validate(), name)
		require.Empty(t, p.Name, "%s: the name is that of the user's operation", name)
		p.MaxAttempts, p.Schedule = 99, nil
		again := byName(t, name)
		require.NotEqual(t, 99, again.MaxAttempts, name)
		require.NotNil(t, again.Schedule, name)
	}
}

func TestDelaysAreThoseOfTheRow(t *testing.T) {
	for _, row := range rows {
		p := byName(t, row.name)
		for i, want := range durations(t, row.delays) {
			got := p.Schedule.Delay(i + 1)
			if p.MaxDelay > 0 {
				got = min(got, p.MaxDelay) // where the cap is on what the jitter made of it
			}
			require.InDelta(t, want, got, 1, "%s: retry %d: want %v, got %v", row.name, i+1, want, got)
		}
	}
}

func TestDrawsStayWithinTheBoundsOfTheRowAndReachThem(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p := byName(t, row.name)
			smallest, largest := waits(t, endless(p, always(0)), 8), waits(t, endless(p, always(top)), 8)
			bounds := row.intervals(t)
			for i, bound := range bounds {
				require.InDelta(t, bound[0], min(smallest[i], largest[i]), float64(float), "retry %d", i+1)
				require.InDelta(t, bound[1], max(smallest[i], largest[i]), float64(row.grain+float), "retry %d", i+1)
			}
			p = endless(p, seeded())
			for range nightly.Size(3000, 10_000) {
				for i, wait := range waits(t, p, 8) {
					if wait < bounds[i][0]-float || wait > bounds[i][1]+float {
						require.Failf(t, "out of bounds", "retry %d: %v", i+1, wait)
					}
				}
			}
		})
	}
}

func TestGivesUpByTheRuleOfTheRow(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := byName(t, row.name)
				p.Rand = seeded()
				require.Equal(t, max(row.total, 0), p.MaxElapsed)
				made, err := exhaust(t, p)
				switch {
				case row.attempts > 0:
					require.Equal(t, backoff.ReasonAttempts, err.Reason)
					require.Equal(t, row.attempts, made)
				case row.attempts == 0:
					require.Equal(t, backoff.ReasonAttempts, err.Reason)
					require.Equal(t, 4, made, "the library's default stands")
				case row.total > 0:
					require.Equal(t, backoff.ReasonElapsed, err.Reason)
					require.LessOrEqual(t, err.Elapsed, row.total)
				default:
					require.Equal(t, backoff.ReasonCanceled, err.Reason)
					require.Equal(t, enough, made)
				}
			})
		})
	}
}

func TestNothingOverflowsHoweverManyRetries(t *testing.T) {
	for name, p := range presets.All() {
		for _, u := range []float64{0, 0.5, top} {
			p.Rand = always(u)
			before, longest := p.Schedule.Delay(20), p.Delay(20)
			for _, retry := range []int{62, 63, 64, 65, 1000, 1 << 30, math.MaxInt} {
				require.GreaterOrEqual(t, p.Schedule.Delay(retry), before, "%s: retry %d", name, retry)
				require.GreaterOrEqual(t, p.Delay(retry), longest, "%s: retry %d", name, retry)
			}
		}
	}
}

func TestParametersThatMakeNoSenseAreRefused(t *testing.T) {
	for name, p := range map[string]backoff.Policy{
		"IoT Core, a maximum below a second": presets.IoTCore(500 * time.Millisecond),
		"gcloud, a maximum below the first":  presets.GCloud(2*time.Second, 0, 0, time.Second),
		"C++, a scaling below 1":             presets.GCSCpp(0, 0, 0.5, 0),
		"Node.js, a maximum below the first": presets.GCSNode(0, 3, 2*time.Second, 0),
		"SIP, T2 below T1":                   presets.SIPTimerE(time.Second, 500*time.Millisecond),
		"slots, a base below 1":              presets.ExponentialSlots(0.5, 0),
		"slots, a negative base":             presets.ExponentialSlots(-1, 0),
		"slots, a base that is no number":    presets.ExponentialSlots(math.NaN(), 0),
		"slots, a base without an end":       presets.ExponentialSlots(math.Inf(1), 0),
		"slots, negative":                    presets.ExponentialSlots(0, -1),
		"Ethernet, a negative slot":          presets.Ethernet(-1),
		"CSMA/CA, a negative slot":           presets.CSMACA(-1, 0, 0),
	} {
		require.Error(t, p.Validate(), name)
	}
}

func names() []string {
	var all []string
	for name := range presets.All() {
		all = append(all, name)
	}
	return all
}

func byName(t *testing.T, name string) backoff.Policy {
	t.Helper()
	for n, p := range presets.All() {
		if n == name {
			return p
		}
	}
	require.FailNow(t, "no such preset", name)
	return backoff.Policy{}
}

func durations(t *testing.T, list string) []time.Duration {
	t.Helper()
	var all []time.Duration
	for text := range strings.FieldsSeq(list) {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		all = append(all, d)
	}
	if len(all) > 0 {
		require.Len(t, all, 8)
	}
	return all
}

// intervals returns the bounds of the first eight waits.
func (r row) intervals(t *testing.T) (all [][2]time.Duration) {
	t.Helper()
	if r.bounds != exact && r.bounds != full && r.bounds != fullBut0 {
		all = intervals(t, r.bounds)
		require.Len(t, all, 8)
		return all
	}
	for _, delay := range durations(t, r.delays) {
		least := map[string]time.Duration{exact: delay, full: 0, fullBut0: 1}[r.bounds]
		all = append(all, [2]time.Duration{least, delay})
	}
	return all
}

func intervals(t *testing.T, list string) [][2]time.Duration {
	t.Helper()
	flat := strings.NewReplacer("[", "", "]", "", ",", " ").Replace(list)
	var all [][2]time.Duration
	for pair := range slices.Chunk(strings.Fields(flat), 2) {
		lo, err := time.ParseDuration(pair[0])
		require.NoError(t, err)
		hi, err := time.ParseDuration(pair[1])
		require.NoError(t, err)
		all = append(all, [2]time.Duration{lo, hi})
	}
	return all
}

// endless is p without limits, so that every retry can be seen.
func endless(p backoff.Policy, draw func() float64) backoff.Policy {
	p.MaxAttempts, p.MaxElapsed, p.AttemptTimeout, p.AttemptTimeoutSchedule, p.Rand = -1, 0, 0, nil, draw
	return p
}

// waits are those before the first n retries of one call.
func waits(t *testing.T, p backoff.Policy, n int) []time.Duration {
	t.Helper()
	all := make([]time.Duration, n)
	run := p.Start(context.Background())
	for i := range all {
		wait, ok := run.Tried(errTransient)
		if !ok {
			require.NoError(t, run.Err())
		}
		all[i] = wait
	}
	return all
}

// exhaust runs an operation that always fails, and says how often that was.
func exhaust(t *testing.T, p backoff.Policy) (made int, gaveUp *backoff.Error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := p.Do(ctx, func(context.Context) error {
		if made++; made == enough {
			cancel()
		}
		return errTransient
	})
	require.ErrorIs(t, err, errTransient)
	require.ErrorAs(t, err, &gaveUp)
	require.Equal(t, made, gaveUp.Attempts)
	return made, gaveUp
}

func always(u float64) func() float64 { return func() float64 { return u } }

func seeded() func() float64 { return rand.New(rand.NewPCG(1, 2)).Float64 }

// script draws the given numbers in order, and fails on one too many.
func script(t *testing.T, numbers ...float64) func() float64 {
	return func() float64 {
		require.NotEmpty(t, numbers, "one draw too many")
		u := numbers[0]
		numbers = numbers[1:]
		return u
	}
}
