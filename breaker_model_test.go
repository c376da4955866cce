package backoff

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// breakerModel is the breaker as one would write it without a thought of speed: a list
// of what happened, and a look at the clock for everything. It stands for the
// documentation of Breaker, and the breaker must do exactly the same.
type breakerModel struct {
	Breaker  *Breaker // its fields only; they are set, and without jitter
	state    State
	since    time.Time
	span     time.Duration // of the open phase
	phase    int
	openings int
	calls    []modelCall           // closed: all of them
	streak   []time.Time           // closed: the last failures
	leases   map[*modelPermit]bool // half-open
	passed   int                   // probes
}

type modelCall struct {
	at        time.Time
	bad, slow bool
}

type modelPermit struct {
	phase    int
	at, ends time.Time
}

func (m *breakerModel) enter(s State) {
	m.state, m.since = s, time.Now()
	m.phase++
	m.calls, m.streak, m.passed, m.leases = nil, nil, 0, map[*modelPermit]bool{}
}

func (m *breakerModel) open() {
	b := m.Breaker
	if m.state == StateClosed {
		if b.WindowCalls > 0 && len(m.calls) >= b.WindowCalls || b.WindowCalls == 0 && time.Since(m.since) >= b.Window {
			m.openings = 0
		}
	}
	m.openings++
	m.span = b.OpenFor.Delay(m.openings)
	m.enter(StateOpen)
}

func (m *breakerModel) turn() {
	if m.now() == StateHalfOpen && m.state == StateOpen {
		m.enter(StateHalfOpen)
	}
}

func (m *breakerModel) now() State {
	if m.state == StateOpen && time.Since(m.since) >= m.span {
		return StateHalfOpen
	}
	return m.state
}

func (m *breakerModel) allow() *modelPermit {
	m.turn()
	p := &modelPermit{phase: m.phase, at: time.Now(), ends: time.Now().Add(max(m.Breaker.ProbeTimeout, m.span))}
	switch m.state {
	case StateOpen:
		return nil
	case StateHalfOpen:
		under := 0
		for other := range m.leases {
			if time.Now().Before(other.ends) {
				under++
			}
		}
		if under >= m.Breaker.MaxProbes {
			return nil
		}
		m.leases[p] = true
	}
	return p
}

func (m *breakerModel) done(p *modelPermit, s score) {
	slow := s != scoreNone && m.Breaker.SlowCall > 0 && time.Since(p.at) >= m.Breaker.SlowCall
	switch {
	case p.phase != m.phase:
	case m.state == StateHalfOpen:
		if m.leases[p] && time.Now().Before(p.ends) {
			delete(m.leases, p)
			m.probed(s, slow)
		}
	case s != scoreNone:
		m.count(s, slow)
	}
}

func (m *breakerModel) probed(s score, slow bool) {
	switch {
	case s == scoreNone:
	case s != scoreGood || slow:
		m.open()
	default:
		if m.passed++; m.passed == m.Breaker.ProbeSuccesses {
			m.enter(StateClosed)
		}
	}
}

func (m *breakerModel) count(s score, slow bool) {
	m.calls = append(m.calls, modelCall{at: time.Now(), bad: s != scoreGood, slow: slow})
	switch s {
	case scoreGood:
		m.streak = nil
		if !slow {
			return
		}
	case scoreBad:
		m.streak = append(m.streak, time.Now())
		if len(m.streak) >= m.Breaker.ConsecutiveFailures && time.Since(m.streak[0]) >= m.Breaker.ConsecutiveSpan {
			m.open()
			return
		}
	}
	total, bad, slowly := m.window()
	minimum := m.Breaker.MinCalls
	if m.Breaker.WindowCalls > 0 {
		minimum = min(minimum, m.Breaker.WindowCalls)
	}
	if total >= minimum && (float64(bad)/float64(total) >= m.Breaker.FailureRate || m.Breaker.SlowCall > 0 && float64(slowly)/float64(total) >= m.Breaker.SlowRate) {
		m.open()
	}
}

// window returns what the window holds: the last calls, or those of the current tenth
// of the time and the nine before it.
func (m *breakerModel) window() (total, bad, slow int) {
	calls := m.calls
	if n := m.Breaker.WindowCalls; n > 0 {
		calls = calls[max(0, len(calls)-n):]
	} else {
		tenth := func(t time.Time) int64 { return int64(t.Sub(m.since) / (m.Breaker.Window / 10)) }
		calls = slices.DeleteFunc(slices.Clone(calls), func(c modelCall) bool { return tenth(c.at) <= tenth(time.Now())-10 })
	}
	for _, c := range calls {
		if total++; c.bad {
			bad++
		}
		if c.slow {
			slow++
		}
	}
	return total, bad, slow
}

// breakerTrial lets the bytes of a program decide what happens to a breaker and to its
// model, and compares them after every step.
func breakerTrial(t *testing.T, program []byte) {
	program = program[:min(len(program), 1000)]
	next := func() int {
		if len(program) == 0 {
			return 0
		}
		n := program[0]
		program = program[1:]
		return int(n)
	}
	b := &Breaker{
		FailureRate:         []float64{0.5, 0.3, 1}[next()%3],
		MinCalls:            1 + next()%8,
		Window:              10 * time.Second,
		WindowCalls:         []int{0, 0, 4, 10}[next()%4],
		ConsecutiveFailures: 1 + next()%6,
		ConsecutiveSpan:     time.Duration(1+next()%4) * 500 * time.Millisecond,
		SlowCall:            []time.Duration{0, 0, 750 * time.Millisecond}[next()%3],
		SlowRate:            0.4,
		OpenFor:             Exponential{Initial: time.Second, Max: 5 * time.Second},
		Jitter:              NoJitter,
		MaxProbes:           1 + next()%3,
		ProbeSuccesses:      1 + next()%3,
		ProbeTimeout:        []time.Duration{1, 2 * time.Second}[next()%2],
	}
	m := &breakerModel{Breaker: b}
	b.Stats() // begins the first phase
	m.enter(StateClosed)
	first := m.phase
	var out []func(err error, s score)
	for step := 0; len(program) > 0; step++ {
		op, arg := next()%8, next()
		out = breakerStep(t, b, m, op, arg, out)
		require.Equal(t, m.now(), b.State(), "step %d: op %d", step, op)
		require.EqualValues(t, m.phase-first, b.generation, "step %d: op %d", step, op)
	}
	s := b.Stats()
	if m.state == StateClosed {
		total, bad, slow := m.window()
		require.Equal(t, []int{total - bad, bad, slow, len(m.streak)}, []int{int(s.Successes), int(s.Failures), int(s.Slow), s.ConsecutiveFailures})
	}
	require.Equal(t, m.openings, s.Openings)
}

var breakerAnswers = []struct {
	err   error
	score score
}{
	{nil, scoreGood},
	{errors.New("down"), scoreBad},
	{WithClass(errors.New("busy"), ClassThrottled), scoreThrottled},
	{context.Canceled, scoreNone},
}

func breakerStep(t *testing.T, b *Breaker, m *breakerModel, op, arg int, out []func(error, score)) []func(error, score) {
	answer := breakerAnswers[arg%len(breakerAnswers)]
	switch op {
	case 0, 1, 2: // a call that takes no time
		admitted := false
		_ = b.Do(context.Background(), func(context.Context) error { admitted = true; return answer.err })
		p := m.allow()
		require.Equal(t, p != nil, admitted)
		if admitted {
			m.done(p, answer.score)
		}
	case 3: // a call begins
		done, err := b.Allow()
		p := m.allow()
		require.Equal(t, p != nil, err == nil)
		if err == nil {
			out = append(out, func(err error, s score) { done(err); m.done(p, s) })
		}
	case 4: // one ends, perhaps for the second time: the model's permit of another phase says the same
		if len(out) > 0 {
			i := arg / 4 % len(out)
			out[i](answer.err, answer.score)
			out = slices.Delete(out, i, i+1)
		}
	case 5, 6:
		b.Stats() // dates the successes until now,
		time.Sleep(time.Duration(1+arg%20) * 250 * time.Millisecond)
		b.Stats() // and says when the next ones begin
	case 7:
		breakerByHand(b, m, arg)
	}
	return out
}

func breakerByHand(b *Breaker, m *breakerModel, arg int) {
	switch arg % 16 {
	case 0:
		b.Reset()
		m.openings = 0
		m.enter(StateClosed)
	case 1:
		b.Trip()
		if m.turn(); m.state != StateOpen {
			m.open()
		}
	}
}

// TestBreakerAgreesWithItsModel runs random interleavings of calls, answers, pauses,
// and interventions by hand; overlapping calls are permits whose answers come later.
func TestBreakerAgreesWithItsModel(t *testing.T) {
	for seed := range uint64(1500) {
		random := rand.New(rand.NewPCG(seed, 0))
		program := make([]byte, 200)
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { breakerTrial(t, program) })
		})
	}
}

func FuzzBreaker(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 5, 19, 3, 0, 4, 0, 0, 0})
	f.Add([]byte{1, 7, 2, 5, 1, 2, 2, 1, 1, 3, 0, 3, 0, 5, 3, 4, 1, 4, 0, 7, 1, 6, 3, 0, 1})
	f.Fuzz(func(t *testing.T, program []byte) {
		synctest.Test(t, func(t *testing.T) { breakerTrial(t, program) })
	})
}

// A breaker is as large as the measurements of others are: 512 bytes, and a cache line
// per processor once two of them met in it.
func TestBreakerIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Breaker{})+unsafe.Sizeof(phase{})+unsafe.Sizeof(faults{}), uintptr(528))

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
	require.LessOrEqual(t, (after.TotalAlloc-before.TotalAlloc)/n, uint64(530))
	runtime.KeepAlive(breakers)
}

// The counts of the openings and of their lengths do not overflow.
func TestBreakerOpensAnyNumberOfTimes(t *testing.T) {
	b := &Breaker{OpenFor: Constant(0)}
	b.lock()
	b.openings = maxOpenings
	b.unlock(context.Background())
	b.Trip()
	require.Equal(t, maxOpenings, b.Stats().Openings)
}

// Between a look at the path and the lock the phase may end.
func TestBreakerAsksAgainUnderTheLock(t *testing.T) {
	for mode, counted := range map[Mode]bool{ModeEnforce: true, ModeForcedClosed: false} {
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

// A timer that is left would hold the phase, and its error, until it fires.
func TestBreakerStopsItsTimer(t *testing.T) {
	b := &Breaker{OpenFor: Constant(time.Hour)}
	b.Trip()
	p := b.phase.Load()
	require.NotNil(t, p.timer)
	b.Reset()
	require.False(t, p.timer.Stop())
}
