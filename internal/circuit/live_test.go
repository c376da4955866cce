package circuit

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/clock"
)

func begun(p Phase, paths Paths) *Live {
	l := new(Live)
	l.Begin(p, paths)
	return l
}

func TestAPhaseBeginsWithThePathOfItsCalls(t *testing.T) {
	for _, c := range []struct {
		phase Phase
		paths Paths
		want  uint32
	}{
		{Phase{}, Paths{}, PathFirst},
		{Phase{}, Paths{Time: true}, PathFirst},
		{Phase{Openings: 1}, Paths{}, PathCount},
		{Phase{Openings: 1}, Paths{Time: true}, PathTime},
		{Phase{}, Paths{Time: true, Consult: true}, PathAsk},
		{Phase{Mode: Observe}, Paths{Consult: true}, PathFirst},
		{Phase{Span: 1}, Paths{Consult: true}, PathRamp},
		{Phase{Kind: Open, Span: 1}, Paths{}, PathAsk},
		{Phase{Kind: HalfOpen, Span: 1}, Paths{}, PathAsk},
		{Phase{Kind: Open, Span: Forever, Mode: ForcedOpen}, Paths{}, PathRefuse},
		{Phase{Mode: ForcedClosed}, Paths{Time: true, Consult: true}, PathPass},
		{Phase{Mode: Invalid}, Paths{}, PathRefuse},
	} {
		require.Equal(t, c.want, begun(c.phase, c.paths).Path.Load(), "%+v", c)
	}
}

func TestTheFleetIsConsultedOnceUntilItWakesAPhase(t *testing.T) {
	for _, paths := range []Paths{{Consult: true}, {Consult: true, Time: true}} {
		l := begun(Phase{}, paths)
		require.True(t, l.Consults())
		require.False(t, l.Consults())
		require.NotEqual(t, uint32(PathAsk), l.Path.Load())
		l.Wake()
		l.Wake()
		require.Equal(t, uint32(PathAsk), l.Path.Load())
		require.True(t, l.Consults())
	}
	for _, p := range []Phase{{Mode: ForcedClosed}, {Mode: Invalid}, {Span: 1}} {
		l := begun(p, Paths{})
		path := l.Path.Load()
		l.Wake()
		require.Equal(t, path, l.Path.Load(), "%+v", p)
	}
	half := begun(Phase{Kind: HalfOpen, Span: 1}, Paths{Consult: true})
	require.True(t, half.Consults())
	require.True(t, half.Consults(), "by every call")
	for _, p := range []Phase{{Kind: HalfOpen, Span: 1, Mode: Observe}, {Kind: Open, Span: 1}} {
		require.False(t, begun(p, Paths{Consult: true}).Consults(), "%+v", p)
	}
	require.False(t, begun(Phase{Kind: HalfOpen, Span: 1}, Paths{}).Consults())
}

func TestAPhaseAdmitsCallsWithoutItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		always := func(u float64) func() float64 { return func() float64 { return u } }
		requireAdmits := func(l *Live, u float64, wantPath uint32, wantAge time.Duration) {
			t.Helper()
			path, age := l.Admit(always(u))
			require.Equal(t, wantPath, path)
			require.Equal(t, wantAge, age)
		}
		plain, timed := begun(Phase{}, Paths{}), begun(Phase{}, Paths{Time: true})
		ramp := begun(Phase{Span: 10 * time.Second}, Paths{Consult: true})
		open, forced := begun(Phase{Kind: Open, Span: time.Hour}, Paths{}), begun(Phase{Mode: ForcedClosed}, Paths{})
		time.Sleep(5 * time.Second)
		requireAdmits(plain, 0, PathCount, 0)
		requireAdmits(timed, 0, PathCount, 5*time.Second)
		requireAdmits(open, 0, PathAsk, 0)
		requireAdmits(forced, 0, PathPass, 0)
		requireAdmits(ramp, 0.54, PathCount, 5*time.Second)
		requireAdmits(ramp, 0.56, PathRefuse, 0)
		time.Sleep(5 * time.Second)
		requireAdmits(ramp, 0.99, PathCount, 10*time.Second)
		require.Equal(t, uint32(PathAsk), ramp.Path.Load(), "the next call consults the fleet")
	})
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

func TestTheTimeThatIsLeftIsThatOfAnOpenPhaseWithAnEnd(t *testing.T) {
	require.Equal(t, 2*time.Second, Phase{Kind: Open, Span: 5 * time.Second}.Left(3*time.Second))
	require.Zero(t, Phase{Kind: Open, Span: time.Second}.Left(3*time.Second))
	require.Zero(t, Phase{Kind: Open, Span: Forever}.Left(0))
	require.Zero(t, Phase{Kind: HalfOpen, Span: time.Second}.Left(0))
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

// 536 bytes in all; the other 240 are those of a breaker.
func TestAPhaseIsSmall(t *testing.T) {
	const refusal = 16
	require.LessOrEqual(t, unsafe.Sizeof(Live{})+refusal, uintptr(104))
	require.LessOrEqual(t, unsafe.Sizeof(failed{}), uintptr(192))
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
