package circuit

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// standard are the defaults of a breaker.
var standard = Config{SlowRate: -1}.WithDefaults()

func TestDefaultsStandForZeroAndNegativeMeansNoLimit(t *testing.T) {
	require.Equal(t, Config{
		FailureRate:         0.5,
		SlowRate:            0.5,
		MinCalls:            20,
		Window:              10 * time.Second,
		ConsecutiveFailures: 5,
		ConsecutiveSpan:     time.Second,
		MaxProbes:           1,
		ProbeSuccesses:      2,
	}, Config{}.WithDefaults())
	none := Config{
		FailureRate:         -1,
		SlowRate:            -1,
		MinCalls:            -1,
		Window:              -1,
		WindowCalls:         -1,
		ConsecutiveFailures: -1,
		ConsecutiveSpan:     -1,
		MaxProbes:           -1,
		ProbeSuccesses:      3,
		RampUp:              -1,
	}
	want := none
	want.MinCalls, want.Window, want.MaxProbes = 1, Forever, MostProbes
	require.Equal(t, want, none.WithDefaults())
	require.Equal(t, 7, Config{WindowCalls: 7}.WithDefaults().MinCalls)
	require.Equal(t, MostProbes, Config{MaxProbes: math.MaxInt}.WithDefaults().MaxProbes)
}

// closedFor is a state that was closed for so long after some openings.
func closedFor(openings uint16) State {
	return State{Phase: Phase{Generation: 3, Openings: openings}}
}

// trip opens a circuit at an age of its phase.
func trip(c Config, s State, age time.Duration, calls Counts) State {
	next, _ := Step(&c, s, &Input{Kind: Trip, Age: age, Calls: calls})
	return next
}

func TestACircuitOpensAnyNumberOfTimes(t *testing.T) {
	require.EqualValues(t, MaxOpenings, trip(standard, closedFor(MaxOpenings), 0, Counts{}).Openings)
	require.EqualValues(t, MaxOpenings, trip(standard, closedFor(MaxOpenings-1), 0, Counts{}).Openings)
	next, _ := Step(&standard, closedFor(2), &Input{Kind: Advise, Permit: Permit{Generation: 3}, Advice: Open, For: 1, Openings: 1 << 20})
	require.EqualValues(t, MaxOpenings, next.Openings)
}

func TestTheServiceSaysHowLongItWantsToBeLeftAlone(t *testing.T) {
	answer := Input{Kind: Answer, Score: Bad, Age: 2 * time.Second, Rest: time.Minute}
	s, effects := Step(&standard, State{}, &answer)
	require.Equal(t, Failures{InARow: 1, First: 2 * time.Second, Rest: 62 * time.Second}, s.Failures)
	require.True(t, effects.Undecided)
	require.Equal(t, 50*time.Second, trip(standard, s, 12*time.Second, Counts{}).Span, "what is left of it")
	require.Zero(t, trip(standard, s, time.Hour, Counts{}).Span)

	answer.Rest = Forever
	s, _ = Step(&standard, State{}, &answer)
	require.Equal(t, Forever, s.Failures.Rest, "times do not overflow")
}

func TestASuccessEndsARowOfFailures(t *testing.T) {
	s := State{Failures: Failures{InARow: 4}}
	for _, in := range []Input{{Kind: Answer, Score: Good}, {Kind: Tick, Calls: Counts{New: 1}}, {Kind: Answer, Score: Good, Slow: true}} {
		next, _ := Step(&standard, s, &in)
		require.Zero(t, next.Failures.InARow)
	}
	next, _ := Step(&standard, s, &Input{Kind: Answer, Score: Throttled, Age: time.Minute})
	require.Equal(t, Failures{InARow: 4, Throttled: 1}, next.Failures, "what is throttled is neither")
	next, _ = Step(&standard, next, &Input{Kind: Tick, Calls: Counts{New: 1}})
	require.Zero(t, next.Failures)
}
