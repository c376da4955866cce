package sim

import (
	"context"
	"slices"
	"time"
)

var background = context.Background()

// invite lets the first calls begin, which bring about the others.
func (w *world) invite() {
	s := w.scenario
	switch {
	case s.Users > 0:
		for range s.Users {
			w.think()
		}
	case s.Trace != nil:
		(&replay{world: w, rest: s.Trace}).next()
	case s.Every > 0:
		w.after(0, &regular{world: w}, 0)
	default:
		p := &poisson{world: w, mean: float64(time.Second) / s.Rate}
		p.next()
	}
}

// until is when the last call begins.
func (s *Scenario) until() time.Duration {
	if s.Until > 0 {
		return min(s.Until, s.Horizon)
	}
	return s.Horizon
}

// poisson is calls that know nothing of one another.
type poisson struct {
	*world
	mean float64
}

func (p *poisson) next() {
	gap := max(1, time.Duration(p.traffic.ExpFloat64()*p.mean))
	if p.now+gap < p.scenario.until() {
		p.after(gap, p, 0)
	}
}

func (p *poisson) happen(int) {
	p.next()
	p.dial()
}

// regular is calls exactly as far apart. Multiplied, not added, the times stay exact.
type regular struct {
	*world
	number int
}

func (r *regular) happen(int) {
	r.number++
	if at := time.Duration(r.number) * r.scenario.Every; at < r.scenario.until() {
		r.after(at-r.now, r, 0)
	}
	r.dial()
}

// replay is the calls of a trace.
type replay struct {
	*world
	rest  Trace
	times []time.Duration // of the calls of the element under way
}

func (r *replay) next() {
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

func (r *replay) happen(int) {
	r.times = r.times[1:]
	r.next()
	r.dial()
}

// user is somebody who thinks, calls, waits and thinks again.
type user struct{ *world }

func (u user) happen(int) { u.dial() }

// think lets a user begin his next call, by and by.
func (w *world) think() {
	d := time.Duration(w.traffic.ExpFloat64() * float64(w.scenario.Think))
	if w.now+d < w.scenario.until() {
		w.after(max(1, d), user{w}, 0)
	}
}
