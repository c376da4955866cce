package circuit

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/clock"
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

func begun(p Phase, paths Paths) *Live {
	l := new(Live)
	l.Begin(p, paths)
	return l
}

func TestCallsThatBeginAreCountedUntilOneSucceeds(t *testing.T) {
	for _, paths := range []Paths{{}, {Time: true}, {Consult: true}} {
		l, path := begun(Phase{}, paths), uint32(PathCount)
		if paths.Time {
			path = PathTime
		}
		require.Equal(t, paths.Consult, l.Consults())
		for range 3 {
			got, _ := l.Admit(nil)
			require.EqualValues(t, PathCount, got)
		}
		require.EqualValues(t, 3, l.begun.Load())
		l.Good.Add()
		for range 3 {
			_, _ = l.Admit(nil)
		}
		require.EqualValues(t, 4, l.begun.Load(), "the first call after the success is the last one that is counted")
		require.Equal(t, path, l.Path.Load())
	}
}

func TestASuccessThatWasNotSlowSettlesWithoutTheLock(t *testing.T) {
	l := begun(Phase{}, Paths{})
	for _, in := range []Input{{Score: None}, {Score: None, Slow: true}, {Score: Good}} {
		require.True(t, l.Settle(&in), "%+v", in)
	}
	for _, in := range []Input{{Score: Good, Slow: true}, {Score: Throttled}, {Score: Unsent}, {Score: Bad}, {Score: None, Permit: Permit{Probe: 1}}, {Score: Good, Permit: Permit{Probe: 1}}} {
		require.False(t, l.Settle(&in), "%+v", in)
	}
	require.EqualValues(t, 1, l.Good.Total())
}

func TestATimerSparesTheClockWhileACircuitIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := Phase{Kind: Open, Span: time.Second}
		l := begun(open, Paths{})
		require.NotNil(t, l.Arm())
		time.Sleep(time.Second - openMargin - 1)
		require.Equal(t, uint32(PathRefuse), l.Path.Load())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, uint32(PathAsk), l.Path.Load())
		require.False(t, l.Expired())
		time.Sleep(openMargin)
		require.True(t, l.Expired())
	})
	for _, p := range []Phase{{}, {Kind: HalfOpen, Span: time.Hour}, {Kind: Open, Span: openMargin}, {Kind: Open, Span: time.Hour, Mode: Observe}} {
		require.Nil(t, begun(p, Paths{}).Arm(), "%+v", p)
	}
	clock.Source = time.Now
	defer func() { clock.Source = nil }()
	require.Nil(t, begun(Phase{Kind: Open, Span: time.Hour}, Paths{}).Arm())
}

// 544 bytes in all; the other 240 are those of a breaker.
func TestAPhaseIsSmall(t *testing.T) {
	const refusal = 16
	require.LessOrEqual(t, int(unsafe.Sizeof(Live{})+refusal), 112)
	require.LessOrEqual(t, int(unsafe.Sizeof(failed{})), 192)
}

func TestAFailureOfAClosedPhaseAllocatesOnce(t *testing.T) {
	c, l := standard, begun(Phase{}, Paths{})
	fail := func() {
		_, effects := l.Step(&c, &Input{Kind: Answer, Score: Bad}, nil)
		if effects.Changed {
			t.Error("opened")
		}
	}
	c.FailureRate, c.ConsecutiveFailures = -1, -1
	fail()
	require.Zero(t, testing.AllocsPerRun(100, fail))
}

// The first call that looks at the successes must not undo the Wake of another
// goroutine.
func TestAWakeIsNotLostBesideAFirstCall(t *testing.T) {
	for range 30_000 {
		l := begun(Phase{}, Paths{Consult: true})
		l.Consults()
		l.Good.Add()
		var both sync.WaitGroup
		begin := make(chan struct{})
		both.Go(func() { <-begin; l.Admit(nil) })
		both.Go(func() { <-begin; l.Wake() })
		close(begin)
		both.Wait()
		require.Equal(t, uint32(PathAsk), l.Path.Load())
	}
}
