package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/sony/gobreaker/v2"

	"github.com/gobackoff/backoff"
)

var breakers = table{
	name:      "breakers",
	libraries: []string{ours, "gobreaker", "failsafe-go"},
	rows: []row{
		{"one-failure", "the first call fails: the circuit is",
			said(each(circuits, afterOneFailure), map[string]string{"failsafe-go": "documented"}), "TestOneFailureDoesNotOpenACircuit"},
		{"half-failing", "every second of 1000 calls in 10 s fails: the circuit has",
			said(each(circuits, afterHalfFailing), map[string]string{"gobreaker": "documented: six failures in a row", "failsafe-go": "documented: one failure"}), "TestBreakerOpensAtHalfOfTwentyCalls"},
		{"rare-errors", "of 100,000 calls in 100 s one in 1000 fails, by chance: the circuit has",
			said(each(circuits, afterRareErrors), map[string]string{"failsafe-go": "documented: one failure"}), "TestBreakerIgnoresRareErrors"},
		{"cancelled-callers", "100 calls in 10 s are cancelled by their callers: the circuit is",
			with(each(circuits, cancelledCallers), map[string]observation{
				"gobreaker":   also(cancelledCallers, circuits["gobreaker"], excluding, "IsExcluded"),
				"failsafe-go": also(cancelledCallers, circuits["failsafe-go"], notHandling, "HandleIf"),
			}), "TestBreakerSetsTheCallersEndApart"},
		{"hanging-service", "100 calls in 10 s run into their callers' deadlines: the circuit is",
			each(circuits, afterCallersEnd(shortly)), "TestBreakerSetsTheCallersEndApart"},
		{"panicking-calls", "100 calls in 10 s panic: the circuit has",
			each(circuits, afterPanics), "TestBreakerCountsPanicsAndPassesThemOn"},
		{"probe-panics", "the first probe of a half-open circuit panics; an hour later calls are",
			each(circuits, afterAProbe(func() { panic("in the probe") })), "TestBreakerIsNotWedgedByAProbe"},
		{"probe-exits", "it ends its goroutine (runtime.Goexit)",
			each(circuits, afterAProbe(runtime.Goexit)), "TestBreakerIsNotWedgedByAProbe"},
		{"probe-hangs", "it never returns",
			each(circuits, afterAHangingProbe), "TestBreakerIsNotWedgedByAProbe"},
		{"probe-flood", "200 calls meet a half-open circuit: admitted at the same time",
			each(circuits, probesAtOnce), "TestBreakerAdmitsNoMoreProbesThanItSays"},
		{"listener-asks", "a listener for changes asks the breaker for its state: the call that opens the circuit",
			askingListeners, "TestBreakerSurvivesItsObserver"},
		{"open-error", "the error of a refused call, and whether it matches the failure that opened the circuit",
			each(circuits, errorOfAnOpenCircuit), "TestBreakerErrorTellsWhatToDo"},
		{"open-in-a-loop", "a loop of 9 attempts, 1 s apart, around an open circuit: how long it takes",
			map[string]observation{ours: virtual(oursOpenInALoop),
				"failsafe-go": or(virtual(failsafeOpenInALoop(false)), virtual(failsafeOpenInALoop(true)), "AbortOnErrors")},
			"TestAnOpenBreakerInsideEndsTheCallWithBothErrors"},
	},
}

// A breaker of a library, with its defaults.
type aCircuit struct {
	do    func(ctx context.Context, op operation) error
	state func() string
}

var circuits = map[string]func() aCircuit{
	ours: func() aCircuit {
		b := new(backoff.Breaker)
		return aCircuit{b.Do, func() string { return b.State().String() }}
	},
	"gobreaker":   func() aCircuit { return gobreakers(gobreaker.Settings{}) },
	"failsafe-go": func() aCircuit { return failsafes(circuitbreaker.NewWithDefaults[any]()) },
}

func gobreakers(settings gobreaker.Settings) aCircuit {
	b := gobreaker.NewCircuitBreaker[any](settings)
	return aCircuit{func(ctx context.Context, op operation) error {
		_, err := b.Execute(func() (any, error) { return nil, op(ctx) })
		return err
	}, func() string { return b.State().String() }}
}

func failsafes(b circuitbreaker.CircuitBreaker[any]) aCircuit {
	executor := failsafe.With(b)
	return aCircuit{func(ctx context.Context, op operation) error {
		return executor.Run(func() error { return op(ctx) })
	}, func() string { return b.State().String() }}
}

func (c aCircuit) fail() { _ = c.do(context.Background(), failing(new(int))) }

// opened returns a circuit that failures have opened.
func opened(t *testing.T, make func() aCircuit) aCircuit {
	c := make()
	for range 100 {
		if c.state() == "open" {
			return c
		}
		c.fail()
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("it does not open")
	return c
}

// halfOpened returns one whose open time is over; most find out when they are
// asked.
func halfOpened(t *testing.T, make func() aCircuit) aCircuit {
	c := opened(t, make)
	time.Sleep(2 * time.Minute)
	return c
}

func afterOneFailure(_ *testing.T, make func() aCircuit) string {
	c := make()
	c.fail()
	return c.state()
}

func afterHalfFailing(_ *testing.T, make func() aCircuit) string {
	return hasOpened(make(), 1000, 10*time.Millisecond, func(i int) bool { return i%2 == 1 })
}

// The failures come by chance, the same ones for every library.
func afterRareErrors(_ *testing.T, make func() aCircuit) string {
	random := rand.New(rand.NewPCG(1, 2))
	return hasOpened(make(), 100_000, time.Millisecond, func(int) bool { return random.IntN(1000) == 0 })
}

// hasOpened tells whether a circuit opens in the course of calls.
func hasOpened(c aCircuit, calls int, gap time.Duration, fails func(i int) bool) string {
	for i := range calls {
		_ = c.do(context.Background(), func(context.Context) error {
			if fails(i) {
				return errDown
			}
			return nil
		})
		if c.state() == "open" {
			return "opened"
		}
		time.Sleep(gap)
	}
	return "stayed closed"
}

func shortly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 50*time.Millisecond)
}

func afterCallersEnd(begin func(context.Context) (context.Context, context.CancelFunc)) func(*testing.T, func() aCircuit) string {
	return func(t *testing.T, make func() aCircuit) string {
		c, state := make(), ""
		for range 100 {
			ctx, cancel := begin(t.Context())
			time.AfterFunc(60*time.Millisecond, cancel)
			_ = c.do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			state = c.state() // an open circuit may soon let a probe pass
			time.Sleep(40 * time.Millisecond)
		}
		return state
	}
}

var cancelledCallers = afterCallersEnd(context.WithCancel)

func excluding() aCircuit {
	return gobreakers(gobreaker.Settings{IsExcluded: func(err error) bool { return errors.Is(err, context.Canceled) }})
}

func notHandling() aCircuit {
	return failsafes(circuitbreaker.NewBuilder[any]().HandleIf(func(_ any, err error) bool { return err != nil && !errors.Is(err, context.Canceled) }).Build())
}

func afterPanics(_ *testing.T, make func() aCircuit) string {
	c := make()
	for range 100 {
		panicking(func() { _ = c.do(context.Background(), func(context.Context) error { panic("in the call") }) })
		if c.state() == "open" {
			return "opened"
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "stayed closed"
}

func afterAProbe(end func()) func(*testing.T, func() aCircuit) string {
	return func(t *testing.T, make func() aCircuit) string {
		c := halfOpened(t, make)
		done := goneWith(func() { _ = c.do(context.Background(), func(context.Context) error { end(); return nil }) })
		<-done
		return anHourLater(c)
	}
}

// goneWith runs a function that may panic or leave its goroutine.
func goneWith(run func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		run()
	}()
	return done
}

func afterAHangingProbe(t *testing.T, make func() aCircuit) string {
	c := halfOpened(t, make)
	release := newGate()
	done := goneWith(func() { _ = c.do(context.Background(), func(context.Context) error { release.wait(); return nil }) })
	seen := anHourLater(c)
	release.open()
	<-done
	return seen
}

// anHourLater tells whether one of a few calls is admitted.
func anHourLater(c aCircuit) string {
	time.Sleep(time.Hour)
	for range 3 {
		calls := 0
		_ = c.do(context.Background(), func(context.Context) error { calls++; return nil })
		if calls > 0 {
			return "admitted"
		}
		time.Sleep(2 * time.Minute)
	}
	return "still refused"
}

func probesAtOnce(t *testing.T, make func() aCircuit) string {
	return fmt.Sprint(admitted(halfOpened(t, make), 200))
}

// admitted tells how many of so many calls are under way at the same time.
func admitted(c aCircuit, calls int) int {
	release := newGate()
	var mu sync.Mutex
	count := 0
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			_ = c.do(context.Background(), func(context.Context) error {
				mu.Lock()
				count++
				mu.Unlock()
				release.wait()
				return nil
			})
		})
	}
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	defer all.Wait()
	defer release.open()
	return count
}

func errorOfAnOpenCircuit(t *testing.T, make func() aCircuit) string {
	c := opened(t, make)
	err := c.do(t.Context(), func(context.Context) error { return nil })
	text := regexp.MustCompile(`\d\.\d+s`).ReplaceAllString(err.Error(), "5s") // its jitter
	return fmt.Sprintf("%q, %s", text, map[bool]string{true: "yes", false: "no"}[errors.Is(err, errDown)])
}

func oursOpenInALoop(t *testing.T) string {
	b := new(backoff.Breaker)
	b.Trip()
	p := backoff.Policy{MaxAttempts: 9, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
	began := time.Now()
	_ = p.Do(t.Context(), b.Wrap(failing(new(int))))
	return time.Since(began).String()
}

func failsafeOpenInALoop(abort bool) observation {
	return func(*testing.T) string {
		b := circuitbreaker.NewWithDefaults[any]()
		b.Open()
		p := retrypolicy.NewBuilder[any]().WithMaxAttempts(9).WithDelay(time.Second)
		if abort {
			p = p.AbortOnErrors(circuitbreaker.ErrOpen)
		}
		began := time.Now()
		_ = failsafe.With(p.Build(), b).Run(func() error { return errDown })
		return time.Since(began).String()
	}
}

// A gate lets nobody through until it is opened.
type gate chan struct{}

func newGate() gate  { return make(gate) }
func (g gate) wait() { <-g }
func (g gate) open() { close(g) }

// A listening circuit calls a listener when its state changes, and lets it ask
// for the state.
type listening func(listener func(ask func())) (fail func())

var listeners = map[string]listening{
	ours: func(listener func(ask func())) func() {
		var b backoff.Breaker
		b.Observer = func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventTransition {
				listener(func() { b.State() })
			}
		}
		return func() { _ = b.Do(context.Background(), failing(new(int))) }
	},
	"gobreaker": func(listener func(ask func())) func() {
		var b *gobreaker.CircuitBreaker[any]
		b = gobreaker.NewCircuitBreaker[any](gobreaker.Settings{OnStateChange: func(string, gobreaker.State, gobreaker.State) {
			listener(func() { b.State() })
		}})
		return func() { _, _ = b.Execute(func() (any, error) { return nil, errDown }) }
	},
	"failsafe-go": func(listener func(ask func())) func() {
		var b circuitbreaker.CircuitBreaker[any]
		b = circuitbreaker.NewBuilder[any]().OnStateChanged(func(circuitbreaker.StateChangedEvent) {
			listener(func() { b.State() })
		}).Build()
		executor := failsafe.With(b)
		return func() { _ = executor.Run(func() error { return errDown }) }
	},
}

// In real time, as a call that waits for a lock cannot be told from one that
// runs in virtual time.
var askingListeners = func() map[string]observation {
	all := map[string]observation{}
	for name, l := range listeners {
		all[name] = func(*testing.T) string {
			done := make(chan struct{})
			fail := l(func(ask func()) { ask(); close(done) })
			go func() {
				for range 30 {
					fail()
				}
			}()
			select {
			case <-done:
				return "goes on"
			case <-time.After(time.Second):
				return "never returns"
			}
		}
	}
	return all
}()
