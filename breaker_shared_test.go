package backoff_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

var errElsewhere = errors.New("others found it down")

// rumour is a fleet that says what it is told to say, and writes down what it
// is asked.
type rumour struct {
	closed, halfOpen backoff.SharedState // the answers, by state
	asked            []backoff.State
	wake             func()
	lease            time.Duration
	opened           []int
	shut             int
	during           func()
}

func (r *rumour) Consult(_ context.Context, _ string, wake func()) backoff.SharedState {
	r.ask(backoff.StateClosed)
	r.wake = wake
	return r.closed
}

func (r *rumour) Probe(_ context.Context, _ string, timeout time.Duration) backoff.SharedState {
	r.ask(backoff.StateHalfOpen)
	r.lease = timeout
	return r.halfOpen
}

func (r *rumour) ask(s backoff.State) {
	r.asked = append(r.asked, s)
	if r.during != nil {
		r.during()
	}
}

func (r *rumour) Opened(_ string, openFor time.Duration, openings int) {
	r.opened = append(r.opened, int(openFor/time.Second), openings)
}

func (r *rumour) Closed(string) { r.shut++ }

// sharing returns a breaker that hears a rumour. It opens for exactly 5, 10, 20
// s.
func sharing(r *rumour) *backoff.Breaker {
	return &backoff.Breaker{Name: "db", Shared: r, ConsecutiveFailures: 3, ConsecutiveSpan: -1, Jitter: backoff.NoJitter}
}

var (
	isOpen = backoff.SharedState{State: backoff.StateOpen, For: 3 * time.Second, Openings: 2, Err: errElsewhere}
	isHeld = backoff.SharedState{State: backoff.StateHalfOpen, Err: errElsewhere, Openings: 2}
)

func TestABreakerAsksItsFleetOnceUntilItIsWoken(t *testing.T) {
	for name, b := range map[string]*backoff.Breaker{"": {}, "timed": {SlowCall: time.Minute}} {
		bubble(t, name, func(t *testing.T) {
			var r rumour
			b.Name, b.Shared = "db", &r
			require.Equal(t, 10, feed(b, 10, nil))
			require.Len(t, r.asked, 1)
			r.wake()
			r.wake()
			require.Equal(t, 10, feed(b, 10, nil))
			require.Len(t, r.asked, 2)
		})
	}
}

func TestAFleetIsWokenForATimedBreakerToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rumour
		b := sharing(&r)
		b.SlowCall = time.Second
		feed(b, 1, nil)
		time.Sleep(time.Hour)
		r.wake()
		feed(b, 1, nil)
		require.Len(t, r.asked, 2)
		require.Zero(t, b.Stats().Slow, "the call is timed, not the circuit")
	})
}

func TestAFleetIsNotAskedOfAnOpenCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rumour{closed: isOpen}
		b := sharing(&r)
		feed(b, 1, nil)
		time.Sleep(3*time.Second - 1)
		require.Zero(t, feed(b, 1, nil))
		require.Equal(t, []backoff.State{backoff.StateClosed}, r.asked)
	})
}

func TestAHintOpensTheCircuitOfAProcessThatKnowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rumour{closed: isOpen}
		b := sharing(&r)
		b.MinCalls = -1
		var seen []backoff.Transition
		b.Observer = onTransition(func(c backoff.Transition) { seen = append(seen, c) })
		err := b.Do(t.Context(), func(context.Context) error { panic("called") })
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.ErrorIs(t, err, errElsewhere)
		require.Len(t, seen, 1)
		require.Equal(t, backoff.TriggerShared, seen[0].Trigger)
		require.Equal(t, "shared", seen[0].Trigger.String())
		require.Equal(t, 3*time.Second, seen[0].RetryAfter)
		require.Empty(t, r.opened, "what was heard is not passed on")

		time.Sleep(3 * time.Second)
		r.closed = backoff.SharedState{}
		require.Equal(t, 3, feed(b, 3, nil))
		require.Equal(t, backoff.StateClosed, b.State())
		require.Equal(t, 1, r.shut)
	})
}

func TestTheFleetsOpeningsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rumour{closed: isOpen}
		b := sharing(&r)
		feed(b, 1, nil)
		require.Equal(t, 2, b.Stats().Openings)
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, feed(b, 1, errOutage))
		require.Equal(t, []int{20, 3}, r.opened, "the third time in a row")

		r = rumour{closed: backoff.SharedState{State: backoff.StateOpen, For: time.Second, Openings: 1 << 20}}
		b = sharing(&r)
		feed(b, 1, nil)
		require.Equal(t, 1<<16-1, b.Stats().Openings, "as far as there are numbers")
	})
}

func TestAProcessThatThrivesTrustsItsOwnEyes(t *testing.T) {
	for name, b := range map[string]*backoff.Breaker{"window": {}, "window of calls": {WindowCalls: 30}} {
		bubble(t, name, func(t *testing.T) {
			var r rumour
			b.Name, b.Shared = "db", &r
			feed(b, 19, nil)
			r.closed = isOpen
			r.wake()
			require.Equal(t, 0, feed(b, 1, nil), "19 calls are not enough")

			b.Reset()
			r.closed = backoff.SharedState{}
			feed(b, 20, nil)
			for _, hint := range []backoff.SharedState{isOpen, isHeld} {
				r.closed = hint
				r.wake()
				require.Equal(t, 1, feed(b, 1, nil), "20 are")
			}
			feed(b, 1, errOutage)
			r.closed = isOpen
			r.wake()
			require.Equal(t, 0, feed(b, 1, nil), "but not after a failure")

			b.Reset()
			r.closed = backoff.SharedState{}
			feed(b, 4, errOutage)
			feed(b, 16, nil)
			r.closed = isOpen
			r.wake()
			require.Equal(t, 1, feed(b, 1, nil), "20 with those that failed before")
		})
	}
}

func TestSuccessesOfLongAgoAreNoReasonToThinkThatItThrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rumour
		b := sharing(&r)
		feed(b, 1000, nil)
		time.Sleep(time.Hour)
		r.closed = isOpen
		r.wake()
		require.Equal(t, 0, feed(b, 1, nil))
	})
}

func TestAHintOfAHalfOpenFleetHasTheNextCallAskForTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rumour{closed: isHeld, halfOpen: isHeld}
		b := sharing(&r)
		var why backoff.Trigger
		b.Observer = onTransition(func(c backoff.Transition) { why = c.Trigger })
		err := b.Do(t.Context(), func(context.Context) error { panic("called") })
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.ErrorIs(t, err, errElsewhere)
		require.ErrorContains(t, err, "circuit half-open")
		require.Equal(t, backoff.StateHalfOpen, err.(*backoff.OpenError).State)
		require.Equal(t, backoff.TriggerShared, why)
		require.Equal(t, []backoff.State{backoff.StateClosed, backoff.StateHalfOpen}, r.asked)
		require.Equal(t, backoff.StateHalfOpen, b.State())
		require.Equal(t, 5*time.Second, r.lease)
		require.Equal(t, 0, feed(b, 10, nil))

		r.closed, r.halfOpen = backoff.SharedState{}, backoff.SharedState{}
		require.Equal(t, 10, feed(b, 10, nil))
		require.Equal(t, backoff.StateClosed, b.State())
		require.Equal(t, 1, r.shut)
	})
}

func TestAProbeWaitsForItsFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rumour
		b := sharing(&r)
		feed(b, 3, errOutage)
		require.Equal(t, []int{5, 1}, r.opened)
		time.Sleep(5 * time.Second)
		r.halfOpen = isHeld
		require.Equal(t, 0, feed(b, 10, nil), "another process probes")
		r.halfOpen = isOpen
		require.Equal(t, 0, feed(b, 10, nil))
		require.Equal(t, backoff.StateOpen, b.State(), "and has failed")
		time.Sleep(3 * time.Second)
		r.halfOpen = backoff.SharedState{State: backoff.StateOpen}
		require.Equal(t, 0, feed(b, 1, nil), "for no time at all is not for ever")
		require.Equal(t, backoff.StateHalfOpen, b.State())
		r.halfOpen = backoff.SharedState{}
		require.Equal(t, 1, feed(b, 1, errOutage))
		require.Equal(t, []int{5, 1, 20, 3}, r.opened)
	})
}

func TestMaxRetryAfterBoundsTheFleetToo(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Minute: time.Minute, -1: 1000 * time.Hour} {
		bubble(t, limit.String(), func(t *testing.T) {
			r := rumour{closed: backoff.SharedState{State: backoff.StateOpen, For: 1000 * time.Hour}}
			b := sharing(&r)
			b.MaxRetryAfter = limit
			feed(b, 1, nil)
			require.Equal(t, want, b.Stats().RetryAfter)
		})
	}
}

func TestAHintThatComesTooLateIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rumour{closed: isOpen}
		b := sharing(&r)
		r.during = func() { r.during = nil; b.Reset() }
		require.Equal(t, 1, feed(b, 1, nil), "the circuit that was asked for is no more")
		require.Equal(t, backoff.StateClosed, b.State())
		require.Equal(t, 0, feed(b, 1, nil))
		require.Equal(t, backoff.StateOpen, b.State())

		time.Sleep(3 * time.Second)
		require.Equal(t, backoff.StateHalfOpen, b.State())
		r.halfOpen = backoff.SharedState{}
		r.during = func() { r.during = nil; b.Trip() }
		require.Equal(t, 0, feed(b, 1, nil), "a lease counts for its own phase only")
	})
}

func TestOnlyABreakerThatEnforcesTakesPartInAFleet(t *testing.T) {
	for _, mode := range []backoff.Mode{backoff.ModeObserve, backoff.ModeForcedClosed, backoff.ModeForcedOpen} {
		bubble(t, mode.String(), func(t *testing.T) {
			r := rumour{closed: isOpen, halfOpen: isHeld}
			b := sharing(&r)
			b.OpenFor = backoff.Constant(time.Second)
			b.Force(mode)
			feed(b, 3, errOutage)
			time.Sleep(time.Second)
			feed(b, 2, nil)
			require.Empty(t, r.asked)
			require.Empty(t, r.opened)
			require.Zero(t, r.shut)
		})
	}
}

func TestTheFleetIsAskedAgainAfterARamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rumour
		b := sharing(&r)
		b.RampUp = 10 * time.Second
		feed(b, 3, errOutage)
		time.Sleep(5 * time.Second)
		feed(b, 2, nil)
		asked := len(r.asked)
		time.Sleep(11 * time.Second)
		feed(b, 2, nil)
		require.Len(t, r.asked, asked+1)
	})
}

func TestAllowAsksTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rumour{closed: isOpen}
		_, err := sharing(&r).Allow()
		require.ErrorIs(t, err, backoff.ErrOpen)
	})
}

func TestWakeDoesNotKeepABreakerAlive(t *testing.T) {
	var r rumour
	b := &backoff.Breaker{Name: "db", Shared: &r}
	feed(b, 1, nil)
	gone := weak.Make(b)
	b = nil
	for range 100 {
		runtime.GC()
		if gone.Value() == nil {
			break
		}
	}
	require.Nil(t, gone.Value())
	r.wake()
}

// broken is a fleet that says so.
type broken struct{ backoff.Shared }

func (broken) Validate() error { return errElsewhere }

func TestAFleetNeedsAName(t *testing.T) {
	err := (&backoff.Breaker{Shared: new(rumour)}).Validate()
	require.ErrorContains(t, err, "Breaker.Name is empty")
	require.NoError(t, sharing(new(rumour)).Validate())
	b := &backoff.Breaker{Name: "db", Shared: broken{}}
	require.ErrorIs(t, b.Validate(), errElsewhere)
	require.ErrorIs(t, b.Do(t.Context(), func(context.Context) error { return nil }), errElsewhere)
}
