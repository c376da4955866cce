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

func TestTheOpeningsAreForgottenAfterAHealthyWindow(t *testing.T) {
	require.EqualValues(t, 8, trip(standard, closedFor(7), standard.Window-1, Counts{}).Openings)
	require.EqualValues(t, 1, trip(standard, closedFor(7), standard.Window, Counts{}).Openings)
	calls := standard
	calls.WindowCalls = 10
	require.EqualValues(t, 8, trip(calls, closedFor(7), time.Hour, Counts{}).Openings)
	require.EqualValues(t, 1, trip(calls, closedFor(7), 0, Counts{Full: true}).Openings)
}

func TestAnOpenPhaseIsExtendedAndNeverShortened(t *testing.T) {
	s := State{Phase: Phase{Kind: Open, Span: 5}}
	for d, want := range map[time.Duration]time.Duration{3: 5, 5: 5, 8: 8} {
		next, effects := Step(&standard, s, &Input{Kind: Extend, For: d})
		require.Equal(t, want, next.Span)
		require.Zero(t, effects)
	}
	closed, _ := Step(&standard, State{}, &Input{Kind: Extend, For: 8})
	require.Zero(t, closed)
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

func TestARateCountsFromALeastNumberOfCalls(t *testing.T) {
	slow := standard
	slow.SlowRate = 0.25
	off, last := standard, standard
	off.FailureRate = -1
	last.WindowCalls = 20
	for _, c := range []struct {
		Config
		age   time.Duration
		calls Counts
		want  Trigger
		opens bool
	}{
		{standard, time.Second, Counts{Good: 9, Bad: 10}, 0, false},
		{standard, time.Second, Counts{Good: 10, Bad: 10}, TriggerRate, true},
		{standard, time.Second, Counts{Good: 11, Bad: 10}, 0, false},
		{standard, time.Second - 1, Counts{Good: 1, Bad: 1000}, 0, false},
		{standard, 0, Counts{Bad: 20}, TriggerRate, true},
		{standard, time.Second - 1, Counts{Bad: 20, Begun: 40}, TriggerRate, true},
		{standard, time.Second - 1, Counts{Bad: 20, Begun: 41}, 0, false},
		{standard, time.Second, Counts{Bad: 20, Begun: 1000}, TriggerRate, true},
		{last, 0, Counts{Bad: 20, Begun: 1000}, TriggerRate, true},
		{last, 0, Counts{Good: 10, Bad: 10}, TriggerRate, true},
		{standard, time.Second, Counts{Good: 20, Slow: 20}, 0, false},
		{slow, 0, Counts{Good: 20, Slow: 4}, 0, false},
		{slow, 0, Counts{Good: 20, Slow: 5}, TriggerSlow, true},
		{off, time.Second, Counts{Bad: 1000}, 0, false},
	} {
		next, effects := Step(&c.Config, State{}, &Input{Kind: Answer, Score: Bad, Age: c.age, Calls: c.calls})
		require.Equal(t, c.opens, next.Kind == Open, "%+v", c.calls)
		require.Equal(t, c.want, effects.Trigger)
		require.Equal(t, !c.opens, effects.Undecided)
	}
}

// Half of the calls failed, so that any failure would open the circuit.
func TestAThrottledAnswerCountsOnlyWhereNothingSucceedsForAWholeWindow(t *testing.T) {
	off, calls := standard, standard
	off.FailureRate = -1
	calls.WindowCalls = 30
	for _, c := range []struct {
		name      string
		config    Config
		age       time.Duration
		calls     Counts
		failures  Failures // before
		wantsOpen bool
	}{
		{"something succeeded", standard, time.Hour, Counts{Good: 1, Bad: 100}, Failures{Throttled: 100}, false},
		{"the phase is younger than a window", standard, standard.Window - 1, Counts{Bad: 100}, Failures{Throttled: 100}, false},
		{"too few calls", standard, time.Hour, Counts{}, Failures{InARow: 5, Throttled: 13}, false},
		{"nothing succeeded", standard, standard.Window, Counts{}, Failures{Throttled: 19}, true},
		{"neither of both kinds", standard, standard.Window, Counts{Bad: 10}, Failures{InARow: 10, Throttled: 9}, true},
		{"there is no rate", off, time.Hour, Counts{}, Failures{Throttled: 100}, false},
		{"the window has room", calls, time.Hour, Counts{}, Failures{InARow: 10, Throttled: 18}, false},
		{"the window is full", calls, 0, Counts{Good: 29}, Failures{InARow: 10, Throttled: 19}, true},
	} {
		s := State{Phase: Phase{Openings: 3}, Failures: c.failures}
		next, effects := Step(&c.config, s, &Input{Kind: Answer, Score: Throttled, Age: c.age, Calls: c.calls, Rest: time.Minute})
		require.Equal(t, c.wantsOpen, next.Kind == Open, c.name)
		if !c.wantsOpen {
			require.True(t, effects.Undecided, c.name)
			require.Zero(t, next.Failures.Rest, "%s: its wait does not count, either", c.name)
			continue
		}
		require.Equal(t, TriggerRate, effects.Trigger, c.name)
		require.EqualValues(t, 1, next.Openings, "%s: it was closed for a whole window", c.name)
		require.Equal(t, time.Minute, next.Span, c.name)
	}
}

func TestACircuitThatHasSeenEnoughTrustsItself(t *testing.T) {
	in := Input{Kind: Advise, Advice: Open, For: time.Second, Calls: Counts{Good: 1000, Dated: 15, Bad: 5}}
	for _, c := range []struct {
		dated  uint64
		inARow uint32
		want   Kind
	}{{14, 0, Open}, {15, 0, Closed}, {15, 1, Open}} {
		in.Calls.Dated = c.dated
		next, _ := Step(&standard, State{Failures: Failures{InARow: c.inARow}}, &in)
		require.Equal(t, c.want, next.Kind, "%+v", c)
	}
}

func TestAfterProbesCallsAreAdmittedByAndBy(t *testing.T) {
	c := standard
	c.ProbeSuccesses, c.RampUp = 1, 10*time.Second
	for mode, want := range map[Mode]time.Duration{Enforce: 10 * time.Second, Observe: 0} {
		s := State{Phase: Phase{Kind: HalfOpen, Mode: mode, Span: time.Second}}
		s, effects := Step(&c, s, &Input{Kind: Ask})
		s, effects = Step(&c, s, &Input{Kind: Answer, Permit: Permit{Probe: effects.Probe}, Score: Good})
		require.Equal(t, Effects{Changed: true, Trigger: TriggerProbe}, effects)
		require.Equal(t, want, s.Span)
	}
	p := Phase{Span: 10 * time.Second}
	require.InDelta(t, 0.1, p.Share(0), 1e-9)
	require.InDelta(t, 0.55, p.Share(5*time.Second), 1e-9)
	require.InDelta(t, 1, p.Share(10*time.Second), 1e-9)
}

func TestLeasesEndInTheOrderOfTheirProbes(t *testing.T) {
	var l Leases
	for n := range uint32(5) {
		l = l.with(n+1, time.Duration(n+1)*time.Second)
	}
	for age, want := range map[time.Duration]int{0: 5, time.Second - 1: 5, time.Second: 4, 4 * time.Second: 1, 5 * time.Second: 0, Forever: 0} {
		require.Equal(t, want, l.Count(age))
	}
	rest, ok := l.without(3)
	require.True(t, ok)
	require.Equal(t, Leases("").with(1, time.Second).with(2, 2*time.Second).with(4, 4*time.Second).with(5, 5*time.Second), rest)
	_, ok = rest.without(3)
	require.False(t, ok)
}
