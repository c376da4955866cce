package circuit

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/nightly"
)

// standard are the defaults of a breaker.
var standard = Config{SlowRate: -1}.WithDefaults()

func TestDefaultsStandForZeroAndNegativeMeansNoLimit(t *testing.T) {
	require.Equal(t, Config{
		FailureRate:     0.5,
		SlowRate:        0.5,
		MinCalls:        20,
		Window:          10 * time.Second,
		ConsecutiveSpan: time.Second,
		MaxProbes:       1,
		ProbeSuccesses:  2,
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

// 576 bytes in all; the other 256 are those of a breaker.
func TestAPhaseIsSmall(t *testing.T) {
	const refusal = 16
	require.LessOrEqual(t, int(unsafe.Sizeof(Live{})+refusal), 112)
	require.LessOrEqual(t, int(unsafe.Sizeof(failed{})), 208)
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

// world is a circuit and all that its caller keeps. It is a comparable value,
// so that worlds which were met before are not visited again.
type world struct {
	state  State
	age    time.Duration
	good   int // calls of the closed phase; its window forgets none
	bad    int
	slow   int
	row    int // failures and throttled calls since the last success
	busy   int // throttled calls since then
	passed int // probes of the half-open phase that succeeded
	out    [4]given
	given  int
}

// given is a permit that the world holds. Those that were answered stay, for the
// user's own rule.
type given struct {
	Permit
	ends     time.Duration // age of the phase
	answered bool
}

// letter is an input of the alphabet: something that happens to a world.
type letter struct {
	Input
	late  time.Duration // Tick: how much time passes before it
	of    int           // Answer, Rule: which permit
	stale bool          // Advise: it is about another phase
}

func (l letter) String() string {
	names := [...]string{"tick", "extend", "ask", "answer", "rule", "trip", "reset", "force", "advise"}
	return fmt.Sprintf("%s%+v of %d after %d", names[l.Kind], l.Input, l.of, l.late)
}

// alphabet returns everything that can happen to a circuit.
func alphabet() []letter {
	letters := []letter{
		{Input: Input{Kind: Tick}, late: 1},
		{Input: Input{Kind: Tick}, late: 2},
		{Input: Input{Kind: Ask}},
		{Input: Input{Kind: Ask, Hold: true}},
		{Input: Input{Kind: Trip}},
		{Input: Input{Kind: Reset}},
		{Input: Input{Kind: Advise, Advice: Closed}},
		{Input: Input{Kind: Advise, Advice: Open, For: 1, Openings: 3}},
		{Input: Input{Kind: Advise, Advice: Open, For: 1}, stale: true},
		{Input: Input{Kind: Advise, Advice: Open}},
		{Input: Input{Kind: Advise, Advice: HalfOpen, ProbeTimeout: 2}},
	}
	for _, m := range []Mode{Enforce, Observe, ForcedOpen, ForcedClosed, Invalid} {
		letters = append(letters, letter{Input: Input{Kind: Force, Mode: m}})
	}
	for of := range len(world{}.out) {
		letters = append(letters,
			letter{Input: Input{Kind: Answer, Score: Good}, of: of},
			letter{Input: Input{Kind: Answer, Score: Good, Slow: true}, of: of},
			letter{Input: Input{Kind: Answer, Score: Throttled}, of: of},
			letter{Input: Input{Kind: Answer, Score: Throttled, Slow: true, Rest: 3}, of: of},
			letter{Input: Input{Kind: Answer, Score: Unsent}, of: of},
			letter{Input: Input{Kind: Answer, Score: Hung}, of: of},
			letter{Input: Input{Kind: Answer, Score: Bad}, of: of},
			letter{Input: Input{Kind: Answer, Score: Bad, Rest: 3}, of: of},
			letter{Input: Input{Kind: Answer, Score: None}, of: of},
			letter{Input: Input{Kind: Rule}, of: of})
	}
	return letters
}

// explorer tries all sequences of letters up to a length.
type explorer struct {
	*testing.T
	config Config
	seen   map[world]bool
}

// explore visits the worlds that sequences of letters lead to.
func explore(t *testing.T, c Config, first world, length int) int {
	e := &explorer{T: t, config: c, seen: map[world]bool{first: true}}
	letters, frontier := alphabet(), []world{first}
	for range length {
		var next []world
		for _, w := range frontier {
			for _, l := range letters {
				if after, ok := e.visit(w, l); ok {
					next = append(next, after)
				}
			}
		}
		frontier = next
	}
	return len(e.seen)
}

// visit lets a letter happen to a world and checks what comes of it. It reports
// whether the world after it is new.
func (e *explorer) visit(w world, l letter) (after world, isNew bool) {
	if (l.Kind == Answer || l.Kind == Rule) && l.of >= w.given || l.Kind == Answer && w.out[l.of].answered {
		return w, false
	}
	w.age += l.late
	in := w.input(l)
	next, effects := Step(&e.config, w.state, &in)
	if effects.Draw {
		next, _ = Step(&e.config, next, &Input{Kind: Extend, For: time.Duration(next.Openings)})
	}
	after = w.follow(in, l, next, effects)
	if bad := e.broken(w, in, after, effects); bad != "" {
		e.Fatalf("%s\nbefore:  %#v\ninput:   %v\nafter:   %#v\neffects: %+v", bad, w, l, after, effects)
	}
	if e.seen[after] {
		return after, false
	}
	e.seen[after] = true
	return after, true
}

// input fills in what the caller knows.
func (w *world) input(l letter) Input {
	in := l.Input
	in.Age, in.Permit.Generation = w.age, w.state.Generation-uint32(number(l.stale))
	if in.Kind == Tick {
		in.ProbeTimeout = 1
	}
	if in.Kind == Answer || in.Kind == Rule {
		in.Permit = w.out[l.of].Permit
	}
	if w.state.Kind != Closed || w.state.Mode > Observe {
		return in
	}
	if in.Kind == Answer && in.Permit.Generation == w.state.Generation && in.Score != None {
		w.good, w.bad = w.good+number(in.Score == Good), w.bad+number(in.Score >= Unsent)
		w.slow += number(in.Slow && in.Score != Throttled)
		w.row, w.busy = w.row+1, w.busy+number(in.Score == Throttled)
		if in.Score == Good {
			w.row, w.busy = 0, 0
		}
		in.Calls.New = uint64(number(in.Score == Good))
	}
	in.Calls.Good, in.Calls.Dated = uint64(w.good), uint64(w.good)
	in.Calls.Bad, in.Calls.Slow = uint64(w.bad), uint64(w.slow)
	return in
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// follow returns the world after a step.
func (w world) follow(in Input, l letter, next State, e Effects) world {
	if in.Kind == Answer {
		if e.Changed || next.Probes.Successes > w.state.Probes.Successes {
			w.passed++
		}
		w.out[l.of].answered = true
	}
	if e.Counts && w.given < len(w.out) {
		w.out[w.given] = given{Permit: Permit{next.Generation, e.Probe}, ends: w.age + next.Span}
		w.given++
	}
	w.state = next
	if e.Changed {
		w.age, w.good, w.bad, w.slow, w.row, w.busy, w.passed = 0, 0, 0, 0, 0, 0, 0
	}
	return w
}

// broken returns the promise that a step did not keep.
func (e *explorer) broken(before world, in Input, after world, effects Effects) string {
	again, same := Step(&e.config, before.state, &in)
	switch was, is := before.state, after.state; {
	case same != effects || !effects.Draw && again != is:
		return "the same input has another effect"
	case is.Generation-was.Generation != uint32(number(effects.Changed)):
		return "the generation does not count the phases"
	case !effects.Changed && is.Phase != was.Phase:
		return "a phase changes"
	case in.Kind != Force && is.Mode != was.Mode:
		return "the mode changes by itself"
	}
	for _, check := range []func(world, Input, world, Effects) string{e.admission, e.answers, e.probes, e.throttled, e.changes, e.advice, e.modes} {
		if bad := check(before, in, after, effects); bad != "" {
			return bad
		}
	}
	return e.future(after)
}

// admission checks who is admitted, and how many probe.
func (e *explorer) admission(before world, in Input, after world, effects Effects) string {
	was := before.state
	switch {
	case in.Kind != Ask && (effects.Admitted || effects.Counts || effects.Probe != 0):
		return "a call is admitted that did not ask"
	case in.Kind == Ask && was.Kind == Closed && was.Mode <= Observe && !effects.Counts:
		return "a closed circuit does not admit"
	case in.Kind == Ask && was.Kind == Open && effects.Counts:
		return "a call of an open circuit counts"
	case in.Hold && was.Kind == HalfOpen && effects.Counts:
		return "a call probes while another process does"
	case (effects.Probe != 0) != (effects.Counts && was.Kind == HalfOpen):
		return "a probe is not of a half-open circuit"
	}
	out, held := 0, after.state.Probes.Leases.Count(after.age)
	for _, g := range after.out[:after.given] {
		if g.Probe > 0 && g.Generation == after.state.Generation && g.ends > after.age && !g.answered {
			out++
		}
	}
	switch {
	case after.state.Kind != HalfOpen && held > 0:
		return "there are probes of a circuit that is not half-open"
	case after.state.Kind == HalfOpen && after.given < len(after.out) && out != held:
		return "the circuit counts other probes than there are"
	case max(out, held) > after.state.Probes.most(&e.config):
		return "too many probes are under way"
	}
	return ""
}

// answers checks that only the answers of the current phase count, once and in
// time.
func (e *explorer) answers(before world, in Input, after world, effects Effects) string {
	if in.Kind != Answer && in.Kind != Rule && in.Kind != Advise {
		return ""
	}
	was, is := before.state, after.state
	was.Probes.Leases = was.Probes.Leases.after(in.Age)
	is.Probes.Leases = is.Probes.Leases.after(in.Age)
	if in.Permit.Generation != was.Generation && (is != was || effects != Effects{}) {
		return "a stale permit has an effect"
	}
	return ""
}

// probes checks that a probe that fails opens the circuit, and that as many
// successes as are wanted close it, however late they are.
func (e *explorer) probes(before world, in Input, after world, effects Effects) string {
	was := before.state
	if in.Kind != Answer || was.Kind != HalfOpen || was.Mode > Observe || in.Permit.Generation != was.Generation {
		return ""
	}
	if in.Score == None {
		return ""
	}
	success := in.Score == Good && !in.Slow
	switch {
	case !success && in.Permit.Probe < was.Probes.Served && effects.Changed:
		return "a probe failed after a later one succeeded, and the circuit changes"
	case !success && in.Permit.Probe >= was.Probes.Served && (after.state.Kind != Open || !effects.Draw):
		return "a probe failed and the circuit is not open"
	case success && before.passed+1 == e.config.ProbeSuccesses && after.state.Kind != Closed:
		return "enough probes succeeded and the circuit is not closed"
	}
	return ""
}

// throttled checks that a throttled answer of a closed circuit has no
// consequence while anything succeeds, and that it opens the circuit where
// nothing succeeded for a whole window. before has the calls with this answer.
func (e *explorer) throttled(before world, in Input, after world, effects Effects) string {
	was := before.state
	if in.Kind != Answer || in.Score != Throttled || was.Kind != Closed || was.Mode > Observe || in.Permit.Generation != was.Generation {
		return ""
	}
	c := &e.config
	enough := before.row >= c.MinCalls && in.Age >= c.Window && before.good == 0
	if c.WindowCalls > 0 {
		enough = before.row >= max(c.MinCalls, c.WindowCalls)
	}
	switch is := after.state; {
	case effects.Changed != (enough && c.FailureRate >= 0):
		return "a throttled answer does not do to the circuit what it should"
	case !effects.Changed && (is.Failures.InARow != was.Failures.InARow || is.Failures.Rest != was.Failures.Rest || in.Calls.Bad != uint64(before.bad)):
		return "a throttled answer counts as a failure"
	case !effects.Changed && int(is.Failures.Throttled) != before.busy:
		return "the throttled answers are not counted"
	}
	return ""
}

// advice checks when the fleet is heard.
func (e *explorer) advice(before world, in Input, after world, effects Effects) string {
	was := before.state
	switch {
	case in.Kind != Advise || !effects.Changed:
		return ""
	case was.Mode != Enforce:
		return "a circuit that does not enforce listens to its fleet"
	case was.Kind == Open || in.Advice == Closed || in.Advice == was.Kind:
		return "the fleet says nothing new and has an effect"
	case in.Advice == Open && in.For <= 0:
		return "the fleet opens a circuit for no time"
	case after.state.Kind != in.Advice:
		return "the fleet says one thing and the circuit does another"
	case effects.Draw:
		return "what the fleet says goes back to the fleet"
	}
	return ""
}

// changes checks which inputs may begin which phase, and what the phase is
// like.
func (e *explorer) changes(before world, in Input, after world, effects Effects) string {
	was, is := before.state, after.state
	if !effects.Changed || in.Kind == Force || in.Kind == Reset {
		return ""
	}
	failed := in.Kind == Answer && (in.Score > Good || in.Score == Good && in.Slow)
	demanded := in.Kind == Trip || in.Kind == Rule || in.Kind == Advise
	passed := in.Kind == Answer && in.Score == Good && !in.Slow && before.passed+1 == e.config.ProbeSuccesses
	switch {
	case is.Kind == Open && !failed && !demanded:
		return "the circuit opens though nothing failed"
	case is.Kind == Open && in.Kind != Advise && (is.Openings == 0 || is.Span < time.Duration(is.Openings) || is.Span < in.Rest):
		return "the circuit is not open for as long as was drawn, or as the service asks"
	case is.Kind == HalfOpen && in.Kind != Advise && (was.Kind != Open || in.Age < was.Span):
		return "an open circuit ends before its time"
	case is.Kind == HalfOpen && in.Kind != Advise && is.Span < was.Span:
		return "a probe has less time than the circuit was open"
	case is.Kind == Closed && (was.Kind != HalfOpen || !passed):
		return "the circuit closes without the probes that it takes"
	case is.Failures != Failures{} || is.Probes != Probes{}:
		return "a phase begins with what another one learned"
	}
	return ""
}

// modes checks that a mode holds until it is changed.
func (e *explorer) modes(_ world, in Input, after world, effects Effects) string {
	is := after.state
	admits := map[Mode]bool{Observe: true, ForcedClosed: true}
	switch {
	case in.Kind == Ask && admits[is.Mode] != effects.Admitted && is.Mode != Enforce:
		return "the mode does not say who is admitted"
	case in.Kind == Ask && is.Mode == Enforce && effects.Admitted != effects.Counts:
		return "a call is admitted that does not count"
	case is.Mode > Observe && effects.Counts:
		return "a call counts in a forced circuit"
	case is.Mode > Observe && effects.Changed && in.Kind != Force:
		return "a forced circuit changes"
	case is.Mode == ForcedOpen && is.Kind != Open, is.Mode == ForcedClosed && is.Kind != Closed:
		return "a forced circuit is in another state"
	}
	return ""
}

// future checks what must be possible from here: an open circuit ends, and a
// half-open one admits a probe.
func (e *explorer) future(w world) string {
	if w.state.Mode > Observe {
		return ""
	}
	switch w.state.Kind {
	case Open:
		over, _ := Step(&e.config, w.state, &Input{Kind: Tick, Age: w.state.Span})
		early, _ := Step(&e.config, w.state, &Input{Kind: Tick, Age: w.state.Span - 1})
		if over.Kind != HalfOpen || early != w.state {
			return "an open circuit does not end at its time"
		}
	case HalfOpen:
		if _, effects := Step(&e.config, w.state, &Input{Kind: Ask, Age: w.age + w.state.Span}); !effects.Counts {
			return "probes that hang keep others away"
		}
	}
	return ""
}

// TestEverySequenceOfInputsKeepsThePromises tries all sequences up to a length.
// What the calls are that a letter speaks of, and how much time has passed, is
// part of the world.
func TestEverySequenceOfInputsKeepsThePromises(t *testing.T) {
	base := Config{FailureRate: 0.5, SlowRate: 0.5, MinCalls: 2, Window: 3, ConsecutiveFailures: 2, ConsecutiveSpan: 1, MaxProbes: 1, ProbeSuccesses: 2}
	several := base
	several.MaxProbes, several.ProbeSuccesses, several.RampUp = 2, 1, 2
	any := base
	any.MaxProbes, any.FailureRate, any.SlowRate = MostProbes, -1, -1
	never := base
	never.ConsecutiveFailures, never.FailureRate, never.SlowRate = -1, -1, -1
	calls := base
	calls.WindowCalls = 3
	for name, c := range map[string]Config{"one probe": base, "two probes": several, "any number of probes": any, "no rule": never, "window of calls": calls} {
		t.Run(name, func(t *testing.T) {
			length := nightly.Size(5, 7)
			worlds := explore(t, c, world{}, length)
			halfOpen := world{state: State{Phase: Phase{Generation: 7, Kind: HalfOpen, Span: 2, Openings: 1}}}
			worlds += explore(t, c, halfOpen, length)
			t.Log(worlds, "worlds")
		})
	}
	invalid := world{state: State{Phase: Phase{Mode: Invalid}}}
	require.Less(t, explore(t, base, invalid, 5), 50, "nothing changes but the time")
}
