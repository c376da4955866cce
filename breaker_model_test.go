package backoff

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/nightly"
)

// TestBreakerAgreesWithItsModel runs random interleavings of calls, answers,
// pauses, and interventions by hand; overlapping calls are permits whose
// answers come later.
func TestBreakerAgreesWithItsModel(t *testing.T) {
	t.Parallel()
	for seed := range nightly.Size[uint64](400, 30_000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { compareWithModel(t, program(seed)) })
		})
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
	f.Fuzz(func(t *testing.T, program []byte) {
		synctest.Test(t, func(t *testing.T) { compareWithModel(t, program) })
	})
}

// modelled is a Breaker beside its model, under the clock of a test.
type modelled struct{ *Breaker }

// modelledBreaker returns a breaker with the settings of its model.
func modelledBreaker(m *modelCircuit) modelled {
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

// program returns bytes for compareWithModel. The same seed gives the same ones.
func program(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	text := make([]byte, 200)
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	return text
}

// comparison is a run of compareWithModel.
type comparison struct {
	*testing.T
	program []byte
	model   *modelCircuit
	subject modelled
	open    []openCall
}

// openCall is a call under way.
type openCall struct {
	permit *modelPermit
	done   func(circuit.Score)
}

// compareWithModel lets the bytes of a program decide on the settings of a subject and
// on what happens to it: calls, answers, pauses, and interventions by hand.
// Calls overlap where a permit is answered later. It compares the subject with
// the model after every step.
func compareWithModel(t *testing.T, program []byte) {
	c := &comparison{T: t, program: program[:min(len(program), 1000)]}
	c.model = c.settings()
	c.model.Enter(circuit.Closed)
	first := c.model.Phases
	c.subject = modelledBreaker(c.model)
	for step := 0; len(c.program) > 0; step++ {
		op := c.next() % 8
		c.step(op, c.next())
		require.Equal(t, c.model.Kind(), c.subject.Kind(), "step %d: op %d", step, op)
		require.Equal(t, c.model.Phases-first, c.subject.Phases(), "step %d: op %d", step, op)
	}
	good, bad, slow, inARow, openings := c.subject.Stats()
	require.Equal(t, c.model.Openings, openings)
	if c.model.kind == circuit.Closed {
		total, badly, slowly := c.model.counts()
		require.Equal(t, []int{total - badly, badly, slowly, len(c.model.inARow)}, []int{good, bad, slow, inARow})
	}
}

func (c *comparison) next() int {
	if len(c.program) == 0 {
		return 0
	}
	n := c.program[0]
	c.program = c.program[1:]
	return int(n)
}

func (c *comparison) settings() *modelCircuit {
	m := &modelCircuit{OpenFor: func(openings int) time.Duration { return min(time.Second<<min(openings-1, 3), 5*time.Second) }}
	m.FailureRate = []float64{0.5, 0.3, 1}[c.next()%3]
	m.MinCalls = 1 + c.next()%8
	m.Window = 10 * time.Second
	m.WindowCalls = []int{0, 0, 4, 10}[c.next()%4]
	m.ConsecutiveFailures = c.next() % 7
	m.ConsecutiveSpan = time.Duration(1+c.next()%4) * 500 * time.Millisecond
	m.SlowCall = []time.Duration{0, 0, 750 * time.Millisecond}[c.next()%3]
	m.SlowRate = 0.4
	m.MaxProbes = 1 + c.next()%3
	m.ProbeSuccesses = 1 + c.next()%3
	m.ProbeTimeout = []time.Duration{1, 2 * time.Second}[c.next()%2]
	return m
}

func (c *comparison) step(op, arg int) {
	score := []circuit.Score{circuit.Good, circuit.Bad, circuit.Throttled, circuit.None, circuit.Unsent}[arg%5]
	switch op {
	case 0, 1, 2: // a call that takes no time
		permit := c.model.Allow()
		require.Equal(c, permit != nil, c.subject.Call(score))
		if permit != nil {
			c.model.Done(permit, score)
		}
	case 3: // a call begins
		permit := c.model.Allow()
		done, ok := c.subject.Allow()
		require.Equal(c, permit != nil, ok)
		if ok {
			c.open = append(c.open, openCall{permit, done})
		}
	case 4: // a call ends
		if len(c.open) > 0 {
			i := arg / 4 % len(c.open)
			c.open[i].done(score)
			c.model.Done(c.open[i].permit, score)
			c.open = slices.Delete(c.open, i, i+1)
		}
	case 5, 6:
		c.subject.Stats() // dates the successes until now,
		time.Sleep(time.Duration(1+arg%20) * 250 * time.Millisecond)
		c.subject.Stats() // and says when the next ones begin
	case 7:
		c.intervene(arg % 16)
	}
}

func (c *comparison) intervene(arg int) {
	switch arg {
	case 0:
		c.subject.Reset()
		c.model.Reset()
	case 1:
		c.subject.Trip()
		c.model.Trip()
	}
}

// A modelCircuit is a circuit breaker as one would write it without a thought of
// speed: a list of what happened, and a look at the clock for everything. It
// stands for the documentation. Call Enter once before anything else.
type modelCircuit struct {
	circuit.Config               // all set but perhaps ConsecutiveFailures, none of them to its negative value
	SlowCall       time.Duration // 0: no call is slow
	ProbeTimeout   time.Duration
	OpenFor        func(openings int) time.Duration // without jitter

	Phases   int // entered so far
	Openings int // in a row

	kind   circuit.Kind
	since  time.Time
	span   time.Duration // of the open phase
	calls  []modelCall   // closed: all of them
	begun  int           // closed: calls that were admitted
	inARow []time.Time   // closed: the last failures
	share  float64       // closed: of failures in the window before these
	row    []modelCall   // closed: what failed or was throttled since the last success
	leases map[*modelPermit]bool
	passed int // probes that succeeded
	silent int // 1 once a probe ended without a verdict
	probes int // so far
	served int // number of the newest that succeeded
}

// A modelCall is a call that ended.
type modelCall struct {
	at                   time.Time
	bad, slow, throttled bool
}

// A modelPermit is for a call that was admitted.
type modelPermit struct {
	phase    int
	at, ends time.Time
	number   int // of a probe
}

// Enter begins a phase.
func (m *modelCircuit) Enter(k circuit.Kind) {
	m.kind, m.since = k, time.Now()
	m.Phases++
	m.calls, m.begun, m.inARow, m.row, m.passed, m.silent, m.probes, m.served, m.leases = nil, 0, nil, nil, 0, 0, 0, 0, map[*modelPermit]bool{}
}

func (m *modelCircuit) elapsed() time.Duration { return time.Since(m.since) }

func (m *modelCircuit) open() {
	if m.kind == circuit.Closed {
		if m.WindowCalls > 0 && max(len(m.calls), len(m.row)) >= m.WindowCalls || m.WindowCalls == 0 && m.elapsed() >= m.Window {
			m.Openings = 0
		}
	}
	m.Openings++
	m.span = m.OpenFor(m.Openings)
	m.Enter(circuit.Open)
}

func (m *modelCircuit) expire() {
	if m.Kind() == circuit.HalfOpen && m.kind == circuit.Open {
		m.Enter(circuit.HalfOpen)
	}
}

// Kind returns the state at this moment.
func (m *modelCircuit) Kind() circuit.Kind {
	if m.kind == circuit.Open && m.elapsed() >= m.span {
		return circuit.HalfOpen
	}
	return m.kind
}

// Allow returns a permit for a call, or nil.
func (m *modelCircuit) Allow() *modelPermit {
	m.expire()
	now := time.Now()
	p := &modelPermit{phase: m.Phases, at: now, ends: now.Add(max(m.ProbeTimeout, m.span))}
	switch m.kind {
	case circuit.Closed:
		m.begun++
	case circuit.Open:
		return nil
	case circuit.HalfOpen:
		if m.probing() >= m.MaxProbes+m.silent {
			return nil
		}
		m.leases[p] = true
		m.probes++
		p.number = m.probes
	}
	return p
}

// probing returns how many probes are under way.
func (m *modelCircuit) probing() (n int) {
	for p := range m.leases {
		if time.Now().Before(p.ends) {
			n++
		}
	}
	return n
}

// Done takes in how a call ended.
func (m *modelCircuit) Done(p *modelPermit, s circuit.Score) {
	now := time.Now()
	slow := s != circuit.None && m.SlowCall > 0 && now.Sub(p.at) >= m.SlowCall
	switch {
	case p.phase != m.Phases:
	case m.kind == circuit.HalfOpen:
		delete(m.leases, p)
		m.probed(p, s, slow)
	case s != circuit.None:
		m.count(s, slow)
	}
}

func (m *modelCircuit) probed(p *modelPermit, s circuit.Score, slow bool) {
	switch {
	case s == circuit.None:
		m.silent = 1
	case s != circuit.Good || slow:
		if p.number >= m.served {
			m.open()
		}
	default:
		m.served = max(m.served, p.number)
		if m.passed++; m.passed == m.ProbeSuccesses {
			m.Enter(circuit.Closed)
		}
	}
}

func (m *modelCircuit) count(s circuit.Score, slow bool) {
	now := time.Now()
	c := modelCall{at: now, bad: s != circuit.Good, slow: slow, throttled: s == circuit.Throttled}
	if !c.throttled {
		m.calls = append(m.calls, c)
	}
	if m.row = append(m.row, c); !c.bad {
		m.row = nil
	}
	if m.throttledOnly() {
		m.open()
		return
	}
	switch s {
	case circuit.Throttled:
		return
	case circuit.Good:
		m.inARow = nil
		if !slow {
			return
		}
	case circuit.Unsent, circuit.Bad:
		if m.inARow = append(m.inARow, now); len(m.inARow) == 1 {
			total, bad, _ := m.counts()
			m.share = float64(bad-1) / max(1, float64(total-1))
		}
		if m.tooManyInARow() && now.Sub(m.inARow[0]) >= m.ConsecutiveSpan {
			m.open()
			return
		}
	}
	total, bad, slowly := m.counts()
	share := func(n int) float64 { return float64(n) / float64(total) }
	least := m.MinCalls
	if m.WindowCalls > 0 {
		least = min(least, m.WindowCalls)
	}
	failed := share(bad) >= m.FailureRate
	if m.WindowCalls <= 0 && m.elapsed() < m.ConsecutiveSpan {
		pending := m.Openings == 0 && float64(bad)/float64(m.begun) < m.FailureRate
		failed = failed && bad == total && !pending
	}
	if total >= least && (failed || m.SlowCall > 0 && share(slowly) >= m.SlowRate) {
		m.open()
	}
}

func (m *modelCircuit) tooManyInARow() bool {
	n := len(m.inARow)
	if m.ConsecutiveFailures > 0 {
		return n >= m.ConsecutiveFailures
	}
	chance := 1.0
	for range n {
		chance *= m.share
	}
	return n >= 5 && chance < 0.002
}

// throttledOnly reports whether the calls since the last success open the
// circuit, as some of them were throttled and they fill a whole window.
func (m *modelCircuit) throttledOnly() bool {
	isThrottled := func(c modelCall) bool { return c.throttled }
	total, bad, _ := m.counts()
	switch {
	case !slices.ContainsFunc(m.row, isThrottled):
		return false
	case m.WindowCalls > 0:
		return len(m.row) >= m.WindowCalls
	}
	return len(m.row) >= m.MinCalls && total == bad && m.elapsed() >= m.Window
}

// counts returns what the window holds: the last calls, or those of the current
// tenth of the time and the nine before it.
func (m *modelCircuit) counts() (total, bad, slow int) {
	calls := m.calls
	if m.WindowCalls > 0 {
		calls = calls[max(0, len(calls)-m.WindowCalls):]
	} else {
		tenth := func(t time.Time) int64 { return int64(t.Sub(m.since) / (m.Window / 10)) }
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

// Reset closes the circuit and forgets all.
func (m *modelCircuit) Reset() {
	m.Openings = 0
	m.Enter(circuit.Closed)
}

// Trip opens the circuit.
func (m *modelCircuit) Trip() {
	m.expire()
	if m.kind != circuit.Open {
		m.open()
	}
}
