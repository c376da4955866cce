package sim

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// FindCliff looks between lo and hi for the point at which a client stops to recover in all
// seeds, by bisection, until the two sides are within tolerance. It takes for granted that what is
// worse is not survived better.
func FindCliff(s Scenario, c Client, axis CliffAxis, lo, hi, tolerance float64, o Options) (Cliff, error) {
	if !(lo > 0 && hi > lo && tolerance > 0) {
		return Cliff{}, fmt.Errorf("cliff: from %v to %v within %v, want 0 < from < to, and more than 0", lo, hi, tolerance)
	}
	looked := 0
	told, most := o.Progress, 2+int(math.Ceil(math.Log2((hi-lo)/tolerance)))
	if told != nil {
		o.Progress = func(done, total int) { told(looked*total+done, most*total) }
	}
	survives := func(x float64) (bool, error) {
		varied, err := s.at(axis, x)
		if err != nil {
			return false, err
		}
		r, err := Compare(varied, []Client{c}, o)
		looked++
		return err == nil && r[0].Never == 0, err
	}
	if ok, err := survives(lo); err != nil || !ok {
		return Cliff{Unsafe: lo}, err
	}
	if ok, err := survives(hi); err != nil || ok {
		return Cliff{Safe: hi}, err
	}
	for hi-lo > tolerance {
		middle := (lo + hi) / 2
		ok, err := survives(middle)
		if err != nil {
			return Cliff{}, err
		}
		if ok {
			lo = middle
		} else {
			hi = middle
		}
	}
	return Cliff{Safe: lo, Unsafe: hi}, nil
}

// at is the scenario at a point of the axis.
func (s Scenario) at(axis CliffAxis, x float64) (Scenario, error) {
	if s.Fault.For == 0 {
		return s, errors.New("cliff: the scenario has no fault to recover from")
	}
	if axis == CliffDip {
		longer := seconds(x) - s.Fault.For
		s.Fault.For += longer
		s.Horizon += longer
		return s, nil
	}
	capacity := s.Server.Capacity()
	switch {
	case s.Server.Service.Mean() == 0:
		return s, errors.New("cliff: the load has no meaning where the service takes no time")
	case s.Users > 0:
		s.Users = int(x*capacity*(s.Think+s.Server.Service.Mean()).Seconds() + 0.5)
	case s.Every > 0:
		s.Every = time.Duration(float64(time.Second) / (x * capacity))
	case s.Trace != nil:
		return s, errors.New("cliff: the load of a trace is what it is")
	default:
		s.Rate = x * capacity
	}
	return s, nil
}
