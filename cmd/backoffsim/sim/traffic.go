package sim

import (
	"context"
	"slices"
	"time"
)

// background is the context of calls without a deadline.
var background = context.Background()

// startTraffic schedules the first calls. Each call, or its user, schedules the
// next one.
func (w *simulation) startTraffic() {
	s := w.scenario
	for range s.Users {
		w.think()
	}
	switch {
	case s.Users > 0:
	case s.Trace != nil:
		w.startArrivals(w.traced(s.Trace))
	case s.Every > 0:
		w.startArrivals(w.regular(s.Every))
	default:
		w.startArrivals(w.poisson(s.Rate))
	}
}

// until returns when calls stop beginning.
func (s *Scenario) until() time.Duration {
	if s.Until > 0 {
		return min(s.Until, s.Horizon)
	}
	return s.Horizon
}

// An arrivals makes calls that do not depend on each other.
type arrivals struct {
	*simulation
	next func() time.Duration // when the next call begins
}

func (w *simulation) startArrivals(next func() time.Duration) {
	(&arrivals{w, next}).schedule()
}

func (a *arrivals) schedule() {
	if at := a.next(); at < a.scenario.until() {
		a.after(at-a.now, a, 0)
	}
}

func (a *arrivals) handle(int) {
	a.schedule()
	a.startUserCall()
}

// poisson returns the times of calls at random.
func (w *simulation) poisson(rate float64) func() time.Duration {
	meanGap := float64(time.Second) / rate
	return func() time.Duration {
		return w.now + min(max(1, time.Duration(w.traffic.ExpFloat64()*meanGap)), forever-w.now)
	}
}

// regular returns times at exactly equal intervals. They are multiplied, not
// added, and so stay exact.
func (w *simulation) regular(every time.Duration) func() time.Duration {
	calls := -1
	return func() time.Duration {
		calls++
		return time.Duration(calls) * every
	}
}

// traced returns the times of a trace.
func (w *simulation) traced(rest Trace) func() time.Duration {
	var times []time.Duration // of the calls of the current element
	return func() time.Duration {
		for len(times) == 0 && len(rest) > 0 {
			for range rest[0].Count {
				times = append(times, rest[0].At+time.Duration(w.traffic.Float64()*float64(rest[0].For)))
			}
			slices.Sort(times)
			rest = rest[1:]
		}
		if len(times) == 0 {
			return forever
		}
		at := times[0]
		times = times[1:]
		return at
	}
}

// A user of a closed loop calls, waits for the call to end, and thinks.
type user struct{ *simulation }

func (u user) handle(int) { u.startUserCall() }

// think schedules the next call of a user after a random time, if there is one.
func (w *simulation) think() {
	if s := w.scenario; s.Calls > 0 {
		if w.thought == s.Calls {
			return
		}
		w.thought++
	}
	d := time.Duration(w.traffic.ExpFloat64() * float64(w.scenario.Think))
	if w.now+d < w.scenario.until() {
		w.after(max(1, d), user{w}, 0)
	}
}
