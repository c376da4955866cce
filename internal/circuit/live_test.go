package circuit

import (
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
		{Phase{}, Paths{}, PathCount},
		{Phase{}, Paths{Time: true}, PathTime},
		{Phase{}, Paths{Time: true, Consult: true}, PathAsk},
		{Phase{Mode: Observe}, Paths{Consult: true}, PathCount},
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
		l.Consulted(paths)
		require.NotEqual(t, uint32(PathAsk), l.Path.Load())
		l.Wake()
		l.Wake()
		require.Equal(t, uint32(PathAsk), l.Path.Load())
	}
	for _, p := range []Phase{{Mode: ForcedClosed}, {Mode: Invalid}, {Span: 1}} {
		l := begun(p, Paths{})
		path := l.Path.Load()
		l.Wake()
		require.Equal(t, path, l.Path.Load(), "%+v", p)
	}
	ramp := begun(Phase{Span: 1}, Paths{Consult: true})
	ramp.AdmitAll(Paths{Consult: true})
	require.Equal(t, uint32(PathAsk), ramp.Path.Load())
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

// 528 bytes in all; the other 240 are those of a breaker.
func TestAPhaseIsSmall(t *testing.T) {
	const refusal = 16
	require.LessOrEqual(t, unsafe.Sizeof(Live{})+refusal, uintptr(96))
	require.LessOrEqual(t, unsafe.Sizeof(failed{}), uintptr(192))
}

func TestAFailureOfAClosedPhaseAllocatesOnce(t *testing.T) {
	c, l := standard, begun(Phase{}, Paths{})
	fail := func() {
		in := l.Answer(&c, 0, Bad, false)
		_, effects := l.Step(&c, &in, nil)
		if effects.Changed {
			t.Error("opened")
		}
	}
	c.FailureRate, c.ConsecutiveFailures = -1, -1
	fail()
	require.Zero(t, testing.AllocsPerRun(100, fail))
}
