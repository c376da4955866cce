package backoff

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/evidence"
)

// The numbers of states, modes and triggers are those of the circuit.
func TestBreakerSpeaksOfTheCircuitAsItIs(t *testing.T) {
	require.Equal(t, []BreakerState{BreakerClosed, BreakerOpen, BreakerHalfOpen}, []BreakerState{BreakerState(circuit.Closed), BreakerState(circuit.Open), BreakerState(circuit.HalfOpen)})
	require.Equal(t, []BreakerMode{ModeEnforce, ModeObserve, ModeForcedOpen, ModeForcedClosed, modeInvalid},
		[]BreakerMode{BreakerMode(circuit.Enforce), BreakerMode(circuit.Observe), BreakerMode(circuit.ForcedOpen), BreakerMode(circuit.ForcedClosed), BreakerMode(circuit.Invalid)})
	require.Equal(t, [...]string{"rate", "consecutive", "slow", "rule", "time", "probe", "manual", "shared"}, [...]string{
		triggerNames[circuit.TriggerRate], triggerNames[circuit.TriggerConsecutive], triggerNames[circuit.TriggerSlow], triggerNames[circuit.TriggerRule],
		triggerNames[circuit.TriggerTime], triggerNames[circuit.TriggerProbe], triggerNames[circuit.TriggerManual], triggerNames[circuit.TriggerShared]})
}

// A breaker is hardly larger than the measurements of others: 576 bytes, and four
// cache lines per processor once two of them met in it.
func TestBreakerIsSmall(t *testing.T) {
	require.LessOrEqual(t, int(unsafe.Sizeof(Breaker{})+unsafe.Sizeof(phase{})), 576-208, "the rest is for what failed")

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
	require.LessOrEqual(t, (after.TotalAlloc-before.TotalAlloc)/n, uint64(578))
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
type countingFleet struct{ consulted int }

func (*countingFleet) Opened(string, time.Duration, int) {}
func (*countingFleet) Closed(string)                     {}
func (*countingFleet) Probe(context.Context, string, time.Duration) (none BreakerTransition) {
	return none
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
