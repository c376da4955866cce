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
	f.Add([]byte("010002000C0C0%0$0$"))
	f.Add([]byte("DJ\xe5\xb4iQ*\x91m\x90,\x8b\xeb\xe4\x80(\xd4s#\xb9\x14S\xfd\xc4v\xb0\xf1n\x91Y\x955\x96" +
		"\xec\x093\x06\xccf\x17\x90\xfa}\xb0\x09\x8a\xb1=7x,E\x92\xc3K\xed\xf4b\xfb\x84;\xdb1\xc2" +
		"\xf2\xdd_p_J\x0a\xa6\x82\xd9\x9b\x1b\xab\x9b\x92(\xc6\xae\x8f\x9c\xd7F\x99_\x11%9#a\xce" +
		"\x15\x99\xf3\x0a\xdaSOU4i\x04\xed\xc0.\x0d\x0a\xd8\xc1#\xfb\xc3\x1c0\xe6\xa1Od\xb3\x8e\x13" +
		"\xd3l\xec\x9f\xfd\x09\x97x68\xdb\xa7-\x86\xed\xb0p\xaf}\xa8\xa9\x81\xa8g'\x04\x17\xfd\xb9" +
		"\xe7h\xb5\xe6\xe2\x9dWe\xc2\xdaR\x84\x8a\x94s\xaa[\x81N\xd3\xf2\xc7r4\x22\xdc\xba\xb3\xd14" +
		"3\x87\xd7I4\xbal\x90\x7f\xcd`q\xc107\x88X.\x8fM\x82&\x8b>\xcb\x9e}+A<\xbd\xad@\xafgF\x1f" +
		"\x12\xb0\xd1\x87\xdf\xd1\xf0\xe7\xf2\x0c^\x11?\xf17t\x96q\xf8\xd8-\xaa\x85\xb1W'{Bp\xf4" +
		"\x87\xb1\x0a\xd6(&N\xe9\x18\x04\x15\xd1\xbb\x82H\x12y\xb0\x85\xea<\x8e\xc3C1\x8d\x05|\x0f" +
		"\x8d\xa1G5hX%D\xafP\x82<~\xe5\x8d\xa5\xe0\x0f;\x8f\xf2\xdd!?\xf4&\x92\x1c[;n,\x81\x18f\xc5" +
		"fm^F\xb9\x18e\xf0:\x86\xbf\xea\x12&\xdf\xf8U=\x83&)\x96g\xe3x1u\xfa\xb3l:)85\xd9\xd5\xc6" +
		"\xbe.Zi~\x1b\x99\xd0&)\xec\xf7>\xcbQ\x86$\xe2\xe8\xe9\xb4\x04z\x81#\xef\x80\x5c\xc3\x9c>?," +
		"\x1a0N\xfa\xb9\xc5$\x0703\xc0\xa7\x90[\x87^hRKq\xcfqR\x83\xa6=E\xf7\xf32\xea^uk(\xe2\xfd" +
		"\x01E24\xe0\x80|e\xd4\xeb\x0c=r-\xfe\xa1XF\x0d\xc1D&zR\x9d\x0cu\xf8%\xd2X\x143;\x16\xfd" +
		"\x87R\xfb\xf5\xc4\xf4\xa7\x1a\x18\x8cw\xe9\x10\xb9<\xf5\xbf\xf5\xc0\xea\xa7\xee\x9f\xf4" +
		"\x95\xe4\xe3E\x84\x0exGe\xa7#\xc9\x82C\xa1x\xc2\x00\xa0\x85w\x09\x05\xc9\x10i'\x9ev\xd1w^" +
		"\x0dyQ\xdb\xd9\xa3\xce\xc6ID\xb9\xd8\xb8 \xd38\xf6\x92\xdd\x1br\x0fM}g\xd6\x90o.\xe4z\x11" +
		"\x90\x81\x12\xf0\x80&\x8a\x5c\xa2[\xda8\x09dC\x8b\x8c\x82u\xb9O \xcdT*?K\x0e\xa2\xba*\xe9" +
		"\x0f\x08F\x86d\x9aw\x13M\xa9\x12\xb2\xe9\xcf\xc8E\x83\x90?\x17\x89\xc7\x1d\x1f\x82\x18\x0e" +
		"\x82E\x06\xea\x00\x10\xbeh\xebK^\xc4+\xf2^\xe3\x89`\x18\xeeB\x1e0700 000\x1e\xb8001%00700"))
	f.Add([]byte("00000000001%0C0%0$"))
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
