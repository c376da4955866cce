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
	switch {
	case s.Users > 0:
		for range s.Users {
			w.think()
		}
	case s.Trace != nil:
		(&traceTraffic{simulation: w, rest: s.Trace}).scheduleNext()
	case s.Every > 0:
		w.after(0, &regularTraffic{simulation: w}, 0)
	default:
		p := &poissonTraffic{simulation: w, meanGap: float64(time.Second) / s.Rate}
		p.scheduleNext()
	}
}

// until returns when calls stop beginning.
func (s *Scenario) until() time.Duration {
	if s.Until > 0 {
		return min(s.Until, s.Horizon)
	}
	return s.Horizon
}

// A poissonTraffic makes calls that are independent of each other.
type poissonTraffic struct {
	*simulation
	meanGap float64
}

func (p *poissonTraffic) scheduleNext() {
	gap := max(1, time.Duration(p.traffic.ExpFloat64()*p.meanGap))
	if p.now+gap < p.scenario.until() {
		p.after(gap, p, 0)
	}
}

func (p *poissonTraffic) handle(int) {
	p.scheduleNext()
	p.startUserCall()
}

// A regularTraffic makes calls at exactly equal intervals. The times are
// multiplied, not added, and so stay exact.
type regularTraffic struct {
	*simulation
	calls int
}

func (r *regularTraffic) handle(int) {
	r.calls++
	if at := time.Duration(r.calls) * r.scenario.Every; at < r.scenario.until() {
		r.after(at-r.now, r, 0)
	}
	r.startUserCall()
}

// A traceTraffic makes the calls of a trace.
type traceTraffic struct {
	*simulation
	rest  Trace
	times []time.Duration // of the calls of the current element
}

func (r *traceTraffic) scheduleNext() {
	for len(r.times) == 0 && len(r.rest) > 0 {
		a := r.rest[0]
		r.rest = r.rest[1:]
		for range a.Count {
			r.times = append(r.times, a.At+time.Duration(r.traffic.Float64()*float64(a.For)))
		}
		slices.Sort(r.times)
	}
	if len(r.times) > 0 && r.times[0] < r.scenario.until() {
		r.after(r.times[0]-r.now, r, 0)
	}
}

func (r *traceTraffic) handle(int) {
	r.times = r.times[1:]
	r.scheduleNext()
	r.startUserCall()
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
