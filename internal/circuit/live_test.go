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
