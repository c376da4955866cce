package model

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/circuit"
)

// A Subject is a breaker that is compared with the model.
type Subject interface {
	// Call makes a call that takes no time and ends with s, and reports whether
	// it was admitted.
	Call(s circuit.Score) bool
	// Allow asks for a call, which ends with done.
	Allow() (done func(s circuit.Score), ok bool)
	Reset()
	Trip()

	Kind() circuit.Kind
	Phases() int // entered so far, less the first one
	// Stats returns what it has counted. It dates the successes until now.
	Stats() (good, bad, slow, inARow, openings int)
}

// Program returns bytes for Compare. The same seed gives the same ones.
func Program(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	program := make([]byte, 200)
	for i := range program {
		program[i] = byte(random.Uint32())
	}
	return program
}

// comparison is a run of Compare.
type comparison struct {
	*testing.T
	program []byte
	model   *Circuit
	subject Subject
	open    []openCall
}

// openCall is a call under way.
type openCall struct {
	permit *Permit
	done   func(circuit.Score)
}

// Compare lets the bytes of a program decide on the settings of a subject and
// on what happens to it: calls, answers, pauses, and interventions by hand.
// Calls overlap where a permit is answered later. It compares the subject with
// the model after every step.
func Compare(t *testing.T, program []byte, subject func(*Circuit) Subject) {
	c := &comparison{T: t, program: program[:min(len(program), 1000)]}
	c.model = c.settings()
	c.model.Enter(circuit.Closed)
	first := c.model.Phases
	c.subject = subject(c.model)
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

func (c *comparison) settings() *Circuit {
	m := &Circuit{OpenFor: func(openings int) time.Duration { return min(time.Second<<min(openings-1, 3), 5*time.Second) }}
	m.FailureRate = []float64{0.5, 0.3, 1}[c.next()%3]
	m.MinCalls = 1 + c.next()%8
	m.Window = 10 * time.Second
	m.WindowCalls = []int{0, 0, 4, 10}[c.next()%4]
	m.ConsecutiveFailures = 1 + c.next()%6
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
