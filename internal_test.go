package backoff

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/circuit/model"
	"github.com/gobackoff/backoff/internal/evidence"
	"github.com/gobackoff/backoff/internal/nightly"
)

// modelled is a Breaker beside its model, under the clock of a test.
type modelled struct{ *Breaker }

// modelledBreaker returns a breaker with the settings of its model.
func modelledBreaker(m *model.Circuit) model.Subject {
	b := &Breaker{
		FailureRate:         m.FailureRate,
		MinCalls:            m.MinCalls,
		Window:              m.Window,
		WindowCalls:         m.WindowCalls,
		ConsecutiveFailures: m.ConsecutiveFailures,
		ConsecutiveSpan:     m.ConsecutiveSpan,
		SlowCall:            m.SlowCall,
		SlowRate:            m.SlowRate,
		OpenFor:             ScheduleFunc(func(retry int) time.Duration { return m.OpenFor(max(1, retry)) }),
		Jitter:              NoJitter,
		MaxProbes:           m.MaxProbes,
		ProbeSuccesses:      m.ProbeSuccesses,
		ProbeTimeout:        m.ProbeTimeout,
	}
	b.Stats() // begins the first phase
	return modelled{b}
}

// errorOf is an error of each score.
var errorOf = map[circuit.Score]error{
	circuit.Unsent:    OfClass(errors.New("refused"), ClassNotSent),
	circuit.Bad:       errors.New("down"),
	circuit.Throttled: OfClass(errors.New("busy"), ClassThrottled),
	circuit.None:      context.Canceled,
}

func (m modelled) Call(s circuit.Score) (admitted bool) {
	_ = m.Do(context.Background(), func(context.Context) error { admitted = true; return errorOf[s] })
	return admitted
}

func (m modelled) Allow() (done func(circuit.Score), ok bool) {
	end, err := m.Breaker.Allow()
	return func(s circuit.Score) { end(errorOf[s]) }, err == nil
}

func (m modelled) Kind() circuit.Kind { return circuit.Kind(m.State()) }
func (m modelled) Phases() int        { return int(m.phase.Load().Generation) }

func (m modelled) Stats() (good, bad, slow, inARow, openings int) {
	s := m.Breaker.Stats()
	return int(s.Successes), int(s.Failures), int(s.Slow), s.ConsecutiveFailures, s.Openings
}

func compareWithModel(t *testing.T, program []byte) {
	synctest.Test(t, func(t *testing.T) { model.Compare(t, program, modelledBreaker) })
}

// TestBreakerAgreesWithItsModel runs random interleavings of calls, answers,
// pauses, and interventions by hand; overlapping calls are permits whose
// answers come later.
func TestBreakerAgreesWithItsModel(t *testing.T) {
	t.Parallel()
	for seed := range nightly.Size[uint64](400, 30_000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compareWithModel(t, model.Program(seed)) })
	}
}

func FuzzBreaker(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 5, 19, 3, 0, 4, 0, 0, 0})
	f.Add([]byte{1, 7, 2, 5, 1, 2, 2, 1, 1, 3, 0, 3, 0, 5, 3, 4, 1, 4, 0, 7, 1, 6, 3, 0, 1})
	f.Fuzz(compareWithModel)
}

// The numbers of states, modes and triggers are those of the circuit.
func TestBreakerSpeaksOfTheCircuitAsItIs(t *testing.T) {
	require.Equal(t, []BreakerState{BreakerClosed, BreakerOpen, BreakerHalfOpen}, []BreakerState{BreakerState(circuit.Closed), BreakerState(circuit.Open), BreakerState(circuit.HalfOpen)})
	require.Equal(t, []BreakerMode{ModeEnforce, ModeObserve, ModeForcedOpen, ModeForcedClosed, modeInvalid},
		[]BreakerMode{BreakerMode(circuit.Enforce), BreakerMode(circuit.Observe), BreakerMode(circuit.ForcedOpen), BreakerMode(circuit.ForcedClosed), BreakerMode(circuit.Invalid)})
	require.Equal(t, [...]string{"rate", "consecutive", "slow", "rule", "time", "probe", "manual", "shared"}, [...]string{
		triggerNames[circuit.TriggerRate], triggerNames[circuit.TriggerConsecutive], triggerNames[circuit.TriggerSlow], triggerNames[circuit.TriggerRule],
		triggerNames[circuit.TriggerTime], triggerNames[circuit.TriggerProbe], triggerNames[circuit.TriggerManual], triggerNames[circuit.TriggerShared]})
}

// A breaker is hardly larger than the measurements of others: 544 bytes, and four
// cache lines per processor once two of them met in it.
func TestBreakerIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Breaker{})+unsafe.Sizeof(phase{}), uintptr(536-192), "the rest is for what failed")

	const n = 10_000
	breakers := make([]*Breaker, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range breakers {
		b := new(Breaker)
		_ = b.Do(context.Background(), func(context.Context) error { return nil })
		_ = b.Do(context.Background(), func(context.Context) error { return errCrashed })
		breakers[i] = b
	}
	runtime.ReadMemStats(&after)
	t.Log((after.TotalAlloc-before.TotalAlloc)/n, "bytes")
	require.LessOrEqual(t, (after.TotalAlloc-before.TotalAlloc)/n, uint64(546))
	runtime.KeepAlive(breakers)
}

// Between a look at the path and the lock the phase may end.
func TestBreakerAsksAgainUnderTheLock(t *testing.T) {
	for mode, counted := range map[BreakerMode]bool{ModeEnforce: true, ModeForcedClosed: false} {
		b := new(Breaker)
		b.Force(mode)
		p, err := b.ask(context.Background())
		require.NoError(t, err)
		require.Equal(t, counted, p.phase != nil)
	}
	b := &Breaker{FailureRate: 2}
	_, err := b.ask(context.Background())
	require.Error(t, err)
	b = new(Breaker)
	b.Trip()
	_, err = b.ask(context.Background())
	require.ErrorIs(t, err, ErrOpen)
	b.Reset()
}

// countingFleet counts how often it is consulted.
type countingFleet struct {
	Shared
	consulted int
}

func (f *countingFleet) Consult(context.Context, string, func()) BreakerTransition {
	f.consulted++
	return BreakerTransition{}
}

// Two calls may look at the path before one of them has the lock.
func TestBreakerConsultsItsFleetOnceForCallsThatMeet(t *testing.T) {
	fleet := new(countingFleet)
	b := &Breaker{Name: "db", Shared: fleet}
	for range 2 {
		p, err := b.ask(context.Background())
		require.NoError(t, err)
		require.NotNil(t, p.phase)
	}
	require.Equal(t, 1, fleet.consulted)
}

// A timer that is left would hold the phase, and its error, until it fires.
func TestBreakerStopsItsTimer(t *testing.T) {
	b := &Breaker{OpenFor: Constant(time.Hour)}
	b.Trip()
	timer := b.timer
	require.NotNil(t, timer)
	b.Reset()
	require.False(t, timer.Stop())
}

// LockOf is what a breaker must not take while calls succeed.
func LockOf(b *Breaker) *sync.Mutex { return &b.mu.Mutex }

// SplitCounter makes a closed breaker count as if two processors had met at its
// counter.
func SplitCounter(b *Breaker) { b.phase.Load().Good.Split() }

// ForgetPanics has the next panic of an observer reported as the first.
func ForgetPanics() { panicked = sync.Once{} }

// ReportPanic is what a program sees of the first panic of an observer.
var ReportPanic = reportPanic

// The classes of the evidence are those of the package.
func TestTheEvidenceHasTheSameClasses(t *testing.T) {
	require.Equal(t, []Class{ClassUnknown, ClassNotSent, ClassRetryable, ClassThrottled, ClassOverloaded, ClassPermanent},
		[]Class{Class(evidence.Unknown), Class(evidence.NotSent), Class(evidence.Retryable), Class(evidence.Throttled), Class(evidence.Overloaded), Class(evidence.Permanent)})
}
